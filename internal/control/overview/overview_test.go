package overview_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/control/event"
	"drydock/internal/control/overview"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/store"
)

var (
	ana = core.Author{Handle: "ana", Name: "Ana"}
	bo  = core.Author{Handle: "bo", Name: "Bo"}
)

type nobody struct{}

func (nobody) Execute(context.Context, session.Job) (session.Ending, error) {
	return session.Ending{}, nil
}
func (nobody) Kill(context.Context, core.SessionID) error { return nil }

// desk is the control plane without runners: tests write what they would.
type desk struct {
	t   *testing.T
	db  *store.DB
	log *event.Log
	ses *session.Service
	all *overview.Service
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "drydock.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	d := &desk{t: t, db: db, log: event.New(db, event.Options{})}
	if d.ses, err = session.New(session.Deps{Store: db, Log: d.log, Executor: nobody{}}, session.Options{Instance: "x"}); err != nil {
		t.Fatal(err)
	}
	d.all = overview.New(db, d.ses)
	at := time.Now().UTC()
	d.must(db.CreateEnvironment(t.Context(), core.Environment{
		ID: core.NewEnvironmentID(), Name: "shop", Source: "/srv/shop", DefaultBranch: "main", Snapshot: core.NewSnapshotID(), Created: at, Updated: at,
	}))
	return d
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) create(who core.Author, title string) (core.Session, core.Prompt) {
	d.t.Helper()
	s, p, err := d.ses.Create(d.t.Context(), core.NewSession{Environment: "shop", Title: title, Prompt: core.NewPrompt{Author: who, Text: title}})
	d.must(err)
	return s, p
}

func (d *desk) state(id core.SessionID, to core.SessionState, wait string) {
	d.t.Helper()
	var from core.SessionState
	_, err := d.db.UpdateSession(d.t.Context(), id, func(s *core.Session) error {
		from, s.State, s.Wait = s.State, to, wait
		return nil
	})
	d.must(err)
	d.tell(id, "", core.EventSessionState, core.StateData{From: string(from), To: string(to)})
}

func (d *desk) tell(id core.SessionID, run core.RunID, kind core.EventKind, data any) {
	d.t.Helper()
	e := core.NewEvent(kind, data)
	e.Run = run
	_, err := d.log.Append(d.t.Context(), string(id), e)
	d.must(err)
}

// work begins a run of a prompt.
func (d *desk) work(p core.Prompt) core.RunID {
	d.t.Helper()
	ctx, run := d.t.Context(), core.NewRunID()
	d.must(d.db.CreateRun(ctx, core.Run{ID: run, Session: p.Session, Prompt: p.ID, State: core.RunRunning, Created: time.Now().UTC()}))
	_, err := d.db.UpdatePrompt(ctx, p.ID, func(v *core.Prompt) error {
		v.State, v.Run, v.Started = core.PromptRunning, run, time.Now().UTC()
		return nil
	})
	d.must(err)
	d.tell(p.Session, run, core.EventPromptState, core.PromptData{Prompt: p.ID, State: core.PromptRunning})
	d.tell(p.Session, run, core.EventRunStarted, core.RunData{Prompt: p.ID, State: core.RunRunning})
	d.state(p.Session, core.SessionStarting, "")
	d.state(p.Session, core.SessionRunning, "")
	_, err = d.db.Claim(ctx, store.LeaseOfSession(p.Session), "elsewhere", time.Now(), time.Hour)
	d.must(err)
	return run
}

// finish ends it.
func (d *desk) finish(p core.Prompt, run core.RunID, state core.RunState, verdict string) {
	d.t.Helper()
	ctx := d.t.Context()
	_, err := d.db.UpdateRun(ctx, run, func(r *core.Run) error { r.State, r.Verdict, r.Finished = state, verdict, time.Now().UTC(); return nil })
	d.must(err)
	_, err = d.db.UpdatePrompt(ctx, p.ID, func(v *core.Prompt) error { v.State, v.Finished = core.PromptDone, time.Now().UTC(); return nil })
	d.must(err)
	d.tell(p.Session, run, core.EventRunFinished, core.RunData{Prompt: p.ID, State: state, Verdict: verdict})
	d.state(p.Session, core.SessionIdle, "")
}

func (d *desk) sections(person string) map[string]string {
	d.t.Helper()
	box, err := d.all.Inbox(d.t.Context(), core.InboxFilter{Person: person}, 0)
	d.must(err)
	out := map[string]string{}
	for name, part := range map[core.InboxSection]core.InboxPart{core.InboxNeeds: box.Needs, core.InboxRunning: box.Running, core.InboxRecent: box.Recent} {
		if part.Count != len(part.Items) {
			d.t.Errorf("%s counts %d and has %d", name, part.Count, len(part.Items))
		}
		for _, r := range part.Items {
			if r.Section != name {
				d.t.Errorf("%s is in %s and says %s", r.Session.Title, name, r.Section)
			}
			unread := ""
			if r.Unread {
				unread = ", unread"
			}
			out[r.Session.Title] = fmt.Sprintf("%s: %s%s", name, r.Session.View.Word, unread)
		}
	}
	return out
}

