package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

func (a *app) newSessionOpen() *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use:     "open SESSION",
		Short:   "Open the page of a session",
		Example: `  drydock session open last`,
		Args:    exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			if _, err := c.Session(ctx, id); err != nil {
				return err
			}
			url := c.URL() + "/sessions/" + string(id)
			if a.json {
				return a.document(map[string]string{"url": url})
			}
			if err := a.printf("%s\n", url); err != nil {
				return err
			}
			if printOnly || a.env.OpenURL == nil || !a.terminal(a.env.Stdout) {
				return nil
			}
			return a.env.OpenURL(url)
		}),
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "only print the address")
	return cmd
}
