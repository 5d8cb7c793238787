package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drydock/internal/control/event"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	alice = core.Author{Handle: "alice", Name: "Alice", Email: "alice@example.com"}
	bob   = core.Author{Handle: "bob", Name: "Bob", Email: "bob@example.com"}
)

// engine is an executor made of a function; it records what it was asked.
type engine struct {
	do func(ctx context.Context, job session.Job) (session.Ending, error)

	mu     sync.Mutex
	jobs   []session.Job
	killed []core.SessionID
}

func (e *engine) Execute(ctx context.Context, job session.Job) (session.Ending, error) {
	e.mu.Lock()
	e.jobs = append(e.jobs, job)
	e.mu.Unlock()
	if e.do == nil {
		return session.Ending{RunState: core.RunDone, Outcome: "did it"}, job.Journal.Started(ctx, "the sandbox is ready")
	}
	return e.do(ctx, job)
}

func (e *engine) Kill(_ context.Context, id core.SessionID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killed = append(e.killed, id)
	return nil
}

func (e *engine) seen() []session.Job {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]session.Job(nil), e.jobs...)
}

func (e *engine) kills() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.killed)
}

// untilCancelled works until it is told to end.
func untilCancelled(ctx context.Context, job session.Job) (session.Ending, error) {
	if err := job.Journal.Started(ctx, "the sandbox is ready"); err != nil {
		return session.Ending{}, err
	}
	<-ctx.Done()
	return session.Ending{}, context.Cause(ctx)
}

// daemon is one life of one daemon.
type daemon struct {
	*session.Service
	t      testing.TB
	db     *store.DB
	log    *event.Log
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
	dead   atomic.Bool
}

func newDaemon(t testing.TB, path string, e session.Executor, opts session.Options) *daemon {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Instance == "" {
		opts.Instance = "daemon"
	}
	log := event.New(db, event.Options{})
	service, err := session.New(session.Deps{Store: db, Log: log, Executor: e}, opts)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{Service: service, t: t, db: db, log: log}
	t.Cleanup(d.kill)
	return d
}

func (d *daemon) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.done = cancel, make(chan struct{})
	go func() {
		defer close(d.done)
		if err := d.Run(ctx); err != nil && ctx.Err() == nil && !d.dead.Load() {
			d.t.Errorf("run: %v", err)
		}
	}()
}

// stopRunning is an orderly shutdown.
func (d *daemon) stopRunning() {
	if d.cancel != nil {
		d.cancel()
		<-d.done
		d.cancel = nil
	}
}

// kill is as near to kill -9 as one process gets: from this moment nothing
// that this daemon does reaches the store.
func (d *daemon) kill() {
	d.once.Do(func() {
		d.dead.Store(true)
		_ = d.db.Close()
		d.stopRunning()
		d.log.Close()
	})
}

func path(t testing.TB) string { return filepath.Join(t.TempDir(), "db") }

func addEnvironment(t testing.TB, db *store.DB, name string) core.Environment {
	t.Helper()
	at := time.Now().UTC()
	env := core.Environment{
		ID: core.NewEnvironmentID(), Name: name, Source: "/srv/" + name, DefaultBranch: "main",
		Snapshot: core.NewSnapshotID(), Created: at, Updated: at,
	}
	if err := db.CreateEnvironment(context.Background(), env); err != nil {
		t.Fatal(err)
	}
	return env
}

func say(by core.Author, text string) core.NewPrompt {
	return core.NewPrompt{Author: by, Text: text, Source: "cli"}
}

func (d *daemon) create(by core.Author, text string) (core.Session, core.Prompt) {
	d.t.Helper()
	s, p, err := d.Create(context.Background(), core.NewSession{Environment: "shop", Prompt: say(by, text)})
	if err != nil {
		d.t.Fatal(err)
	}
	return s, p
}

func (d *daemon) prompt(id core.SessionID, by core.Author, text string) core.Prompt {
	d.t.Helper()
	p, err := d.Prompt(context.Background(), id, say(by, text))
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func (d *daemon) get(id core.SessionID) core.Session {
	d.t.Helper()
	s, err := d.Get(context.Background(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// wait follows the session's events until it is in a state.
func (d *daemon) wait(id core.SessionID, state core.SessionState) core.Session {
	d.t.Helper()
	s, err := d.waitUntil(id, func(s core.Session) bool { return s.State == state })
	if err != nil {
		d.t.Fatalf("session is %s (%s), want %s: %v", s.State, s.Reason, state, err)
	}
	return s
}

func (d *daemon) waitUntil(id core.SessionID, ok func(core.Session) bool) (s core.Session, err error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s = d.get(id); ok(s) {
		return s, nil
	}
	for _, err := range d.log.Follow(ctx, string(id), 0) {
		if err != nil {
			return s, err
		}
		if s = d.get(id); ok(s) {
			return s, nil
		}
	}
	return s, errors.New("it took more than a minute")
}

func (d *daemon) events(id core.SessionID) []core.Event {
	d.t.Helper()
	var out []core.Event
	for {
		list, err := d.log.Read(context.Background(), string(id), int64(len(out)), 500)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, e := range list {
			if e.Seq != int64(len(out)+1) {
				d.t.Fatalf("event %d has number %d", len(out)+1, e.Seq)
			}
			out = append(out, e)
		}
		if len(list) < 500 {
			return out
		}
	}
}

func (d *daemon) count(id core.SessionID, kind core.EventKind) (n int) {
	for _, e := range d.events(id) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// states lists a session's prompts as "text state".
func (d *daemon) states(id core.SessionID) []string {
	d.t.Helper()
	list, err := d.Prompts(context.Background(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%s %s", p.Text, p.State))
	}
	return out
}

// stateIn is the state that an event tells of.
func stateIn(t testing.TB, e core.Event) string {
	t.Helper()
	var data struct {
		State string `json:"state"`
		To    string `json:"to"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data.State + data.To
}
