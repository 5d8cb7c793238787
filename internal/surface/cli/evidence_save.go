package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"drydock/internal/surface/client"
)

func (a *app) newEvidenceSave() *cobra.Command {
	return &cobra.Command{
		Use: "save EVIDENCE FILE", Short: "Save a whole signed bundle as a tar",
		Example: `  drydock evidence save shop#1 proof.tar
  drydock evidence verify proof.tar`,
		Args: exactly("EVIDENCE", "FILE"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := evidenceRef(ctx, c, args[0])
			if err != nil {
				return err
			}
			if args[1] == "-" {
				return c.EvidenceBundle(ctx, id, a.env.Stdout)
			}
			if err := copyTo(args[1], 0o644, func(w io.Writer) error { return c.EvidenceBundle(ctx, id, w) }); err != nil {
				return err
			}
			if a.json {
				return a.document(map[string]string{"evidence": string(id), "file": args[1]})
			}
			a.note("Check it anywhere with: drydock evidence verify %s\n", args[1])
			return a.printf("%s\n", args[1])
		}),
	}
}
