package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

func (a *app) newSandbox() *cobra.Command {
	return group("sandbox", "Sandboxes: the machines there are now", `  drydock sandbox list`, a.newSandboxList())
}

func (a *app) newSandboxList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List sandboxes",
		Example: `  drydock sandbox list`,
		Args:    noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			items, err := c.Sandboxes(ctx)
			if err != nil {
				return err
			}
			return list(a, items, "No sandbox runs.",
				a.table([]string{"SANDBOX", "STATE", "FOR", "SESSION", "SNAPSHOT", "CREATED"}, 3),
				func(s api.Sandbox) []string {
					return []string{string(s.ID), string(s.State), s.Purpose, string(s.Session), string(s.Snapshot), a.ago(s.Created)}
				})
		}),
	}
}
