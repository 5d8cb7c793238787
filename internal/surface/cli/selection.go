package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newSelection() *cobra.Command {
	cmd := group("selection", "Selections: one task, several sessions, one is picked",
		`  drydock run -e shop --best-of 3 "the total ignores the discount"
  drydock selection show last
  drydock selection pick last ses_...`,
		a.newSelectionList(), a.newSelectionShow(), a.newSelectionPick())
	cmd.Long = `Selections: one task, several sessions, one is picked.

Where a command wants a SELECTION, "last" is the newest one, and the beginning
of an identifier will do when only one selection has it.`
	return cmd
}

func (a *app) newSelectionList() *cobra.Command {
	var q client.SelectionQuery
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List selections, newest first",
		Example: `  drydock selection list --status waiting
  drydock selection list -e shop --json`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			items, err := client.Collect(limit, func(p client.Page) (api.List[core.Selection], error) { return c.Selections(ctx, q, p) })
			if err != nil {
				return err
			}
			names := a.environmentNames(ctx, c)
			st := a.style(a.env.Stdout)
			t := a.table([]string{"SELECTION", "STATE", "ENV", "TITLE", "SESSIONS", "PICKS", "PICKED", "UPDATED"}, 3)
			t.Paint = func(col int, cell string) string {
				if col == 1 {
					return st.State(cell)
				}
				return cell
			}
			return list(a, items, `No selections. Start one with: drydock run -e ENV --best-of 3 "TASK"`, t, func(s core.Selection) []string {
				return []string{
					string(s.ID), string(s.State), names(s.Environment), s.Title, fmt.Sprint(s.Sessions), string(s.Rule),
					first(string(s.Picked), "-"), a.ago(s.Updated),
				}
			})
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&q.Environment, "env", "e", "", "only of this environment")
	f.StringVar(&q.State, "status", "", "only in this state: open, waiting, picking, picked")
	f.StringVar(&q.Owner, "owner", "", "only of this person")
	f.IntVarP(&limit, "limit", "n", 50, "at most so many (0: all)")
	_ = cmd.RegisterFlagCompletionFunc("env", a.completeEnvironments)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"open", "waiting", "picking", "picked"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) newSelectionShow() *cobra.Command {
	return &cobra.Command{
		Use: "show SELECTION", Short: "Compare the sessions of a selection, best first",
		Long: `Compare the sessions of a selection, best first: what is proven comes before
what is not, then the rule of the selection orders (of "person": the smallest
first). SIZE is files and lines of the change, CHECKS are test cases that were
fixed, kept and broken, TIME is time at work.`,
		Example: `  drydock selection show last
  drydock selection show last --json | jq -r '.candidates[0].session'`,
		Args: exactly("SELECTION"), ValidArgsFunction: a.completeSelections,
		RunE: a.withSelection(func(ctx context.Context, c *client.Client, id core.SelectionID, _ []string) error {
			d, err := c.Selection(ctx, id)
			if err != nil {
				return err
			}
			return a.selectionShown(ctx, c, d)
		}),
	}
}

func (a *app) newSelectionPick() *cobra.Command {
	return &cobra.Command{
		Use: "pick SELECTION SESSION", Short: "Pick one session; the others are put aside",
		Long: `Pick one session of a selection. The others are stopped, their changes closed
with a comment that names the picked one, and archived; their branches and
evidence stay. A pick is not an approval: the picked change is reviewed and
merged like every other. Merging a change of a selection picks it, too.`,
		Example: `  drydock selection pick last ses_...`,
		Args:    exactly("SELECTION", "SESSION"), ValidArgsFunction: a.completeSelections,
		RunE: a.withSelection(func(ctx context.Context, c *client.Client, id core.SelectionID, args []string) error {
			session, err := sessionRef(ctx, c, args[0])
			if err != nil {
				return err
			}
			d, err := c.Pick(ctx, id, session)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(d)
			}
			return a.printf("%s is picked in %s; the others are put aside\n", session, id)
		}),
	}
}

// selectionRef resolves "last" and beginnings of identifiers.
func selectionRef(ctx context.Context, c *client.Client, ref string) (core.SelectionID, error) {
	if id, err := core.ParseID[core.SelectionID]("sel_", ref); err == nil {
		return id, nil
	}
	const op = "cli.selection"
	limit := core.MaxPage
	if ref == "last" {
		limit = 1
	}
	l, err := c.Selections(ctx, client.SelectionQuery{}, client.Page{Limit: limit})
	if err != nil {
		return "", err
	}
	var found []core.SelectionID
	for _, s := range l.Items {
		if ref == "last" || strings.HasPrefix(strings.TrimPrefix(string(s.ID), "sel_"), strings.TrimPrefix(ref, "sel_")) {
			found = append(found, s.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", core.E(op, core.NotFound, nil, "no selection %s", ref).WithHint("drydock selection list shows them")
	}
	return "", core.E(op, core.Invalid, nil, "%d selections begin with %s", len(found), ref).WithHint("give more of the identifier")
}

func (a *app) withSelection(f func(ctx context.Context, c *client.Client, id core.SelectionID, args []string) error) func(*cobra.Command, []string) error {
	return a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := selectionRef(ctx, c, args[0])
		if err != nil {
			return err
		}
		return f(ctx, c, id, args[1:])
	})
}

