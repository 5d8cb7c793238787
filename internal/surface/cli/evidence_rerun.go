package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newEvidenceRerun() *cobra.Command {
	return &cobra.Command{
		Use: "rerun EVIDENCE", Short: "Run a proof again and compare",
		Long: `Run a proof again, in clean sandboxes from the same snapshot, and compare: same,
differs (and where), or cannot (and why). It ends with 0 when all is the same, 1
when something differs, 6 when it cannot be run.`,
		Example: `  drydock evidence rerun shop#1`,
		Args:    exactly("EVIDENCE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := evidenceRef(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.rerun(ctx, c, id)
		}),
	}
}

func (a *app) rerun(ctx context.Context, c *client.Client, id core.EvidenceID) error {
	r := render.NewSession(a.renderOptions(true))
	res, err := a.showRerun(ctx, c, id, r)
	r.Close()
	if err != nil {
		return err
	}
	if a.json {
		if res.Differences == nil {
			res.Differences = []api.Difference{}
		}
		err = a.document(res)
	} else {
		err = a.rerunText(res)
	}
	switch {
	case err != nil:
		return err
	case res.Result == "same":
		return nil
	case res.Result == "differs":
		return exit{core.ExitFailed}
	}
	return exit{core.ExitUnavailable}
}

// showRerun moves the events to the goroutine that owns the view.
func (a *app) showRerun(ctx context.Context, c *client.Client, id core.EvidenceID, r *render.Session) (api.Rerun, error) {
	var res api.Rerun
	var resErr error
	err := a.pump(ctx, func(ctx context.Context, yield func(core.Event, error) bool) {
		res, resErr = c.Rerun(ctx, id, func(ev core.Event) { yield(ev, nil) })
		yield(core.Event{Kind: rerunEnd}, nil)
	}, r, func(ev core.Event) bool { return ev.Kind == rerunEnd })
	if err != nil {
		return res, err
	}
	return res, resErr
}

// rerunEnd marks the end of a rerun within pump; it is never on the wire.
const rerunEnd core.EventKind = "rerun.end"

func (a *app) rerunText(res api.Rerun) error {
	st := a.style(a.env.Stdout)
	word := st.Yellow("cannot be run again")
	switch res.Result {
	case "same":
		word = st.Green("same result")
	case "differs":
		word = st.Red("differs")
	}
	if err := a.printf("%s%s\n", st.Bold(word), note(res.Reason)); err != nil {
		return err
	}
	for _, d := range res.Differences {
		if err := a.printf("  %s: was %s, is %s\n", render.Line(d.Where), render.Line(d.Was), render.Line(d.Is)); err != nil {
			return err
		}
	}
	return nil
}