func TestTheInboxSaysWhatNeedsYou(t *testing.T) {
	d := newDesk(t)
	ctx := t.Context()
	d.create(ana, "queued")
	_, works := d.create(ana, "works")
	d.work(works)
	proven, p := d.create(ana, "proven")
	d.finish(p, d.work(p), core.RunDone, "proven")
	money, p := d.create(bo, "money")
	d.work(p)
	d.state(money.ID, core.SessionWaiting, "budget")
	asked, p := d.create(bo, "asked")
	d.finish(p, d.work(p), core.RunDone, "unproven")
	d.must(d.db.CreateApproval(ctx, store.Approval{ID: core.NewApprovalID(), Session: asked.ID, Question: "meant?", AskedBy: "bo", State: core.ApprovalPending, Created: time.Now()}))
	_, p = d.create(bo, "of bo")
	d.finish(p, d.work(p), core.RunDone, "broken")
	shared, p := d.create(bo, "shared")
	d.finish(p, d.work(p), core.RunDone, "")
	_, _, err := d.db.AddPrompt(ctx, core.Prompt{ID: core.NewPromptID(), Session: shared.ID, Author: ana, Text: "y", State: core.PromptRemoved})
	d.must(err)
	gone, p2 := d.create(ana, "archived")
	d.finish(p2, d.work(p2), core.RunDone, "")
	d.state(gone.ID, core.SessionArchived, "")

	want := map[string]string{
		"queued": "running: queued", "works": "running: working", "proven": "needs: proven, unread", "money": "needs: paused", "asked": "needs: needs_you",
		"of bo": "recent: broken", "shared": "needs: answered, unread",
	}
	if diff := cmp.Diff(want, d.sections("ana")); diff != "" {
		t.Errorf("inbox of ana (-want +got):\n%s", diff)
	}
	if _, err := d.all.MarkRead(ctx, ana, proven.ID, 1000); err != nil {
		t.Fatal(err)
	}
	if got := d.sections("ana")["proven"]; got != "recent: proven" {
		t.Errorf("after it was read: %s", got)
	}
	if r, err := d.all.MarkRead(ctx, ana, proven.ID, 1); err != nil || r.Seq < 5 {
		t.Errorf("a mark went back: %+v, %v", r, err)
	}
	d.tell(proven.ID, "", core.EventAgentText, core.TextData{Text: "just words"})
	if got := d.sections("ana")["proven"]; got != "recent: proven" {
		t.Errorf("an event that settles nothing made it unread: %s", got)
	}
	if _, err := d.all.MarkUnread(ctx, ana, proven.ID); err != nil {
		t.Fatal(err)
	}
	if got := d.sections("ana")["proven"]; got != "needs: proven, unread" {
		t.Errorf("unread again: %s", got)
	}
	mine, err := d.all.Inbox(ctx, core.InboxFilter{Person: "ana", Mine: true}, 0)
	if err != nil || mine.Needs.Count != 2 || mine.Recent.Count != 0 {
		t.Errorf("only mine: %+v, %v", mine, err)
	}
	n, err := d.all.InboxCounts(ctx, "ana")
	if err != nil || n != (core.InboxCounts{Needs: 4, Running: 2}) {
		t.Errorf("counts %+v, %v", n, err)
	}
	if _, err := d.all.MarkRead(ctx, ana, "ses_000000000000000000", 1); !core.Is(err, core.NotFound) {
		t.Errorf("a mark in a session that is not there: %v", err)
	}
}

func TestTheInboxIsPaged(t *testing.T) {
	d := newDesk(t)
	for i := range 7 {
		d.create(ana, fmt.Sprint("task ", i))
	}
	var got []string
	page := core.Page{Limit: 3}
	for {
		part, err := d.all.InboxPart(t.Context(), core.InboxRunning, core.InboxFilter{Person: "bo"}, page)
		d.must(err)
		for _, r := range part.Items {
			got = append(got, r.Session.Title)
			if r.Session.View.Position == 0 || r.Environment != "shop" || r.Seq != 2 {
				t.Errorf("row %+v, view %+v", r, r.Session.View)
			}
		}
		if page.Cursor = part.Next; part.Next == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"task 6", "task 5", "task 4", "task 3", "task 2", "task 1", "task 0"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := d.all.InboxPart(t.Context(), core.InboxNeeds, core.InboxFilter{}, core.Page{Cursor: "x"}); !core.Is(err, core.Invalid) {
		t.Errorf("a cursor of nothing: %v", err)
	}
}
