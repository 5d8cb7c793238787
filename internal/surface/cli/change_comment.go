package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

func (a *app) newChangeComment() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use: `comment CHANGE "TEXT"`, Short: "Comment on a change, or on a line of it",
		Long: `Comment on a change. A comment that addresses the agent (it begins with @drydock)
becomes a prompt: the same change is updated.`,
		Example: `  drydock change comment shop#1 "@drydock please name the constant"
  drydock change comment shop#1 --at cart/total.go:31 "why not round here?"`,
		Args: between(2, -1, "CHANGE", "TEXT"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			text, err := a.text(strings.Join(args[1:], " "))
			if err != nil {
				return err
			}
			req := api.CreateComment{Body: text}
			if at != "" {
				i := strings.LastIndexByte(at, ':')
				if i > 0 {
					req.Path = at[:i]
					req.Line, err = strconv.Atoi(at[i+1:])
				}
				if i <= 0 || err != nil || req.Line < 1 {
					return core.E("cli.comment", core.Invalid, nil, "--at %q is not FILE:LINE", at)
				}
			}
			cm, err := c.Comment(ctx, args[0], req)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(cm)
			}
			if cm.Prompt != "" {
				return a.printf("%s became prompt %s\n", cm.ID, cm.Prompt)
			}
			return a.printf("%s\n", cm.ID)
		}),
	}
	cmd.Flags().StringVar(&at, "at", "", "FILE:LINE to comment on")
	return cmd
}