// selectionShown prints a selection with its table.
func (a *app) selectionShown(ctx context.Context, c *client.Client, d api.SelectionDetail) error {
	if a.json {
		return a.document(d)
	}
	s := d.Selection
	state := string(s.State)
	if s.Reason != "" {
		state += " (" + s.Reason + ")"
	}
	budget := ""
	if s.Budget.Money > 0 {
		budget = render.Money(s.Budget.Money) + " of the whole"
	}
	if s.Budget.WallClock > 0 {
		budget = strings.TrimPrefix(budget+", "+render.Duration(s.Budget.WallClock)+" each", ", ")
	}
	names := a.environmentNames(ctx, c)
	err := a.pairs(
		[2]string{"selection", string(s.ID)}, [2]string{"title", s.Title}, [2]string{"state", state}, [2]string{"environment", names(s.Environment)},
		[2]string{"owner", render.Person(s.Owner)}, [2]string{"picks", string(s.Rule)}, [2]string{"base", s.Base + " at " + render.Short(s.BaseCommit)},
		[2]string{"snapshot", string(s.Snapshot)}, [2]string{"budget", budget}, [2]string{"picked", string(s.Picked)}, [2]string{"created", a.ago(s.Created)},
	)
	if err != nil {
		return err
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.candidateTable(d.Candidates, names(s.Environment))
}

// candidateTable compares candidates, best first.
func (a *app) candidateTable(list []core.Candidate, env string) error {
	st := a.style(a.env.Stdout)
	t := a.table([]string{"", "SESSION", "MODEL", "SEED", "VERDICT", "SIZE", "CHECKS", "COST", "TIME", "TOKENS", "CHANGE", "WHY"}, 11)
	t.Paint = func(col int, cell string) string {
		if col == 4 {
			return st.State(cell)
		}
		return cell
	}
	for _, c := range list {
		mark := fmt.Sprint(c.Rank)
		if c.Picked {
			mark += "*"
		}
		t.Row(mark, string(c.Session), first(c.Model, "-"), seedOf(c), standing(c), sizeOf(c), checksOf(c), costOf(c), timeOf(c.Active),
			tokensOf(c.Usage), changeOf(c, env), strings.Join(c.Reasons[:min(1, len(c.Reasons))], ""))
	}
	return written(t.Write(a.env.Stdout))
}

// standing is a candidate's verdict, or what its session does.
func standing(c core.Candidate) string {
	if !c.Ended {
		return string(c.State)
	}
	return first(c.Verdict, string(c.Run), string(c.State))
}

func seedOf(c core.Candidate) string {
	if c.Unseeded {
		return fmt.Sprintf("%d (not taken)", c.Seed)
	}
	return fmt.Sprint(c.Seed)
}

func sizeOf(c core.Candidate) string {
	if c.Files == 0 {
		return "-"
	}
	return fmt.Sprintf("%s +%d -%d", render.Count(c.Files, "file"), c.Added, c.Removed)
}

func checksOf(c core.Candidate) string {
	if c.Fixed+c.Kept+c.Broken == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d/%d", c.Fixed, c.Kept, c.Broken)
}

func costOf(c core.Candidate) string {
	if c.Usage.Calls == 0 {
		return "-"
	}
	return render.Cost(c.Cost)
}

func timeOf(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return render.Duration(d)
}

func tokensOf(u core.Usage) string {
	if u.Calls == 0 {
		return "-"
	}
	return render.Thousands(u.Input + u.CacheRead + u.CacheWrite + u.Output)
}

func changeOf(c core.Candidate, env string) string {
	if c.Number == 0 {
		return "-"
	}
	return fmt.Sprintf("%s#%d %s", env, c.Number, c.Standing)
}

func (a *app) completeSelections(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(cmd, nil, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		if len(args) == 1 && cmd.Name() == "pick" {
			id, err := selectionRef(ctx, c, args[0])
			if err != nil {
				return nil, err
			}
			d, err := c.Selection(ctx, id)
			out := make([]cobra.Completion, 0, len(d.Candidates))
			for _, v := range d.Candidates {
				out = append(out, cobra.CompletionWithDesc(string(v.Session), standing(v)+" "+sizeOf(v)))
			}
			return out, err
		}
		if len(args) > 0 {
			return nil, nil
		}
		l, err := c.Selections(ctx, client.SelectionQuery{}, client.Page{Limit: 100})
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "the newest selection")}
		for _, s := range l.Items {
			out = append(out, cobra.CompletionWithDesc(string(s.ID), string(s.State)+" "+cleanTitle(s.Title)))
		}
		return out, err
	})
}
