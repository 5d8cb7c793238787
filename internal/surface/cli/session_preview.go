package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

func (a *app) newSessionPorts() *cobra.Command {
	return &cobra.Command{
		Use:   "ports SESSION",
		Short: "List the ports of a session's apps",
		Long: `List the ports that the recipe of a session declares, and those that something
listens on in its sandbox. "drydock session preview" opens one.`,
		Example: `  drydock session ports last
  drydock session ports last --json | jq '.items[] | select(.listening)'`,
		Args: exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			got, err := c.Ports(ctx, id)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(got)
			}
			t := a.table([]string{"PORT", "NAME", "DECLARED", "LISTENS"}, 1)
			err = list(a, got.Items, "The recipe declares no port, and nothing listens.", t, func(p api.Port) []string {
				return []string{strconv.Itoa(p.Port), p.Name, yesNo(p.Declared), yesNo(p.Listening)}
			})
			if err != nil {
				return err
			}
			if !got.Awake {
				a.note("the sandbox of %s is asleep: nothing listens\n", id)
			}
			return nil
		}),
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (a *app) newSessionPreview() *cobra.Command {
	var anyPort bool
	cmd := &cobra.Command{
		Use:   "preview SESSION PORT",
		Short: "Print an address that opens an app of a session in a browser",
		Long: `Print an address under which a browser sees what listens on a port of a session's
sandbox. It works once, within 30 seconds, and makes the browser you for this
session's ports: give it to nobody.`,
		Example: `  drydock session preview last 3000
  drydock session preview last 9229 --any
  xdg-open "$(drydock session preview last 3000)"`,
		Args: exactly("SESSION", "PORT"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, args []string) error {
			port, err := strconv.ParseUint(args[0], 10, 16)
			if err != nil || port == 0 {
				return core.E("cli.preview", core.Invalid, nil, "%q is not a port", args[0]).WithHint("drydock session ports %s shows them", id)
			}
			got, err := c.OpenPreview(ctx, id, api.OpenPreview{Port: int(port), Any: anyPort})
			if err != nil {
				return err
			}
			if a.json {
				return a.document(got)
			}
			if got.Weak {
				a.note("this preview shares its host name with others: see web.preview_mode in docs/config.md\n")
			}
			return a.printf("%s\n", got.URL)
		}),
	}
	cmd.Flags().BoolVar(&anyPort, "any", false, "also a port that the recipe does not declare")
	return cmd
}
