package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

type changeMergeOptions struct {
	squash, rebase bool
	head           string
}

func (a *app) newChangeMerge() *cobra.Command {
	var o changeMergeOptions
	cmd := &cobra.Command{
		Use: "merge CHANGE", Short: "Merge a change",
		Long: `Merge a change with a merge commit, or squashed, or rebased. A conflict, or a
missing approval, is refused and told.`,
		Example: `  drydock change merge shop#1
  drydock change merge shop#1 --squash`,
		Args: exactly("CHANGE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			method := "merge"
			switch {
			case o.squash:
				method = "squash"
			case o.rebase:
				method = "rebase"
			}
			head := o.head
			if head != "" {
				d, err := c.Change(ctx, args[0])
				if err != nil {
					return err
				}
				if head, err = fullHead(head, d); err != nil {
					return err
				}
			}
			ch, err := c.MergeChange(ctx, args[0], method, head)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(ch)
			}
			return a.printf("merged #%d into %s as %s\n", ch.Number, render.Line(ch.Base), render.Short(ch.Merge))
		}),
	}
	cmd.Flags().BoolVar(&o.squash, "squash", false, "as one commit")
	cmd.Flags().BoolVar(&o.rebase, "rebase", false, "commits put on top of the base")
	cmd.Flags().StringVar(&o.head, "head", "", "refuse when the change has moved on from this commit")
	cmd.MarkFlagsMutuallyExclusive("squash", "rebase")
	return cmd
}

// fullHead completes the beginning of a commit to the change's head; none is
// the head. A commit that is not the head is left to the daemon to refuse.
func fullHead(given string, d api.ChangeDetail) (string, error) {
	switch {
	case given == "":
		return d.Change.Head, nil
	case len(given) < 7:
		return "", core.E("cli.head", core.Invalid, nil, "--head %q is too short for a commit", given)
	case strings.HasPrefix(d.Change.Head, given):
		return d.Change.Head, nil
	}
	return given, nil
}
