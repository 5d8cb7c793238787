package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/surface/client"
)

func (a *app) newEnvRm() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"remove"},
		Short:   "Remove environments with their builds and snapshots",
		Example: `  drydock env rm shop`,
		Args:    between(1, -1, "NAME"), ValidArgsFunction: a.completeEnvironments,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.each(args, "removed", func(name string) (string, error) {
				return name, c.RemoveEnvironment(ctx, name)
			})
		}),
	}
}
