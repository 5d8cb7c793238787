package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

func (a *app) newEnvList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List environments and how they stand",
		Long: `List environments and how they stand:

  fresh      a build has lately found the snapshot right, at the head of its branch
  stale      no build has for twice its interval, or the branch has moved on
  failing    the last build failed; the last good snapshot stays in use
  building   a build is queued or running
  pinned     somebody went back to an earlier snapshot`,
		Example: `  drydock env list
  drydock env list --json | jq -r '.items[].name'`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			items, err := client.Collect(0, func(p client.Page) (api.List[core.Environment], error) { return c.Environments(ctx, p) })
			if err != nil {
				return err
			}
			return list(a, items, "No environments yet. Make one with: drydock env build URL|PATH",
				a.table([]string{"NAME", "SOURCE", "BRANCH", "STATE", "SNAPSHOT", "NEXT BUILD"}, 1),
				func(e core.Environment) []string {
					f := freshness(e)
					return []string{e.Name, e.Source, e.DefaultBranch, string(f.State), a.made(f), a.next(f)}
				})
		}),
	}
}

// freshness is how the server says that an environment stands.
func freshness(e core.Environment) core.Freshness {
	if e.Freshness == nil {
		return core.Freshness{}
	}
	return *e.Freshness
}

// made is the age of the snapshot in use.
func (a *app) made(f core.Freshness) string {
	switch {
	case f.Made.IsZero():
		return "none"
	case f.Old:
		return a.ago(f.Made) + " (old)"
	}
	return a.ago(f.Made)
}

// next is when an environment is built next.
func (a *app) next(f core.Freshness) string {
	switch {
	case f.State == core.EnvironmentBuilding:
		return "now"
	case f.Next.IsZero() && f.Refresh == 0:
		return "never by itself"
	case f.Next.IsZero():
		return "-"
	case !f.Next.After(a.env.Now()):
		return "due"
	}
	return a.ago(f.Next)
}
