package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

// startBest gives a task to several sessions.
func (a *app) startBest(ctx context.Context, c *client.Client, task string, budget core.Budget, o runOptions) error {
	var models []string
	for m := range strings.SplitSeq(o.model, ",") {
		if m = strings.TrimSpace(m); m != "" {
			models = append(models, m)
		}
	}
	made, err := c.CreateSelection(ctx, api.CreateSelection{
		Environment: o.env, Prompt: task, Title: o.title, Blueprint: o.blueprint, Agent: o.agent, Base: o.base, Budget: budget, ClientID: o.clientID,
		Sessions: o.bestOf, Models: models, Rule: o.pick,
	})
	if err != nil {
		return err
	}
	id := made.Selection.ID
	if o.wait || (a.terminal(a.env.Stdout) && !o.detach && !a.json) {
		return a.watchSelection(ctx, c, made)
	}
	if a.json {
		return a.document(made)
	}
	if err := a.printf("%s\n", id); err != nil {
		return err
	}
	a.note("Compare its sessions with: drydock selection show %s\n", id)
	return nil
}

// watchEvery is how often a selection is looked at while it is waited for.
// A daemon that is started again meanwhile is waited for.
const (
	watchEvery    = 500 * time.Millisecond
	watchPatience = time.Minute
)

// watchSelection shows what becomes of each session, then compares them.
func (a *app) watchSelection(ctx context.Context, c *client.Client, d api.SelectionDetail) error {
	id := d.Selection.ID
	if !a.json {
		if err := a.printf("%s: %d sessions from %s\n", id, d.Selection.Sessions, render.Short(d.Selection.BaseCommit)); err != nil {
			return err
		}
	}
	told := map[core.SessionID]string{}
	var away time.Time // since when the daemon does not answer
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := a.tellCandidates(d.Candidates, told); err != nil {
			return err
		}
		if d.Selection.State == core.SelectionPicked || d.Selection.State == core.SelectionWaiting {
			return a.selectionEnds(ctx, c, d)
		}
		select {
		case <-ctx.Done():
			return a.left(core.E("cli.follow", core.Canceled, ctx.Err(), "left"), "Left; the sessions go on.\n  compare them  drydock selection show %s\n", id)
		case <-tick.C:
		}
		now, err := c.Selection(ctx, id)
		switch {
		case err == nil:
			d, away = now, time.Time{}
		case ctx.Err() != nil: // told above
		case core.Is(err, core.Unavailable) && (away.IsZero() || time.Since(away) < watchPatience):
			if away.IsZero() {
				away = time.Now()
			}
		default:
			return err
		}
	}
}

// tellCandidates prints a line for every session of which there is news, in
// the order of their seeds.
func (a *app) tellCandidates(list []core.Candidate, told map[core.SessionID]string) error {
	if a.json {
		return nil
	}
	st := a.style(a.env.Stdout)
	list = slices.Clone(list)
	slices.SortFunc(list, func(x, y core.Candidate) int { return int(x.Seed - y.Seed) })
	for _, v := range list {
		now := st.State(standing(v))
		switch {
		case v.Ended && v.Files > 0:
			now += "  " + sizeOf(v)
		case v.State == core.SessionWaiting && len(v.Reasons) > 0:
			now += "  " + render.Cut(render.Line(v.Reasons[0]), 80)
		case !v.Ended && v.Node != "":
			now += "  " + render.Words(v.Node)
		}
		if told[v.Session] == now {
			continue
		}
		told[v.Session] = now
		if err := a.printf("  %d  %s  %s\n", v.Seed, v.Session, now); err != nil {
			return err
		}
	}
	return nil
}

// selectionEnds prints the comparison and what to do next, and turns the end
// into an exit code.
func (a *app) selectionEnds(ctx context.Context, c *client.Client, d api.SelectionDetail) error {
	if a.json {
		if err := a.document(d); err != nil {
			return err
		}
		return selectionExit(d)
	}
	env := a.environmentNames(ctx, c)(d.Selection.Environment)
	if err := a.printf("\n"); err != nil {
		return err
	}
	if err := a.candidateTable(d.Candidates, env); err != nil {
		return err
	}
	next := fmt.Sprintf("pick one: drydock selection pick %s SESSION", d.Selection.ID)
	for _, v := range d.Candidates {
		if v.Picked && v.Number > 0 {
			next = fmt.Sprintf("review it: drydock change show %s#%d", env, v.Number)
		} else if v.Picked {
			next = fmt.Sprintf("look at it: drydock session show %s", v.Session)
		}
	}
	if err := a.printf("\n%s\n%s\n", render.Line(d.Selection.Reason), render.Line(next)); err != nil {
		return err
	}
	return selectionExit(d)
}

// selectionExit is 0 where one is picked, or a person has a proven one to
// pick; otherwise a person has to look.
func selectionExit(d api.SelectionDetail) error {
	proven := slices.ContainsFunc(d.Candidates, func(c core.Candidate) bool { return c.Ended && c.Verdict == "proven" })
	if d.Selection.State.Decided() || proven {
		return nil
	}
	return exit{core.ExitHandedOver}
}
