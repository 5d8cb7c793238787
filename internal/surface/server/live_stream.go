package server

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

const (
	rowEvery   = 500 * time.Millisecond // rows and views of one session come at most so often
	maxGap     = 5000                   // events that a stream brings to catch up
	queued     = 16                     // events that wait for the writer
	maxSent    = 2000                   // rows that are remembered, so that only what changed is sent
	rowsAtOnce = 64                     // sessions that are looked up together
)

// wants is what a stream is to bring.
type wants struct {
	inbox    bool
	sessions map[core.SessionID]int64
	done     chan struct{} // closed when it is so
}

// browserStream brings one browser everything that it shows. One goroutine
// writes; one more for each session that is followed reads its log and waits
// for the writer. So a slow reader costs itself alone: its followers read on
// from the store when it can take more, and after a while it is cut.
type browserStream struct {
	s  *Server
	by core.Author
	id string

	wanted  chan wants
	notices chan notice
	ended   chan struct{}
	tooSlow chan struct{}
	cut     func() // closes tooSlow

	mu    sync.Mutex
	shown map[core.SessionID]bool // sessions that are followed, for others to ask
}

func newBrowserStream(s *Server, by core.Author) *browserStream {
	b := &browserStream{
		s: s, by: by, wanted: make(chan wants), notices: make(chan notice, maxNotices), ended: make(chan struct{}),
		tooSlow: make(chan struct{}), shown: map[core.SessionID]bool{},
	}
	b.cut = sync.OnceFunc(func() { close(b.tooSlow) })
	return b
}

// follows reports whether it brings events of a session.
func (b *browserStream) follows(id core.SessionID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown[id]
}

// want changes what it brings; false: it has ended.
func (b *browserStream) want(ctx context.Context, w wants) bool {
	w.done = make(chan struct{})
	select {
	case b.wanted <- w:
	case <-b.ended:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-w.done:
		return true
	case <-b.ended:
		return false
	}
}

// feed is one session that is followed.
type feed struct {
	id     core.SessionID
	at     int64              // number of the last event that was sent
	cancel context.CancelFunc // nil: it was reset, and nothing comes
}

type fed struct {
	from *feed
	ev   api.ReadEvent
	err  error
}

// run is the life of a stream, on its request's goroutine.
type run struct {
	*browserStream
	ctx   context.Context //nolint:containedctx // the life of the stream
	st    *stream
	inbox bool
	feeds map[core.SessionID]*feed
	ch    chan fed
	wg    sync.WaitGroup

	dirty   map[core.SessionID]bool
	due     *time.Timer
	armed   bool
	flushed time.Time
	sent    map[core.SessionID]string // rows as they were sent
	views   map[core.SessionID]string
	// sections where rows were seen last
	sections map[core.SessionID]string
	seen     map[core.SessionID][]api.Present
	counts   *core.InboxCounts
}

func (b *browserStream) run(ctx context.Context, st *stream, first wants) {
	ctx, cancel := b.s.whileOpen(ctx)
	defer close(b.ended)
	r := &run{
		browserStream: b, ctx: ctx, st: st, feeds: map[core.SessionID]*feed{}, ch: make(chan fed, queued),
		dirty: map[core.SessionID]bool{}, due: time.NewTimer(time.Hour), sent: map[core.SessionID]string{}, views: map[core.SessionID]string{}, sections: map[core.SessionID]string{},
		seen: map[core.SessionID][]api.Present{},
	}
	st.patience = b.s.opts.Patience
	watch := b.s.deps.Events.Watch() // before anything is read, so that nothing falls between
	defer watch.Close()
	defer func() {
		cancel()
		r.wg.Wait() // followers end with the context
		r.due.Stop()
	}()
	st.start()
	st.send("", "hello", api.Hello{Stream: b.id, Version: b.s.opts.Version, Web: b.s.page.Build(), Time: time.Now().UTC(), Wants: named(first.sessions)})
	if err := r.apply(first); err != nil {
		st.fail(b.s.problem(ctx, "stream", err))
		return
	}
	st.flush()
	r.loop(watch)
}

func named(at map[core.SessionID]int64) map[string]int64 {
	out := make(map[string]int64, len(at))
	for id, seq := range at {
		out[string(id)] = seq
	}
	return out
}

func (r *run) loop(watch Watch) {
	beat := time.NewTicker(r.s.opts.Heartbeat)
	defer beat.Stop()
	for r.st.err == nil {
		var err error
		select {
		case <-r.ctx.Done():
			return
		case <-r.tooSlow:
			return
		case f := <-r.ch:
			err = r.event(f)
		case w := <-r.wanted:
			err = r.apply(w)
			close(w.done)
		case n := <-r.notices:
			r.notice(n)
		case <-watch.Wake():
			for _, id := range watch.Take() {
				r.touch(core.SessionID(id))
			}
		case <-r.due.C:
			r.armed = false
			err = r.rows()
		case <-beat.C:
			err = r.s.stillKnown(r.ctx)
			r.presence()
			r.st.comment("beat")
		}
		if err != nil {
			if r.ctx.Err() == nil {
				r.st.fail(r.s.problem(r.ctx, "stream", err))
			}
			return
		}
		if len(r.ch) == 0 {
			r.st.flush()
		}
	}
}

