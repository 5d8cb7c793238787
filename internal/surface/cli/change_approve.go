package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

type changeApproveOptions struct {
	head, note string
}

func (a *app) newChangeApprove() *cobra.Command {
	var o changeApproveOptions
	cmd := &cobra.Command{
		Use: "approve CHANGE", Short: "Approve the present state of a change",
		Long: `Approve one commit of a change: its newest, or the one given with --head, which
is refused when the change has moved on. Whoever wrote a prompt that led to the
change may not approve it.`,
		Example: `  drydock change approve shop#1
  drydock change approve shop#1 --head 3f2a91c0de --note "read, ran it"`,
		Args: exactly("CHANGE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			head := o.head
			d, err := c.Change(ctx, args[0])
			if err != nil {
				return err
			}
			if head, err = fullHead(head, d); err != nil {
				return err
			}
			ap, err := c.ApproveChange(ctx, args[0], head, o.note)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(ap)
			}
			if err := a.printf("approved #%d at %s\n", d.Change.Number, render.Short(ap.Head)); err != nil {
				return err
			}
			a.note("Merge it with: drydock change merge %s\n", args[0])
			return nil
		}),
	}
	cmd.Flags().StringVar(&o.head, "head", "", "the commit that was looked at")
	cmd.Flags().StringVar(&o.note, "note", "", "a word for the record")
	return cmd
}
