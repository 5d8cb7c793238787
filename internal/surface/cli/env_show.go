package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

type envShowOptions struct {
	recipe bool
	log    bool
}

func (a *app) newEnvShow() *cobra.Command {
	var o envShowOptions
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show an environment, how it stands, and its builds",
		Example: `  drydock env show shop
  drydock env show shop --recipe   # the file it was built from
  drydock env show shop --log      # everything the last build printed`,
		Args:              exactly("NAME"),
		ValidArgsFunction: a.completeEnvironments,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.envShow(ctx, c, args[0], o)
		}),
	}
	cmd.Flags().BoolVar(&o.recipe, "recipe", false, "print the recipe")
	cmd.Flags().BoolVar(&o.log, "log", false, "print the log of the last build")
	return cmd
}

func (a *app) envShow(ctx context.Context, c *client.Client, name string, o envShowOptions) error {
	env, err := c.Environment(ctx, name)
	if err != nil {
		return err
	}
	if o.recipe {
		r, err := c.Recipe(ctx, name)
		if err != nil {
			return err
		}
		if a.json {
			return a.document(r)
		}
		return a.printf("%s", ensureNewline(render.Clean(r.Text)))
	}
	builds, err := c.Builds(ctx, name, client.Page{Limit: 10})
	if err != nil {
		return err
	}
	if o.log {
		return a.buildLog(ctx, c, env, builds.Items)
	}
	if a.json {
		return a.document(map[string]any{"environment": env, "builds": builds.Items})
	}
	if err := a.pairs(a.environmentPairs(env)...); err != nil {
		return err
	}
	return a.showBuilds(builds)
}

// environmentPairs are an environment, how it stands, and what comes next.
func (a *app) environmentPairs(env core.Environment) [][2]string {
	f := freshness(env)
	state := string(f.State)
	if f.Why != "" {
		state += ": " + f.Why
	}
	out := [][2]string{
		{"name", env.Name}, {"id", string(env.ID)}, {"source", env.Source}, {"branch", env.DefaultBranch}, {"state", state},
	}
	if !f.StaleSince.IsZero() {
		out = append(out, [2]string{"stale since", a.ago(f.StaleSince)})
	}
	if env.Snapshot == "" {
		out = append(out, [2]string{"snapshot", "no good build yet"})
	} else {
		out = append(out, [2]string{"snapshot", string(env.Snapshot)}, [2]string{"made", a.made(f)}, [2]string{"found right", a.ago(f.Checked)},
			[2]string{"commit", render.Short(f.Commit)})
	}
	if f.Head != "" && f.Head != f.Commit {
		out = append(out, [2]string{"head", render.Short(f.Head)})
	}
	every := "never by itself"
	if f.Refresh > 0 {
		every = "every " + render.Duration(f.Refresh)
	}
	next := a.next(f)
	if f.NextWhy != "" {
		next += " (" + f.NextWhy + ")"
	}
	return append(out, [2]string{"built", every}, [2]string{"next build", next})
}

func (a *app) showBuilds(builds api.List[core.Build]) error {
	if len(builds.Items) == 0 {
		return nil
	}
	st := a.style(a.env.Stdout)
	t := a.table([]string{"BUILD", "STATE", "COMMIT", "TOOK", "WHEN", "BY", "WHY"}, 6)
	t.Paint = func(col int, cell string) string {
		if col == 1 {
			return st.State(cell)
		}
		return cell
	}
	for _, b := range builds.Items {
		took, why := "", ""
		if !b.Finished.IsZero() {
			took = render.Duration(b.Finished.Sub(b.Created))
		}
		if b.Why != "" {
			why = "(" + b.Why + ")"
		}
		if b.Failure != nil {
			why = b.Failure.Message
		}
		t.Row(string(b.ID), string(b.State), render.Short(b.Commit), took, a.ago(b.Created), b.By, why)
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return written(t.Write(a.env.Stdout))
}

func (a *app) buildLog(ctx context.Context, c *client.Client, env core.Environment, builds []core.Build) error {
	if len(builds) == 0 {
		return core.E("cli.log", core.NotFound, nil, "environment %s has no build", env.Name)
	}
	return a.eachPage(func(after int64) (api.List[core.Event], error) {
		return c.BuildLog(ctx, builds[0].ID, after, core.MaxPage)
	}, func(ev core.Event) error {
		if a.json {
			return a.line(ev)
		}
		if ev.Kind != core.EventLog {
			return nil
		}
		return a.printf("%s", ensureNewline(render.Clean(render.Decode[core.LogData](ev).Text)))
	})
}
