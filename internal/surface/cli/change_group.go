package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newChange() *cobra.Command {
	cmd := group("change", "Changes: look at proposed work, approve, merge",
		`  drydock change list
  drydock change show shop#1
  drydock change approve shop#1
  drydock change merge shop#1 --squash`,
		a.newChangeList(), a.newChangeShow(), a.newChangeDiff(), a.newChangeEvidence(), a.newChangeComment(),
		a.newChangeApprove(), a.newChangeMerge(), a.newChangeClose(), a.newChangeReopen())
	cmd.Long = `Changes: look at proposed work, approve, merge.

Where a command wants a CHANGE, it takes ENVIRONMENT#NUMBER, the number alone
when only one repository has it, or the identifier. An open change that is one
of several for the same task is listed as "candidate": see drydock selection.`
	return cmd
}

type changeListOptions struct {
	client.ChangeQuery
	limit int
}

func (a *app) newChangeList() *cobra.Command {
	var o changeListOptions
	cmd := &cobra.Command{
		Use: "list", Short: "List changes, newest first",
		Example: `  drydock change list
  drydock change list --status open --json | jq -r '.items[].title'`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error { return a.changeList(ctx, c, o) }),
	}
	f := cmd.Flags()
	f.StringVar(&o.State, "status", "", "only open, merged or closed ones")
	f.StringVar(&o.Repository, "repository", "", "only of this repository")
	f.StringVar(&o.Session, "session", "", "only of this session")
	f.IntVarP(&o.limit, "limit", "n", 50, "at most so many (0: all)")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"open", "merged", "closed"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) changeList(ctx context.Context, c *client.Client, o changeListOptions) error {
	if o.Session != "" {
		id, err := sessionRef(ctx, c, o.Session)
		if err != nil {
			return err
		}
		o.Session = string(id)
	}
	items, err := client.Collect(o.limit, func(p client.Page) (api.List[core.Change], error) {
		return c.Changes(ctx, o.ChangeQuery, p)
	})
	if err != nil {
		return err
	}
	names := a.environmentNames(ctx, c)
	st := a.style(a.env.Stdout)
	t := a.table([]string{"CHANGE", "STATE", "VERDICT", "TITLE", "BY", "UPDATED"}, 3)
	t.Paint = func(col int, cell string) string {
		if col == 1 || col == 2 {
			return st.State(cell)
		}
		return cell
	}
	return list(a, items, "No changes.", t, func(ch core.Change) []string {
		state := string(ch.State)
		if ch.Candidate != "" {
			state = "candidate"
		}
		return []string{changeRef(ch, names), state, render.Words(first(ch.Verdict, "-")), ch.Title, authors(ch.Authors), a.ago(ch.Updated)}
	})
}

func authors(as []core.Author) string {
	handles := make([]string, len(as))
	for i, p := range as {
		handles[i] = p.Handle
	}
	return strings.Join(handles, ", ")
}
