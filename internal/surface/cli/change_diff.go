package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/surface/client"
)

func (a *app) newChangeDiff() *cobra.Command {
	return &cobra.Command{
		Use: "diff CHANGE", Short: "Show the diff of a change",
		Example: `  drydock change diff shop#1
  drydock change diff shop#1 > fix.patch`,
		Args: exactly("CHANGE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.ChangeDiff(ctx, args[0])
			return a.diff(d, err)
		}),
	}
}
