package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/surface/client"
)

func (a *app) newSessionRm() *cobra.Command {
	return &cobra.Command{
		Use:     "rm SESSION...",
		Aliases: []string{"archive"},
		Short:   "Archive sessions: the sandbox goes, log and change stay",
		Example: `  drydock session rm ses_...
  drydock session rm last`,
		Args: between(1, -1, "SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.each(args, "archived", func(ref string) (string, error) {
				id, err := sessionRef(ctx, c, ref)
				if err != nil {
					return ref, err
				}
				return string(id), c.Archive(ctx, id)
			})
		}),
	}
}
