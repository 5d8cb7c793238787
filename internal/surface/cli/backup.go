package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a consistent copy of the daemon's state",
		Long: `Write a consistent copy of the daemon's state as a tar: database, repositories,
evidence. The file appears whole or not at all, readable by you only: it holds
everything people told the daemon. "-" is standard output.`,
		Example: `  drydock backup /backup/drydock-$(date +%F).tar
  drydock backup - | ssh store.example.com 'cat > drydock.tar'`,
		Args: exactly("FILE"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if args[0] == "-" {
				return c.Backup(ctx, a.env.Stdout)
			}
			if err := copyTo(args[0], 0o600, func(w io.Writer) error { return c.Backup(ctx, w) }); err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return core.E("cli.backup", core.Internal, err, "look at %s", args[0])
			}
			if a.json {
				return a.document(map[string]any{"file": args[0], "bytes": info.Size()})
			}
			return a.printf("%s (%s)\n", args[0], render.Bytes(info.Size()))
		}),
	}
}
