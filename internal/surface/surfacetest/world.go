// Package surfacetest is a small world behind the interface: every service
// that the server needs, in memory, with an agent that plays a script. Tests
// of server, client and command line share it.
//
// It knows as much of Drydock as its callers can see: sessions are queued, run
// their script and end; events are numbered; changes can be approved by
// others and merged. Nothing of it is fit for anything but tests. All methods
// may be used by many goroutines; Close waits for the agents.
//
//	w := surfacetest.New(t)
//	url := w.Start(t)
package surfacetest

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// Secrets of the two people there are at the start.
const (
	AliceToken = "alice-secret"
	BobToken   = "bob-secret"
)

// Alice and Bob.
var (
	alice = core.Author{Handle: "alice", Name: "Alice Example", Email: "alice@example.com"}
	bob   = core.Author{Handle: "bob", Name: "Bob Example", Email: "bob@example.com"}
)

// World holds everything. Script plays a run; the default is Play.
type World struct {
	Script func(w *World, r *Run)

	mu         sync.Mutex
	now        time.Time
	ids        map[string]int
	envs       []core.Environment
	pinned     map[core.EnvironmentID]string // who went back to an earlier snapshot
	builds     []core.Build
	snaps      []core.Snapshot
	sessions   []core.Session
	prompts    []core.Prompt
	runs       []core.Run
	attempts   []core.Attempt
	changes    []core.Change
	comments   []core.Comment
	approved   []core.ChangeApproval
	approvals  []api.Approval
	tokens     map[string]api.CreatedToken
	selections []core.Selection
	users      map[string]core.Author
	browsers   map[string]string // handle by secret
	read       map[string]int64  // marks, by person and session
	evidence   map[core.EvidenceID][]byte
	blobs      map[string][]byte
	logs       map[string][]core.Event
	wake       chan struct{} // closed and replaced at every new event
	watches    map[*watch]bool
	stops      map[core.SessionID]context.CancelCauseFunc
	clientIDs  map[string]core.PromptID

	ctx    context.Context //nolint:containedctx // the life of the agents
	cancel context.CancelFunc
	agents sync.WaitGroup
}

// New makes a world with one environment, shop, and two people.
func New(t testing.TB) *World {
	w := &World{
		now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), ids: map[string]int{}, logs: map[string][]core.Event{},
		tokens: map[string]api.CreatedToken{}, users: map[string]core.Author{"alice": alice, "bob": bob},
		evidence: map[core.EvidenceID][]byte{}, blobs: map[string][]byte{}, browsers: map[string]string{}, read: map[string]int64{}, watches: map[*watch]bool{}, wake: make(chan struct{}),
		stops: map[core.SessionID]context.CancelCauseFunc{}, clientIDs: map[string]core.PromptID{},
	}
	w.Script = Play
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.tokens[AliceToken] = api.CreatedToken{Token: api.Token{ID: core.TokenID(w.id("tok_")), User: "alice", Kind: "api", Label: "first", Created: w.now}}
	w.tokens[BobToken] = api.CreatedToken{Token: api.Token{ID: core.TokenID(w.id("tok_")), User: "bob", Kind: "api", Created: w.now}}
	snap := core.SnapshotID(w.id("snp_"))
	env := core.Environment{
		ID: core.EnvironmentID(w.id("env_")), Name: "shop", Source: "https://git.example.com/team/shop", DefaultBranch: "main",
		Snapshot: snap, Created: w.now, Updated: w.now,
	}
	w.envs = append(w.envs, env)
	w.snaps = append(w.snaps, core.Snapshot{ID: snap, Environment: env.ID, State: core.SnapshotReady, Bytes: 612 << 20, Commit: commitA, Created: w.now})
	t.Cleanup(w.Close)
	return w
}

// Close stops the agents and waits for them.
func (w *World) Close() {
	w.cancel()
	w.agents.Wait()
}

// Deps are the world as the server wants it.
func (w *World) Deps() server.Deps {
	return server.Deps{
		Log: slog.New(slog.DiscardHandler), Tokens: tokens{w}, Visitors: visitors{w}, Sessions: sessions{w}, Overview: overview{w}, Prompts: sessions{w}, Steering: sessions{w}, Selections: selections{w},
		Workspaces: sessions{w}, Terminals: sessions{w}, Events: w, Environments: environments{w}, Snapshots: snapshots{w},
		Sandboxes: sandboxes{w}, Capacity: sandboxes{w}, Changes: changes{w}, Review: changes{w}, Approvals: changes{w},
		Evidence: evidence{w}, Blobs: evidence{w}, Usage: evidence{w}, Backup: evidence{w}, Previews: previews{w},
		Git: func(by core.Author) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprintf(rw, "git %s for %s", r.URL.Path, by.Handle)
			})
		},
		Metrics: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("drydock_up 1\n")) }),
	}
}

