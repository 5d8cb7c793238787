package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

type eventsIn struct {
	IDIn
	After       int64  `query:"after" minimum:"0" doc:"events after this number"`
	Before      int64  `query:"before" minimum:"1" doc:"the last events before this number; only with follow=false"`
	Bodies      string `query:"bodies" enum:"whole,short" doc:"short: long texts are cut to beginning and end"`
	Follow      bool   `query:"follow" default:"true" doc:"false: one page of JSON instead of a stream"`
	Limit       int    `query:"limit" minimum:"1" maximum:"500" doc:"of a page"`
	LastEventID string `header:"Last-Event-ID" doc:"as after; wins"`
}

func (in *eventsIn) after() (int64, error) {
	if in.LastEventID == "" {
		return in.After, nil
	}
	n, err := strconv.ParseInt(in.LastEventID, 10, 64)
	if err != nil || n < 0 {
		return 0, core.E("server.events", core.Invalid, nil, "Last-Event-ID %q is not a sequence number", clip(in.LastEventID, 40))
	}
	return n, nil
}

func (s *Server) streamRoutes() {
	d := s.deps
	schemas := s.api.OpenAPI().Components.Schemas
	content := map[string]*huma.MediaType{
		"text/event-stream": {Schema: &huma.Schema{Type: "string", Description: "id: the sequence number (absent on deltas), event: the kind, data: an Event; comments keep the connection alive"}},
		"application/json":  {Schema: schemas.Schema(reflect.TypeFor[api.List[api.ReadEvent]](), true, "")},
	}
	register(s, route{id: "session-events", method: "GET", path: "/sessions/{id}/events", tag: "events", stream: true, content: content, have: d.Events != nil && d.Sessions != nil, summary: "Events of a session, as a stream that can be resumed"},
		func(ctx context.Context, _ core.Author, in *eventsIn) (*huma.StreamResponse, error) {
			return withSession(in.ID, func(id core.SessionID) (*huma.StreamResponse, error) {
				if _, err := d.Sessions.Get(ctx, id); err != nil {
					return nil, err
				}
				return s.events(ctx, string(id), in)
			})
		})
	register(s, route{id: "build-events", method: "GET", path: "/builds/{id}/events", tag: "events", stream: true, content: content, have: d.Events != nil && d.Environments != nil, summary: "Events of a build, as a stream that can be resumed"},
		func(ctx context.Context, _ core.Author, in *eventsIn) (*huma.StreamResponse, error) {
			id, err := core.ParseID[core.BuildID]("bld_", in.ID)
			if err != nil {
				return nil, err
			}
			if _, err := d.Environments.GetBuild(ctx, id); err != nil {
				return nil, err
			}
			return s.events(ctx, string(id), in)
		})
	register(s, route{id: "rerun-evidence", method: "POST", path: "/evidence/{id}/rerun", tag: "evidence", stream: true, have: d.Evidence != nil, summary: "Run a proof again; events, then one event named result", content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: &huma.Schema{Type: "string", Description: "data: an Event; the last one is named result and is a Rerun"}},
	}}, s.rerun)
	schemas.Schema(reflect.TypeFor[api.Rerun](), true, "Rerun")
	s.terminalRoutes()
}

func (s *Server) events(ctx context.Context, subject string, in *eventsIn) (*huma.StreamResponse, error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	if in.Follow && in.Before > 0 {
		return nil, core.E("server.events", core.Invalid, nil, "nobody can follow what is before event %d", in.Before).WithHint("add follow=false")
	}
	if in.Before > 0 && after > 0 {
		return nil, core.E("server.events", core.Invalid, nil, "after and before are given both")
	}
	if !in.Follow {
		page, err := s.eventPage(ctx, subject, after, in)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			hctx.SetHeader("Content-Type", "application/json")
			_ = json.NewEncoder(hctx.BodyWriter()).Encode(page)
		}}, nil
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		_, w := humago.Unwrap(hctx)
		s.follow(ctx, newStream(w), subject, after, in.Bodies == "short")
	}}, nil
}

// whileOpen is a context that ends with the server too. Its cancel waits for
// the goroutine that watches.
func (s *Server) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watching
	}
}

type followed struct {
	ev  core.Event
	err error
}

