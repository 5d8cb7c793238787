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
		Short: "Show an environment and its builds",
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
	ready := "no good build yet"
	if env.Snapshot != "" {
		ready = string(env.Snapshot)
	}
	if err := a.pairs(
		[2]string{"name", env.Name}, [2]string{"id", string(env.ID)}, [2]string{"source", env.Source},
		[2]string{"branch", env.DefaultBranch}, [2]string{"snapshot", ready}, [2]string{"updated", a.ago(env.Updated)},
	); err != nil {
		return err
	}
	return a.showBuilds(builds)
}

func (a *app) showBuilds(builds api.List[core.Build]) error {
	if len(builds.Items) == 0 {
		return nil
	}
	st := a.style(a.env.Stdout)
	t := a.table([]string{"BUILD", "STATE", "COMMIT", "TOOK", "WHEN", "WHY"}, 5)
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
		if b.Failure != nil {
			why = b.Failure.Message
		}
		t.Row(string(b.ID), string(b.State), render.Short(b.Commit), took, a.ago(b.Created), why)
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