// Start serves the world on a real socket of the loopback and returns its
// address.
func (w *World) Start(t testing.TB) string {
	t.Helper()
	return Serve(t, w.Deps(), server.Options{Version: "test"})
}

// Serve starts any server on a real socket until the test ends.
func Serve(t testing.TB, deps server.Deps, opts server.Options) string {
	t.Helper()
	s, err := server.New(deps, opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// id makes the next identifier of a kind; the caller holds mu or is alone.
func (w *World) id(prefix string) string {
	w.ids[prefix]++
	return fmt.Sprintf("%s%018d", prefix, w.ids[prefix])
}

// Now is the world's clock; it moves with the events.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Emit appends an event, d after the one before.
func (w *World) Emit(subject string, d time.Duration, ev core.Event) core.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.emit(subject, d, ev)
}

func (w *World) emit(subject string, d time.Duration, ev core.Event) core.Event {
	w.now = w.now.Add(d)
	ev.Subject, ev.Time = subject, w.now
	if ev.Kind != core.EventDelta {
		ev.Seq = int64(len(w.logs[subject]) + 1)
		w.logs[subject] = append(w.logs[subject], ev)
		for watch := range w.watches {
			watch.dirty[subject] = true
			select {
			case watch.wake <- struct{}{}:
			default:
			}
		}
	}
	close(w.wake)
	w.wake = make(chan struct{})
	return ev
}

// Read is server.Events.
func (w *World) Read(_ context.Context, subject string, after int64, limit int) ([]core.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.logs[subject]
	if after >= int64(len(log)) {
		return nil, nil
	}
	log = log[after:]
	return append([]core.Event(nil), log[:min(limit, len(log))]...), nil
}

// ReadBefore is server.Events.
func (w *World) ReadBefore(_ context.Context, subject string, before int64, limit int) ([]core.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.logs[subject]
	log = log[:min(max(before-1, 0), int64(len(log)))]
	return append([]core.Event(nil), log[max(0, len(log)-limit):]...), nil
}

// One is server.Events.
func (w *World) One(_ context.Context, subject string, seq int64) (core.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq < 1 || seq > int64(len(w.logs[subject])) {
		return core.Event{}, core.E("event", core.NotFound, nil, "event %d of %s does not exist", seq, subject)
	}
	return w.logs[subject][seq-1], nil
}

// Last is server.Events.
func (w *World) Last(_ context.Context, subject string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.logs[subject])), nil
}

type watch struct {
	w     *World
	wake  chan struct{}
	dirty map[string]bool
}

// Watch is server.Events.
func (w *World) Watch() server.Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &watch{w: w, wake: make(chan struct{}, 1), dirty: map[string]bool{}}
	w.watches[v] = true
	return v
}

func (v *watch) Wake() <-chan struct{} { return v.wake }

func (v *watch) Take() (out []string) {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	for id := range v.dirty {
		out = append(out, id)
	}
	clear(v.dirty)
	return out
}

func (v *watch) Close() {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	delete(v.w.watches, v)
}

// Follow is server.Events.
func (w *World) Follow(ctx context.Context, subject string, after int64) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		for {
			w.mu.Lock()
			wake := w.wake
			log := w.logs[subject]
			var fresh []core.Event
			if after < int64(len(log)) {
				fresh = append(fresh, log[after:]...)
			}
			w.mu.Unlock()
			for _, ev := range fresh {
				if ctx.Err() != nil || !yield(ev, nil) {
					return
				}
				after = ev.Seq
			}
			if len(fresh) > 0 {
				continue
			}
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// page cuts a list; the cursor is a position.
func page[T any](items []T, p core.Page) ([]T, string, error) {
	at := 0
	if p.Cursor != "" {
		if _, err := fmt.Sscanf(p.Cursor, "%d", &at); err != nil || at < 0 || at > len(items) {
			return nil, "", core.E("page", core.Invalid, err, "cursor %q", p.Cursor)
		}
	}
	end := min(at+p.Size(), len(items))
	next := ""
	if end < len(items) {
		next = fmt.Sprint(end)
	}
	return append([]T{}, items[at:end]...), next, nil
}

func find[T any](items []T, what, id string, is func(T) bool) (*T, error) {
	for i := range items {
		if is(items[i]) {
			return &items[i], nil
		}
	}
	return nil, core.E("find", core.NotFound, nil, "%s %s does not exist", what, id)
}

func reversed[T any](in []T) []T {
	out := make([]T, 0, len(in))
	for _, v := range slices.Backward(in) {
		out = append(out, v)
	}
	return out
}
