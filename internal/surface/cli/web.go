package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/surface/client"
)

func (a *app) newWeb() *cobra.Command {
	return &cobra.Command{
		Use: "web", Short: "Say where the page is, and make a code to sign in with",
		Long: `Print the address of the page and a one-use code that signs a browser in as the
holder of your token. The code is good once, within five minutes. It is typed
into the page and never stands in an address.`,
		Example: `  drydock web
  drydock web --json | jq -r .code`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			code, err := c.LoginCode(ctx)
			if err != nil {
				return err
			}
			page := first(code.URL, c.URL()) + "/"
			if a.json {
				return a.document(map[string]any{"url": page, "code": code.Code, "expires": code.Expires.Format(time.RFC3339)})
			}
			return a.pairs([2]string{"page", page}, [2]string{"code", spelled(code.Code) + " (once, within 5 minutes)"})
		}),
	}
}

// spelled is a code as people type it.
func spelled(code string) string {
	half := len(code) / 2
	return code[:half] + "-" + code[half:]
}
