package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newSessionDiff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff SESSION",
		Short: "Show what a session changed so far",
		Example: `  drydock session diff last
  drydock session diff last > work.patch`,
		Args: exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			d, err := c.SessionDiff(ctx, id)
			return a.diff(d, err)
		}),
	}
}

// diff prints a diff: painted and clean on a terminal, byte for byte into a
// file, where a patch must stay a patch.
func (a *app) diff(d api.Diff, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.document(d)
	}
	if d.Diff == "" {
		a.note("Nothing changed.\n")
		return nil
	}
	text := d.Diff
	if a.terminal(a.env.Stdout) {
		text = a.style(a.env.Stdout).Diff(render.Clean(text))
	}
	if err := a.printf("%s", ensureNewline(text)); err != nil {
		return err
	}
	if d.Cut {
		a.note("The diff is longer than the daemon sends; fetch the branch to see all of it.\n")
	}
	return nil
}
