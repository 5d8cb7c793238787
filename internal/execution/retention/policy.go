package retention

import (
	"context"
	"fmt"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/snapshot"
	"drydock/internal/store"
)

// Policy says what is kept beyond what is in use.
type Policy struct {
	Builds   int           // good builds of an environment, the current one included
	Archived time.Duration // files of a session, after it was archived
	Idle     time.Duration // files of a session in which nothing happens
	Images   time.Duration // a base image that nothing stands on
}

// Default is the policy of a daemon that sets none.
func Default() Policy {
	return Policy{Builds: 3, Archived: 24 * time.Hour, Idle: 30 * 24 * time.Hour, Images: 72 * time.Hour}
}

// Uses names everything that needs a snapshot: what runs, and what the policy
// keeps for those who may come back.
func Uses(ctx context.Context, db *store.DB, p Policy, now time.Time) ([]snapshot.Use, error) {
	out, err := environment.SandboxUses(ctx, db)
	if err != nil {
		return nil, err
	}
	sessions, err := allSessions(ctx, db)
	if err != nil {
		return nil, err
	}
	last := map[core.EnvironmentID]time.Time{} // when it was last worked in
	for _, s := range sessions {
		if s.Updated.After(last[s.Environment]) {
			last[s.Environment] = s.Updated
		}
		if use, ok := p.session(s, now); ok {
			out = append(out, use)
		}
	}
	live, err := db.LiveSelections(ctx)
	if err != nil {
		return nil, err
	}
	for _, sel := range live {
		if sel.State == core.SelectionOpen { // its sessions start and are proven from it
			out = append(out, snapshot.Use{By: "selection " + string(sel.ID), Snapshot: sel.Snapshot, Memory: true})
		}
	}
	envs, err := allEnvironments(ctx, db)
	if err != nil {
		return nil, err
	}
	for _, e := range envs {
		uses, err := p.environment(ctx, db, e, last[e.ID])
		if err != nil {
			return nil, err
		}
		out = append(out, uses...)
	}
	return out, nil
}

// session says whether, and as what, the files of a session are kept.
func (p Policy) session(s core.Session, now time.Time) (snapshot.Use, bool) {
	if s.Snapshot == "" {
		return snapshot.Use{}, false
	}
	use := snapshot.Use{By: "session " + string(s.ID), Snapshot: s.Snapshot, Memory: true}
	switch {
	case s.State == core.SessionArchived:
		if now.Sub(s.Updated) >= p.Archived {
			return use, false
		}
		return snapshot.Use{By: fmt.Sprintf("session %s, archived less than %s ago", s.ID, short(p.Archived)), Snapshot: s.Snapshot, Spare: true, Last: s.Updated}, true
	case resting(s.State):
		// Its work is in the mirror, but what was never committed is only here:
		// Expire lets go of it first, and nothing else does.
		use.Last = s.Updated
	}
	return use, true
}

// resting says that nothing happens in a session before somebody comes.
func resting(s core.SessionState) bool { return s == core.SessionIdle || s == core.SessionFailed }

// environment keeps the current snapshot, the one before with its memory, and
// some more without.
func (p Policy) environment(ctx context.Context, db *store.DB, e core.Environment, last time.Time) ([]snapshot.Use, error) {
	if last.Before(e.Updated) {
		last = e.Updated
	}
	var out []snapshot.Use
	seen := map[core.SnapshotID]bool{"": true}
	if e.Snapshot != "" {
		out = append(out, snapshot.Use{By: "environment " + e.Name, Snapshot: e.Snapshot, Memory: true, Last: last})
		seen[e.Snapshot] = true
	}
	f, err := db.Freshness(ctx, e.ID)
	if err != nil && !core.Is(err, core.NotFound) {
		return nil, err
	}
	if f.Pinned != "" {
		out = append(out, snapshot.Use{By: "environment " + e.Name + ", pinned by " + f.PinnedBy, Snapshot: f.Pinned})
	}
	for cursor, more := "", true; more && len(seen)-1 < p.Builds; {
		builds, next, err := db.Builds(ctx, e.ID, core.Page{Limit: core.MaxPage, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, b := range builds {
			if b.State != core.BuildDone || seen[b.Snapshot] || len(seen)-1 >= p.Builds {
				continue
			}
			seen[b.Snapshot] = true
			out = append(out, snapshot.Use{
				By: fmt.Sprintf("environment %s, one of its last %d good builds", e.Name, p.Builds), Snapshot: b.Snapshot, Memory: len(seen) == 3, Spare: true, Last: b.Finished,
			})
		}
		cursor, more = next, next != ""
	}
	return out, nil
}

// Expire lets go of the files of sessions in which nothing has happened for too
// long: the rows first, so that the next prompt starts from the environment and
// the session's branch. It returns the sessions.
func Expire(ctx context.Context, db *store.DB, p Policy, now time.Time) ([]core.Session, error) {
	sessions, err := allSessions(ctx, db)
	if err != nil || p.Idle <= 0 {
		return nil, err
	}
	var out []core.Session
	for _, s := range sessions {
		expired := func(s core.Session) bool {
			return s.Snapshot != "" && s.Sandbox == "" && resting(s.State) && now.Sub(s.Updated) >= p.Idle
		}
		if !expired(s) {
			continue
		}
		before := s
		_, err := db.UpdateSession(ctx, s.ID, func(row *core.Session) error {
			if !expired(*row) { // somebody came back just now
				return core.E("retention.expire", core.Conflict, nil, "session %s is in use again", s.ID)
			}
			row.Snapshot = ""
			return nil
		})
		switch {
		case core.Is(err, core.Conflict):
		case err != nil:
			return out, err
		default:
			out = append(out, before)
		}
	}
	return out, nil
}

func allSessions(ctx context.Context, db *store.DB) ([]core.Session, error) {
	return pages(func(p core.Page) ([]core.Session, string, error) {
		return db.Sessions(ctx, core.SessionFilter{Archived: true}, p)
	})
}

func allEnvironments(ctx context.Context, db *store.DB) ([]core.Environment, error) {
	return pages(func(p core.Page) ([]core.Environment, string, error) { return db.Environments(ctx, p) })
}

func pages[T any](read func(core.Page) ([]T, string, error)) (all []T, err error) {
	for cursor := ""; ; {
		items, next, err := read(core.Page{Limit: core.MaxPage, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if cursor = next; cursor == "" {
			return all, nil
		}
	}
}

// short is a duration without its zeros.
func short(d time.Duration) string {
	switch {
	case d >= 48*time.Hour && d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return d.String()
}
