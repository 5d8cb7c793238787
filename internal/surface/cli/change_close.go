package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

func (a *app) newChangeClose() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "close CHANGE", Short: "Close a change without merging it",
		Example: `  drydock change close shop#1 --reason "solved otherwise"`,
		Args:    exactly("CHANGE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			ch, err := c.CloseChange(ctx, args[0], reason)
			return a.changeState(ch, err)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) newChangeReopen() *cobra.Command {
	return &cobra.Command{
		Use: "reopen CHANGE", Short: "Open a closed change again",
		Example: `  drydock change reopen shop#1`,
		Args:    exactly("CHANGE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			ch, err := c.ReopenChange(ctx, args[0])
			return a.changeState(ch, err)
		}),
	}
}

func (a *app) changeState(ch core.Change, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.document(ch)
	}
	return a.printf("#%d is %s\n", ch.Number, ch.State)
}
