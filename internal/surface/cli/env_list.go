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
		Short: "List environments",
		Example: `  drydock env list
  drydock env list --json | jq -r '.items[].name'`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			items, err := client.Collect(0, func(p client.Page) (api.List[core.Environment], error) { return c.Environments(ctx, p) })
			if err != nil {
				return err
			}
			return list(a, items, "No environments yet. Make one with: drydock env build URL|PATH",
				a.table([]string{"NAME", "SOURCE", "BRANCH", "READY", "UPDATED"}, 1),
				func(e core.Environment) []string {
					ready := "no"
					if e.Snapshot != "" {
						ready = "yes"
					}
					return []string{e.Name, e.Source, e.DefaultBranch, ready, a.ago(e.Updated)}
				})
		}),
	}
}
