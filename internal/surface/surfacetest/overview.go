package surfacetest

import (
	"context"
	"strings"

	"drydock/internal/core"
)

// viewed says how a session stands, nearly as the daemon does; the caller holds
// mu.
func (w *World) viewed(ses core.Session) core.Session {
	word := map[core.SessionState]core.ViewWord{
		core.SessionQueued: core.ViewQueued, core.SessionStarting: core.ViewStarting, core.SessionRunning: core.ViewWorking,
		core.SessionWaiting: core.ViewNeedsYou, core.SessionStopping: core.ViewStopping, core.SessionArchived: core.ViewClosed,
		core.SessionFailed: core.ViewBroken,
	}[ses.State]
	if word == "" {
		word = core.ViewDraft
		for _, r := range w.runs {
			if r.Session != ses.ID {
				continue
			}
			switch {
			case r.State == core.RunStopped:
				word = core.ViewStopped
			case r.State == core.RunHandedOver:
				word = core.ViewHandedOver
			case r.Verdict != "":
				word = core.ViewWord(r.Verdict)
			default:
				word = core.ViewAnswered
			}
		}
		for _, c := range w.changes {
			if c.ID == ses.Change && c.State == core.ChangeMerged {
				word = core.ViewMerged
			}
		}
	}
	v := core.NewView(word, ses.Reason, "")
	v.Since = ses.Updated
	ses.View = &v
	return ses
}

// overview answers for the page. Only outcomes of own sessions are unread.
type overview struct{ w *World }

func (o overview) row(person string, ses core.Session) core.InboxRow {
	row := core.InboxRow{
		Session: o.w.viewed(ses), Environment: "shop", Seq: int64(len(o.w.logs[string(ses.ID)])), Read: o.w.read[person+" "+string(ses.ID)],
		Section: core.InboxRecent,
	}
	switch ses.State {
	case core.SessionArchived:
		row.Section = ""
	case core.SessionQueued, core.SessionStarting, core.SessionRunning, core.SessionStopping:
		row.Section = core.InboxRunning
	case core.SessionWaiting:
		row.Section = core.InboxNeeds
	default:
		if row.Unread = ses.Owner.Handle == person && row.Read < row.Seq; row.Unread {
			row.Section = core.InboxNeeds
		}
	}
	return row
}

func (o overview) Inbox(ctx context.Context, f core.InboxFilter, limit int) (box core.Inbox, err error) {
	for section, part := range map[core.InboxSection]*core.InboxPart{
		core.InboxNeeds: &box.Needs, core.InboxRunning: &box.Running, core.InboxRecent: &box.Recent,
	} {
		if *part, err = o.InboxPart(ctx, section, f, core.Page{Limit: limit}); err != nil {
			return box, err
		}
	}
	return box, nil
}

func (o overview) InboxPart(_ context.Context, section core.InboxSection, f core.InboxFilter, p core.Page) (core.InboxPart, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	var rows []core.InboxRow
	for _, ses := range reversed(o.w.sessions) {
		row := o.row(f.Person, ses)
		if row.Section == section && (!f.Mine || ses.Owner.Handle == f.Person) && strings.Contains(ses.Title, f.Text) &&
			(f.Environment == "" || f.Environment == ses.Environment) {
			rows = append(rows, row)
		}
	}
	items, next, err := page(rows, p)
	return core.InboxPart{Items: items, Count: len(rows), Next: next}, err
}

func (o overview) InboxRows(_ context.Context, person string, ids []core.SessionID) ([]core.InboxRow, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	var rows []core.InboxRow
	for _, id := range ids {
		if ses, err := o.w.session(id); err == nil {
			rows = append(rows, o.row(person, *ses))
		}
	}
	return rows, nil
}

func (o overview) InboxCounts(_ context.Context, person string) (n core.InboxCounts, err error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	for _, ses := range o.w.sessions {
		switch o.row(person, ses).Section {
		case core.InboxNeeds:
			n.Needs++
		case core.InboxRunning:
			n.Running++
		}
	}
	return n, nil
}

func (o overview) MarkRead(_ context.Context, by core.Author, id core.SessionID, seq int64) (core.Read, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if _, err := o.w.session(id); err != nil {
		return core.Read{}, err
	}
	key := by.Handle + " " + string(id)
	o.w.read[key] = max(o.w.read[key], min(seq, int64(len(o.w.logs[string(id)]))))
	return core.Read{Session: id, Seq: o.w.read[key]}, nil
}

func (o overview) MarkUnread(_ context.Context, by core.Author, id core.SessionID) (core.Read, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	delete(o.w.read, by.Handle+" "+string(id))
	return core.Read{Session: id}, nil
}

func (o overview) Page(_ context.Context, by core.Author, id core.SessionID) (core.SessionPage, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	ses, err := o.w.session(id)
	if err != nil {
		return core.SessionPage{}, err
	}
	row := o.row(by.Handle, *ses)
	return core.SessionPage{
		Session: row.Session, Environment: core.EnvironmentBrief{ID: ses.Environment, Name: row.Environment}, Seq: row.Seq, Read: row.Read,
		Outline: []core.OutlineTurn{}, Prompts: []core.PagePrompt{}, Runs: []core.PageRun{}, Children: []core.Session{}, People: []core.Author{ses.Owner},
	}, nil
}

// Search looks for words as they stand in the log.
func (o overview) Search(_ context.Context, id core.SessionID, query, _ string, _ int) (core.Found, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	found := core.Found{Hits: []core.Hit{}}
	for _, e := range reversed(o.w.logs[string(id)]) {
		if strings.Contains(strings.ToLower(string(e.Data)), strings.ToLower(query)) {
			found.Hits = append(found.Hits, core.Hit{Seq: e.Seq, Kind: e.Kind, Time: e.Time, Snippet: query})
			found.Total++
		}
	}
	return found, nil
}
