package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newToken() *cobra.Command {
	return group("token", "Tokens: who may speak to the daemon",
		`  drydock token create alice --name "Alice Example" --email alice@example.com
  drydock token list`,
		a.newTokenCreate(), a.newTokenList(), a.newTokenRevoke())
}

func (a *app) newTokenCreate() *cobra.Command {
	var req api.CreateToken
	cmd := &cobra.Command{
		Use: "create HANDLE", Short: "Make a token for a person",
		Long: `Make a token for a person, who is created when unknown. The secret is printed
once, to standard output, and stored nowhere.`,
		Example: `  drydock token create alice --name "Alice Example" --email alice@example.com
  DRYDOCK_TOKEN=$(drydock token create bob) drydock change approve shop#1`,
		Args: exactly("HANDLE"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			req.Handle = args[0]
			made, err := c.CreateToken(ctx, req)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(made)
			}
			a.note("Token %s of %s. The secret is shown this once:\n", made.Token.ID, render.Line(made.Token.User))
			return a.printf("%s\n", made.Secret)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Name, "name", "", "name, for commits")
	f.StringVar(&req.Email, "email", "", "address, for commits")
	f.StringVar(&req.Label, "label", "", "what the token is for")
	return cmd
}

func (a *app) newTokenList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List tokens, without their secrets",
		Example: `  drydock token list`,
		Args:    noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			items, err := client.Collect(0, func(p client.Page) (api.List[api.Token], error) { return c.Tokens(ctx, p) })
			if err != nil {
				return err
			}
			return list(a, items, "No tokens.", a.table([]string{"TOKEN", "PERSON", "KIND", "LABEL", "CREATED", "LAST USED", "REVOKED"}, 3),
				func(t api.Token) []string {
					revoked := ""
					if !t.Revoked.IsZero() {
						revoked = a.ago(t.Revoked)
					}
					return []string{string(t.ID), t.User, t.Kind, t.Label, a.ago(t.Created), a.ago(t.LastUsed), revoked}
				})
		}),
	}
}

func (a *app) newTokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN...", Short: "Revoke tokens",
		Example: `  drydock token revoke tok_...`,
		Args:    between(1, -1, "TOKEN"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.each(args, "revoked", func(id string) (string, error) {
				return id, c.RevokeToken(ctx, core.TokenID(id))
			})
		}),
	}
}
