package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

type sessionListOptions struct {
	client.SessionQuery
	limit int
}

func (a *app) newSessionList() *cobra.Command {
	var o sessionListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest first",
		Example: `  drydock session list
  drydock session list -e shop --status running
  drydock session list --owner alice --json`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error { return a.sessionList(ctx, c, o) }),
	}
	f := cmd.Flags()
	f.StringVarP(&o.Environment, "env", "e", "", "only of this environment")
	f.StringVar(&o.State, "status", "", "only in this state: queued, starting, running, waiting, idle, failed, ...")
	f.StringVar(&o.Owner, "owner", "", "only of this person")
	f.StringVar(&o.Text, "text", "", "only with this in the title")
	f.BoolVar(&o.Archived, "all", false, "also archived ones")
	f.IntVarP(&o.limit, "limit", "n", 50, "at most so many (0: all)")
	_ = cmd.RegisterFlagCompletionFunc("env", a.completeEnvironments)
	return cmd
}

func (a *app) sessionList(ctx context.Context, c *client.Client, o sessionListOptions) error {
	items, err := client.Collect(o.limit, func(p client.Page) (api.List[core.Session], error) {
		return c.Sessions(ctx, o.SessionQuery, p)
	})
	if err != nil {
		return err
	}
	names := a.environmentNames(ctx, c)
	st := a.style(a.env.Stdout)
	columns := []string{"SESSION", "STATE", "ENV", "TITLE", "OWNER", "COST", "UPDATED"}
	waits := slices.ContainsFunc(items, func(s core.Session) bool { return waitsFor(s) != "" })
	if waits {
		columns = append(columns, "WAITS FOR")
	}
	t := a.table(columns, 3)
	t.Paint = func(col int, cell string) string {
		if col == 1 {
			return st.State(cell)
		}
		return cell
	}
	return list(a, items, `No sessions. Start one with: drydock run -e ENV "TASK"`, t, func(s core.Session) []string {
		row := []string{string(s.ID), word(s), names(s.Environment), s.Title, s.Owner.Handle, cost(s), a.ago(s.Updated)}
		if waits {
			row = append(row, waitsFor(s))
		}
		return row
	})
}

// word is how a session stands: the word that the page shows too.
func word(s core.Session) string {
	if s.View == nil {
		return string(s.State)
	}
	return render.Words(string(s.View.Word))
}

// waitsFor is what a queued session waits for, and its place.
func waitsFor(s core.Session) string {
	const word = "waits for "
	at := strings.LastIndex(s.Reason, word)
	if s.State != core.SessionQueued || at < 0 {
		return ""
	}
	return s.Reason[at+len(word):]
}

func cost(s core.Session) string {
	if s.Usage.Calls == 0 {
		return "-"
	}
	return render.Cost(s.Cost)
}

// environmentNames finds names of environments; where that fails, the
// identifier has to do.
func (a *app) environmentNames(ctx context.Context, c *client.Client) func(core.EnvironmentID) string {
	names := map[core.EnvironmentID]string{}
	if !a.json {
		items, err := client.Collect(0, func(p client.Page) (api.List[core.Environment], error) { return c.Environments(ctx, p) })
		if err == nil {
			for _, e := range items {
				names[e.ID] = e.Name
			}
		}
	}
	return func(id core.EnvironmentID) string { return first(names[id], string(id)) }
}