// apply makes it bring what is wanted, no less and no more.
func (r *run) apply(w wants) error {
	for id, f := range r.feeds {
		if _, still := w.sessions[id]; !still {
			r.stop(f)
			delete(r.feeds, id)
			delete(r.views, id)
			delete(r.seen, id)
		}
	}
	for id, after := range w.sessions {
		if f := r.feeds[id]; f != nil && f.cancel != nil {
			continue
		}
		if err := r.begin(id, after); err != nil {
			return err
		}
	}
	r.mu.Lock()
	clear(r.shown)
	for id := range r.feeds {
		r.shown[id] = true
	}
	r.mu.Unlock()
	r.presence()
	if w.inbox && !r.inbox {
		r.counts = nil
		r.arm()
	}
	r.inbox = w.inbox
	return nil
}

func (r *run) stop(f *feed) {
	if f.cancel != nil {
		f.cancel()
		f.cancel = nil
	}
}

// begin follows a session, or says that there is too much to catch up with.
func (r *run) begin(id core.SessionID, after int64) error {
	last, err := r.s.deps.Events.Last(r.ctx, string(id))
	if err != nil {
		return err
	}
	f := &feed{id: id, at: after}
	r.feeds[id] = f
	r.touch(id)
	reason := ""
	switch {
	case after > last:
		reason = "the log is shorter than that"
	case last-after > maxGap:
		reason = "too much has happened since"
	}
	if reason != "" {
		r.st.send("", "reset", api.Reset{Session: id, Reason: reason, Seq: last})
		return nil
	}
	ctx, cancel := context.WithCancel(r.ctx)
	f.cancel = cancel
	r.wg.Go(func() {
		defer cancel()
		for ev, err := range r.s.deps.Events.Follow(ctx, string(id), after) {
			select {
			case r.ch <- fed{from: f, ev: bodies(ev, true), err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	return nil
}

func (r *run) event(f fed) error {
	if r.feeds[f.from.id] != f.from || f.from.cancel == nil { // it is not wanted any more
		return nil
	}
	if f.err != nil {
		return f.err
	}
	if f.ev.Seq == 0 {
		r.st.send("", "delta", f.ev)
		return nil
	}
	f.from.at = f.ev.Seq
	at := make(map[core.SessionID]int64, len(r.feeds))
	for id, other := range r.feeds {
		at[id] = other.at
	}
	r.st.send(written(at), "event", f.ev)
	return nil
}

func (r *run) notice(n notice) {
	if n.kind == "presence" {
		r.presence()
		return
	}
	if v, ok := n.data.(core.Read); ok {
		r.touch(v.Session) // it may be in another section now
	}
	r.st.send("", n.kind, n.data)
}

// presence sends who looks at what is followed, where that is news.
func (r *run) presence() {
	for id := range r.feeds {
		now := r.s.live.at(id)
		if before, told := r.seen[id]; told && slices.Equal(before, now) {
			continue
		}
		r.seen[id] = now
		r.st.send("", "presence", api.Presence{Session: id, People: now})
	}
}

// touch notes that rows or views of a session may have changed.
func (r *run) touch(id core.SessionID) {
	if _, followed := r.feeds[id]; !followed && !r.inbox {
		return
	}
	r.dirty[id] = true
	r.arm()
}

func (r *run) arm() {
	if !r.armed {
		r.armed = true
		r.due.Reset(max(0, rowEvery-time.Since(r.flushed)))
	}
}

// rows sends what changed of sessions that were touched.
func (r *run) rows() error {
	r.flushed = time.Now()
	ids := slices.Collect(maps.Keys(r.dirty))
	if len(ids) > rowsAtOnce {
		ids = ids[:rowsAtOnce]
	}
	for _, id := range ids {
		delete(r.dirty, id)
	}
	if len(r.dirty) > 0 {
		r.arm()
	}
	rows, err := r.s.deps.Overview.InboxRows(r.ctx, r.by.Handle, ids)
	if err != nil {
		return err
	}
	moved := r.counts == nil
	for _, row := range rows {
		section := string(row.Section)
		if section == "" {
			section = "archived"
		}
		moved = changed(r.sections, row.Session.ID, section) || moved
		if r.feeds[row.Session.ID] != nil && changed(r.views, row.Session.ID, essence(core.InboxRow{Session: row.Session})) {
			r.st.send("", "view", row.Session)
		}
		if r.inbox && changed(r.sent, row.Session.ID, essence(row)) {
			r.st.send("", "row", row)
		}
	}
	if !r.inbox || !moved { // counting looks at every session: only where one came into another section
		return nil
	}
	n, err := r.s.deps.Overview.InboxCounts(r.ctx, r.by.Handle)
	if err == nil && (r.counts == nil || *r.counts != n) {
		r.counts = &n
		r.st.send("", "counts", n)
	}
	return err
}

// essence is a row without what changes with every event and every second.
func essence(row core.InboxRow) string {
	row.Seq, row.Elapsed, row.Session.Updated, row.Session.Active = 0, 0, time.Time{}, 0
	raw, _ := json.Marshal(row) // plain fields only
	return string(raw)
}

// changed remembers what was sent, within a bound.
func changed(sent map[core.SessionID]string, id core.SessionID, now string) bool {
	if sent[id] == now {
		return false
	}
	if len(sent) >= maxSent {
		clear(sent)
	}
	sent[id] = now
	return true
}
