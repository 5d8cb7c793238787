package codechange

import (
	"context"
	"fmt"
	"strings"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
)

// Keys of blueprint.Data that the steps share.
const (
	keyBrief    = "brief"    // string: what the next agent node is told beside the task
	keySummary  = "summary"  // string: the agent's own words
	keyBase     = "base"     // string: commit the proof compares with
	keyHead     = "head"     // string: delivered commit
	keyWip      = "wip"      // string: newest harvested commit
	keyRed      = "red"      // string: checks that were red in the agent's sandbox
	keyProof    = "proof"    // Proof
	keyEnding   = "ending"   // string: how the agent ended, when not well
	keyFinished = "finished" // bool: an agent has finished at least once
)

// Steps returns the fixed steps by name.
func Steps(d Deps) map[string]blueprint.Step {
	return map[string]blueprint.Step{
		"prepare":   step{[]string{"ok"}, d.prepare},
		"context":   step{[]string{"ok"}, d.context},
		"autofix":   step{[]string{"ok"}, d.autofix},
		"check":     step{[]string{"green", "red"}, d.check},
		"scope":     step{[]string{"ok", "refused", "blocked", "nothing"}, d.scope},
		"commit":    step{[]string{"ok", "nothing"}, d.commit},
		"prove":     step{[]string{"proven", "unproven", "improvable", "broken", "handed_over"}, d.prove},
		"deliver":   step{[]string{"ok"}, d.deliver},
		"answer":    step{[]string{"ok"}, d.answer},
		"hand_over": step{[]string{"ok"}, d.handOver},
	}
}

type step struct {
	results []string
	run     func(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error)
}

func (s step) Results() []string { return s.results }

func (s step) Run(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	return s.run(ctx, v)
}

func result(name, format string, args ...any) (blueprint.Outcome, error) {
	return blueprint.Outcome{Result: name, Detail: fmt.Sprintf(format, args...)}, nil
}

// emit appends an event that belongs to a visit.
func (d Deps) emit(ctx context.Context, v *blueprint.Visit, kind core.EventKind, data any) error {
	e := core.NewEvent(kind, data)
	e.Run, e.Node, e.Attempt, e.Actor = v.Job.Run.ID, v.Node, v.Attempt, "platform"
	return d.Events.Emit(ctx, v.Job, e)
}

func text(v *blueprint.Visit, key string) string {
	var s string
	v.Data.Get(key, &s)
	return s
}

// prepare fixes the base, opens the sandbox and catches up.
func (d Deps) prepare(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	s, err := d.Sessions.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	if err := d.Workspaces.Sync(ctx, s.Environment); err != nil {
		// An old mirror is still a good base; a missing one is not.
		if err := d.emit(ctx, v, core.EventWarning, core.WarningData{
			Code: "mirror_stale", Message: "the repository's source did not answer, working from the last known state: " + err.Error(), Hint: core.HintOf(err),
		}); err != nil {
			return blueprint.Outcome{}, err
		}
	}
	m, err := d.Workspaces.Mirror(ctx, s.Environment)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	place := Place{}
	if s.Branch != "" {
		place, err = d.meanwhile(ctx, v, s)
		if err != nil {
			return blueprint.Outcome{}, err
		}
	}
	if s.BaseCommit == "" || place.Forget {
		base := s.Base
		if base == "" {
			if base, err = m.DefaultBranch(ctx); err != nil {
				return blueprint.Outcome{}, err
			}
		}
		commit, err := m.Resolve(ctx, base)
		if err != nil {
			return blueprint.Outcome{}, err
		}
		place.Base, place.BaseCommit = base, commit
	}
	// The base may be fixed before the first run (of a fork, of a candidate); the
	// branch never is.
	if s.Branch == "" || place.Forget {
		place.Branch = branchName(s, place.Forget)
	}
	if place != (Place{}) {
		if err := d.Sessions.Fix(ctx, v.Job, place); err != nil {
			return blueprint.Outcome{}, err
		}
	}
	if _, err := d.Workspaces.Open(ctx, v.Job); err != nil {
		return blueprint.Outcome{}, err
	}
	if err := d.Sessions.Started(ctx, v.Job); err != nil {
		return blueprint.Outcome{}, err
	}
	s, err = d.Sessions.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	v.Data.Set(keyBase, s.BaseCommit)
	return result("ok", "%s at %.10s", s.Base, s.BaseCommit)
}

// meanwhile looks at what people did to the session's branch and change since
// the last run.
func (d Deps) meanwhile(ctx context.Context, v *blueprint.Visit, s core.Session) (Place, error) {
	remote, change, err := d.Deliverer.Remote(ctx, v.Job, s.Branch)
	if err != nil {
		return Place{}, err
	}
	switch {
	case change.State == core.ChangeMerged:
		return Place{Forget: true}, d.emit(ctx, v, core.EventWarning, core.WarningData{
			Code:    "new_branch",
			Message: fmt.Sprintf("change #%d was merged meanwhile; this prompt starts a new branch from %s", change.Number, s.Base),
		})
	case remote != "" && remote != s.Head:
		return Place{Head: remote}, d.emit(ctx, v, core.EventWarning, core.WarningData{
			Code:    "branch_moved",
			Message: fmt.Sprintf("somebody pushed to %s; going on from %.10s", s.Branch, remote),
		})
	}
	return Place{}, nil
}

// branchName is readable, unique and made of safe characters only.
func branchName(s core.Session, again bool) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s.Title)
	words := strings.FieldsFunc(slug, func(r rune) bool { return r == '-' })
	name := ""
	for _, w := range words {
		if len(name)+len(w) > 40 {
			break
		}
		name = strings.TrimPrefix(name+"-"+w, "-")
	}
	if name == "" {
		name = "session"
	}
	id := strings.TrimPrefix(string(s.ID), "ses_")
	branch := "drydock/" + name + "-" + id[len(id)-6:]
	if again {
		// One more each time the one before was merged.
		n := 2
		if i := strings.LastIndex(s.Branch, "."); i > 0 {
			_, _ = fmt.Sscanf(s.Branch[i+1:], "%d", &n)
			n++
		}
		branch = fmt.Sprintf("%s.%d", branch, n)
	}
	return branch
}

// context collects what the first agent node is told beside the task.
func (d Deps) context(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	w, err := d.Workspaces.Open(ctx, v.Job)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	s, err := d.Sessions.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	r := w.Recipe()
	v.Data.Set(keyBrief, implementBrief(s, r))
	return result("ok", "%d checks, %d services, %d pages", len(r.Checks), len(r.Services), len(r.Pages))
}
