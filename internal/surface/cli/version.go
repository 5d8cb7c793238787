package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the command and of the daemon",
		Example: `  drydock version`,
		Args:    noArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error {
			daemon := ""
			if c, err := a.connect(); err == nil {
				defer c.Close()
				ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				if who, err := c.Who(ctx); err == nil {
					daemon = who.Version
				}
			}
			if a.json {
				return a.document(map[string]string{"version": a.env.Version, "daemon": daemon})
			}
			return a.pairs([2]string{"drydock", a.env.Version}, [2]string{"daemon", first(daemon, "not reached")})
		}),
	}
}