// follow sends what comes until the client or the server goes away. One
// goroutine reads the log; it ends with ctx, and follow waits for it.
func (s *Server) follow(ctx context.Context, st *stream, subject string, after int64, short bool) {
	ctx, cancel := s.whileOpen(ctx)
	ch := make(chan followed, 256)
	go func() {
		defer close(ch)
		for ev, err := range s.deps.Events.Follow(ctx, subject, after) {
			select {
			case ch <- followed{ev, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range ch { // wait for the reader to end
		}
	}()
	st.start()
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f, open := <-ch:
			if !open {
				return
			}
			if f.err != nil {
				if ctx.Err() == nil {
					st.fail(s.problem(ctx, "events", f.err))
				}
				return
			}
			st.read(bodies(f.ev, short))
			if len(ch) == 0 {
				st.flush()
			}
		case <-beat.C:
			if err := s.stillKnown(ctx); err != nil {
				st.fail(s.problem(ctx, "events", err))
				return
			}
			st.comment("beat")
			st.flush()
		}
		if st.err != nil {
			return
		}
	}
}

// stillKnown is the error of a person whose token or sign-in has ended since
// their stream began.
func (s *Server) stillKnown(ctx context.Context) error {
	r := requestOf(ctx)
	if r == nil {
		return nil
	}
	if _, err := s.who(bearerOrCookie, r); core.Is(err, core.Unauthorized) {
		return err
	}
	return nil
}

func (s *Server) rerun(ctx context.Context, by core.Author, in *IDIn) (*huma.StreamResponse, error) {
	return withEvidence(in.ID, func(id core.EvidenceID) (*huma.StreamResponse, error) {
		if _, _, err := s.deps.Evidence.Manifest(ctx, id); err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			_, w := humago.Unwrap(hctx)
			st := newStream(w)
			work(ctx, s, st, "rerun-evidence", st.event, func(ctx context.Context, progress func(core.Event)) (api.Rerun, error) {
				return s.deps.Evidence.Rerun(ctx, id, by, progress)
			})
		}}, nil
	})
}

// work streams something long: messages as they come, then one named result,
// or one named error. It ends with the client, and waits for the work to end.
func work[P, R any](ctx context.Context, s *Server, st *stream, id string, send func(P), do func(ctx context.Context, progress func(P)) (R, error)) {
	ctx, cancel := s.whileOpen(ctx)
	type end struct {
		res R
		err error
	}
	messages := make(chan P, 64)
	done := make(chan end, 1)
	go func() {
		defer close(messages)
		res, err := do(ctx, func(p P) {
			select {
			case messages <- p:
			case <-ctx.Done():
			}
		})
		done <- end{res, err}
	}()
	defer func() {
		cancel()
		for range messages { // wait for the work to end
		}
	}()
	st.start()
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case p, open := <-messages:
			if !open {
				e := <-done
				if e.err != nil {
					st.fail(s.problem(ctx, id, e.err))
					return
				}
				st.send("", "result", e.res)
				st.flush()
				return
			}
			send(p)
			st.flush()
		case <-beat.C:
			st.comment("beat")
			st.flush()
		}
		if st.err != nil {
			return
		}
	}
}

// stream writes server-sent events. The first error sticks.
type stream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
	// patience is for a reader that takes nothing; default 30 s.
	patience time.Duration
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, rc: http.NewResponseController(w), patience: 30 * time.Second}
}

func (s *stream) start() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy in front must not hold events back
	s.write("retry: 1000\n\n")
	s.flush()
}

func (s *stream) write(text string) {
	if s.err == nil {
		_ = s.rc.SetWriteDeadline(time.Now().Add(s.patience))
		_, s.err = s.w.Write([]byte(text))
	}
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.rc.Flush()
	}
}

func (s *stream) comment(text string) { s.write(": " + text + "\n\n") }

func (s *stream) event(ev core.Event) { s.read(api.ReadEvent{Event: ev}) }

func (s *stream) read(ev api.ReadEvent) {
	id := ""
	if ev.Seq > 0 {
		id = strconv.FormatInt(ev.Seq, 10)
	}
	s.send(id, string(ev.Kind), ev)
}

func (s *stream) send(id, kind string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		s.err = fmt.Errorf("event is not JSON: %w", err)
		return
	}
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + strings.NewReplacer("\n", "", "\r", "").Replace(kind) + "\ndata: ")
	b.Write(raw)
	b.WriteString("\n\n")
	s.write(b.String())
}

func (s *stream) fail(p *problem) {
	s.send("", "error", p)
	s.flush()
}
