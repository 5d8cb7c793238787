package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newSessionShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show SESSION",
		Short: "Show a session with its prompts and runs",
		Example: `  drydock session show last
  drydock session show last --json | jq .session.state`,
		Args: exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			return a.sessionShow(ctx, c, id)
		}),
	}
}

func (a *app) sessionShow(ctx context.Context, c *client.Client, id core.SessionID) error {
	s, err := c.Session(ctx, id)
	if err != nil {
		return err
	}
	prompts, err := c.Prompts(ctx, id)
	if err != nil {
		return err
	}
	runs, err := c.Runs(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]any{"session": s, "prompts": prompts, "runs": runs})
	}
	if err := a.sessionPairs(ctx, c, s); err != nil {
		return err
	}
	byPrompt := map[core.PromptID]core.Run{}
	for _, r := range runs {
		byPrompt[r.Prompt] = r
	}
	st := a.style(a.env.Stdout)
	t := a.table([]string{"PROMPT", "BY", "STATE", "TEXT", "OUTCOME"}, 3)
	t.Paint = func(col int, cell string) string {
		if col == 2 {
			return st.State(cell)
		}
		return cell
	}
	for _, p := range prompts {
		r := byPrompt[p.ID]
		outcome := first(r.Verdict, r.Outcome)
		if r.Failure != nil {
			outcome = r.Failure.Message
		}
		t.Row(string(p.ID), p.Author.Handle, render.Words(string(p.State)), render.Cut(render.Line(p.Text), 80), render.Cut(render.Line(outcome), 40))
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return written(t.Write(a.env.Stdout))
}

func (a *app) sessionPairs(ctx context.Context, c *client.Client, s core.Session) error {
	names := a.environmentNames(ctx, c)
	change := ""
	if s.Change != "" {
		change = string(s.Change)
		if d, err := c.Change(ctx, string(s.Change)); err == nil {
			change = fmt.Sprintf("#%d %s (%s, %s)", d.Change.Number, d.Change.Title, d.Change.State, first(d.Change.Verdict, "no verdict"))
		}
	}
	state, reason, next := word(s), s.Reason, ""
	if s.View != nil {
		reason, next = s.View.Reason, s.View.Action
	}
	if reason != "" {
		state += " (" + reason + ")"
	}
	budget := ""
	if s.Budget.Money > 0 {
		budget = render.Money(s.Budget.Money)
	}
	if s.Budget.WallClock > 0 {
		if budget != "" {
			budget += ", "
		}
		budget += render.Duration(s.Budget.WallClock)
	}
	spent := ""
	if s.Usage.Calls > 0 {
		spent = fmt.Sprintf("%s in %s", render.Cost(s.Cost), render.Count(int(s.Usage.Calls), "model call"))
	}
	return a.pairs(
		[2]string{"session", string(s.ID)}, [2]string{"title", s.Title}, [2]string{"state", state}, [2]string{"next", next},
		[2]string{"environment", names(s.Environment)}, [2]string{"owner", render.Person(s.Owner)},
		[2]string{"blueprint", s.Blueprint}, [2]string{"agent", s.Agent}, [2]string{"model", s.Model},
		[2]string{"selection", string(s.Selection)}, [2]string{"base", s.Base}, [2]string{"branch", s.Branch}, [2]string{"head", render.Short(s.Head)},
		[2]string{"change", change}, [2]string{"budget", budget}, [2]string{"spent", spent},
		[2]string{"sandbox", string(s.Sandbox)}, [2]string{"created", a.ago(s.Created)}, [2]string{"updated", a.ago(s.Updated)},
	)
}
