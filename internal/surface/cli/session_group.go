package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

func (a *app) newSession() *cobra.Command {
	cmd := group("session", "Sessions: look, talk, stop, go on",
		`  drydock session list
  drydock session log -f last
  drydock session prompt last "also update the README"`,
		a.newSessionList(), a.newSessionShow(), a.newSessionLog(), a.newSessionPrompt(), a.newSessionStop(),
		a.newSessionResume(), a.newSessionFork(), a.newSessionExec(), a.newSessionAttach(), a.newSessionDiff(), a.newSessionOpen(), a.newSessionPorts(), a.newSessionPreview(), a.newSessionRm())
	cmd.Long = `Sessions: look, talk, stop, go on.

Where a command wants a SESSION, "last" is the newest one, and the beginning of
an identifier will do when only one session has it.`
	return cmd
}

// sessionRef resolves "last" and beginnings of identifiers.
func sessionRef(ctx context.Context, c *client.Client, ref string) (core.SessionID, error) {
	if id, err := core.ParseID[core.SessionID]("ses_", ref); err == nil {
		return id, nil
	}
	prefix := ref
	if !strings.HasPrefix(ref, "ses_") {
		prefix = "ses_" + ref
	}
	limit := core.MaxPage
	if ref == "last" {
		limit = 1
	}
	l, err := c.Sessions(ctx, client.SessionQuery{Archived: ref != "last"}, client.Page{Limit: limit})
	if err != nil {
		return "", err
	}
	if ref == "last" {
		if len(l.Items) == 0 {
			return "", core.E("cli.session", core.NotFound, nil, "there is no session yet").WithHint(`start one with: drydock run -e ENV "TASK"`)
		}
		return l.Items[0].ID, nil
	}
	var found []core.SessionID
	for _, s := range l.Items {
		if strings.HasPrefix(string(s.ID), prefix) {
			found = append(found, s.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", core.E("cli.session", core.NotFound, nil, "no session %s", ref).WithHint("drydock session list shows them")
	}
	return "", core.E("cli.session", core.Invalid, nil, "%d sessions begin with %s", len(found), ref).WithHint("give more of the identifier")
}

// withSession is withClient for commands whose first argument is a session.
func (a *app) withSession(f func(ctx context.Context, c *client.Client, id core.SessionID, args []string) error) func(*cobra.Command, []string) error {
	return a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := sessionRef(ctx, c, args[0])
		if err != nil {
			return err
		}
		return f(ctx, c, id, args[1:])
	})
}
