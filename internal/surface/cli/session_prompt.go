package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

type sessionPromptOptions struct {
	wait               bool
	edit, remove, move string
	position           int
	clientID           string
}

func (a *app) newSessionPrompt() *cobra.Command {
	var o sessionPromptOptions
	cmd := &cobra.Command{
		Use:   `prompt SESSION "TEXT"`,
		Short: "Queue a follow-up, or change the queue",
		Long: `Queue a follow-up. It waits its turn; the same branch and the same change are
updated. A queued prompt can still be edited, moved or removed.`,
		Example: `  drydock session prompt last "also update the README"
  drydock session prompt last --wait - < review.md
  drydock session prompt last --edit prm_... "better words"
  drydock session prompt last --move prm_... --position 0
  drydock session prompt last --remove prm_...`,
		Args: between(1, -1, "SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, args []string) error {
			return a.sessionPrompt(ctx, c, id, strings.Join(args, " "), o)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.wait, "wait", "w", false, "wait for its end, and show the work")
	f.StringVar(&o.edit, "edit", "", "change the text of this queued prompt")
	f.StringVar(&o.remove, "remove", "", "withdraw this queued prompt")
	f.StringVar(&o.move, "move", "", "move this queued prompt")
	f.IntVar(&o.position, "position", 0, "where to move it; 0 is next")
	f.StringVar(&o.clientID, "client-id", "", "identifier of this request: giving it again is not a second prompt")
	cmd.MarkFlagsMutuallyExclusive("edit", "remove", "move", "wait")
	return cmd
}

func (a *app) sessionPrompt(ctx context.Context, c *client.Client, id core.SessionID, text string, o sessionPromptOptions) error {
	switch {
	case o.remove != "":
		return a.told(o.remove, "removed", c.RemovePrompt(ctx, id, core.PromptID(o.remove)))
	case o.move != "":
		return a.told(o.move, "moved", c.MovePrompt(ctx, id, core.PromptID(o.move), o.position))
	}
	text, err := a.text(text)
	if err != nil {
		return err
	}
	if text == "" {
		return core.E("cli.prompt", core.Invalid, nil, "TEXT is missing").WithHint(`usage: drydock session prompt SESSION "TEXT"`)
	}
	if o.edit != "" {
		p, err := c.EditPrompt(ctx, id, core.PromptID(o.edit), text)
		return a.promptResult(p, err, "edited")
	}
	var before int64
	if o.wait {
		if before, err = lastEvent(ctx, c, id); err != nil {
			return err
		}
	}
	p, err := c.Prompt(ctx, id, api.CreatePrompt{Text: text, ClientID: o.clientID})
	if err != nil || !o.wait {
		return a.promptResult(p, err, "queued")
	}
	s, err := c.Session(ctx, id)
	if err != nil {
		return err
	}
	return a.watchPrompt(ctx, c, s, p, watchOptions{after: before})
}

func (a *app) promptResult(p core.Prompt, err error, verb string) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.document(p)
	}
	if err := a.printf("%s\n", p.ID); err != nil {
		return err
	}
	a.note("%s; follow it with: drydock session log -f %s\n", verb, p.Session)
	return nil
}
