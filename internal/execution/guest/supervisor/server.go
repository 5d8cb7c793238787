package supervisor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// handler checks the token before anything else is looked at.
func (s *Supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	s.processRoutes(mux)
	s.fileRoutes(mux)
	s.machineRoutes(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.authentic(r.Header.Get("Authorization")) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodConnect {
			s.tunnel(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// reply answers with JSON or with an error.
func (s *Supervisor) reply(w http.ResponseWriter, value any, err error) {
	if err != nil {
		s.fail(w, err)
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	_, _ = w.Write(raw)
}

func (s *Supervisor) fail(w http.ResponseWriter, err error) {
	kind := core.KindOf(err)
	if kind == core.Internal {
		s.log.Warn("request failed", "err", err)
	}
	var body guest.ErrorBody
	body.Error.Kind = kind.String()
	body.Error.Message = clip(err.Error(), 2000)
	body.Error.Hint = clip(core.HintOf(err), 500)
	raw, _ := json.Marshal(body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(kind.HTTPStatus())
	_, _ = w.Write(raw)
}

// decode reads one strict JSON document.
func decode(body io.Reader, into any) error {
	const op = "guest.request"
	limited := &io.LimitedReader{R: body, N: guest.MaxJSON + 1}
	dec := json.NewDecoder(limited)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if limited.N <= 0 {
			return core.E(op, core.Invalid, nil, "the request is larger than %d bytes", guest.MaxJSON)
		}
		return core.E(op, core.Invalid, err, "the request is not what is expected")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return core.E(op, core.Invalid, nil, "the request holds more than one document")
	}
	return nil
}

// call makes a handler of a function from a JSON request to a JSON answer.
func call[In, Out any](s *Supervisor, f func(ctx context.Context, in In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := decode(r.Body, &in); err != nil {
			s.fail(w, err)
			return
		}
		out, err := f(r.Context(), in)
		s.reply(w, out, err)
	}
}

type empty struct{}

func (s *Supervisor) processRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/start", call(s, func(_ context.Context, cmd guest.Command) (guest.Process, error) {
		p, err := s.start(cmd)
		if err != nil {
			return guest.Process{}, err
		}
		return p.snapshot(), nil
	}))
	mux.HandleFunc("POST /v1/run", call(s, s.run))
	mux.HandleFunc("GET /v1/wait", s.wait)
	mux.HandleFunc("GET /v1/processes", func(w http.ResponseWriter, _ *http.Request) {
		out := []guest.Process{}
		for _, p := range s.reg.list() {
			info := p.snapshot()
			out = append(out, info)
		}
		s.reply(w, out, nil)
	})
	mux.HandleFunc("GET /v1/output", s.output)
	mux.HandleFunc("POST /v1/stdin", s.stdin)
	mux.HandleFunc("POST /v1/resize", call(s, s.resize))
	mux.HandleFunc("POST /v1/signal", call(s, func(_ context.Context, in guest.SignalRequest) (empty, error) {
		p, err := s.reg.find(in.ProcessRef)
		if err != nil {
			return empty{}, err
		}
		sig, err := signalByName(in.Signal)
		if err != nil {
			return empty{}, err
		}
		return empty{}, p.signal(sig)
	}))
	mux.HandleFunc("POST /v1/stop", call(s, func(_ context.Context, in guest.StopRequest) (empty, error) {
		p, err := s.reg.find(in.ProcessRef)
		if err == nil {
			s.wg.Go(func() { p.stop(graceOf(in.Grace), s.quit) })
		}
		return empty{}, err
	}))
}

// run starts a command and answers when it has ended. A broken connection
// ends only the waiting: the caller comes back with the same key.
func (s *Supervisor) run(ctx context.Context, cmd guest.Command) (guest.RunReply, error) {
	p, err := s.start(cmd)
	if err != nil {
		return guest.RunReply{}, err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return guest.RunReply{}, ctx.Err()
	}
	reply := guest.RunReply{Process: p.snapshot()}
	reply.Duration = reply.Process.Finished.Sub(reply.Process.Started)
	limit := limitOf(cmd)
	var cutOut, cutErr bool
	reply.Stdout, cutOut = collect(p.out, limit)
	if p.errs != nil {
		reply.Stderr, cutErr = collect(p.errs, limit)
	}
	reply.Truncated = cutOut || cutErr
	return reply, nil
}

func refOf(r *http.Request) guest.ProcessRef {
	q := r.URL.Query()
	return guest.ProcessRef{ID: guest.ProcessID(q.Get("id")), Key: q.Get("key")}
}

func intOf(r *http.Request, name string, fallback, most int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, core.E("guest.request", core.Invalid, nil, "%s=%q is not a number from 0 to %d", name, clip(text, 40), most)
	}
	return n, nil
}

// wait answers when the process has ended or ms have passed, whichever is first.
func (s *Supervisor) wait(w http.ResponseWriter, r *http.Request) {
	p, err := s.reg.find(refOf(r))
	if err != nil {
		s.fail(w, err)
		return
	}
	ms, err := intOf(r, "ms", 0, 60_000)
	if err != nil {
		s.fail(w, err)
		return
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-r.Context().Done():
	case <-s.quit:
	}
	s.reply(w, p.snapshot(), nil)
}

// output sends frames from an offset on; with follow until the process has
// ended and everything was sent.
func (s *Supervisor) output(w http.ResponseWriter, r *http.Request) {
	p, err := s.reg.find(refOf(r))
	if err != nil {
		s.fail(w, err)
		return
	}
	ring, err := p.stream(r.URL.Query().Get("stream"))
	if err != nil {
		s.fail(w, err)
		return
	}
	offset, err := intOf(r, "offset", 0, math.MaxInt64)
	if err != nil {
		s.fail(w, err)
		return
	}
	follow := r.URL.Query().Get("follow") == "1"
	w.Header().Set("Content-Type", "application/vnd.drydock.frames")
	send := frameWriter{w: w, flush: http.NewResponseController(w)}
	_, bound, _ := ring.Bounds() // without follow: what is there now
	alive := time.NewTicker(15 * time.Second)
	defer alive.Stop()
	buf := make([]byte, guest.FrameMax)
	for {
		changed := ring.Changed()
		over := !p.running()
		chunk := buf
		if !follow {
			chunk = buf[:max(0, min(int64(len(buf)), bound-offset))]
		}
		n, at, err := ring.ReadAt(chunk, offset)
		if err != nil {
			return // without an end frame: the reader comes back
		}
		if n > 0 {
			if send.frame(at, chunk[:n]) != nil {
				return
			}
			offset = at + int64(n)
			continue
		}
		if !follow || over {
			send.end(at)
			return
		}
		if send.flushNow() != nil {
			return
		}
		select {
		case <-changed:
		case <-p.done:
		case <-alive.C:
			if send.frame(offset, nil) != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.quit:
			return
		}
	}
}

type frameWriter struct {
	w     io.Writer
	flush *http.ResponseController
	head  [guest.FrameHeader]byte
}

func (f *frameWriter) frame(off int64, data []byte) error {
	binary.BigEndian.PutUint64(f.head[:8], uint64(off))
	binary.BigEndian.PutUint32(f.head[8:], uint32(len(data)))
	if _, err := f.w.Write(f.head[:]); err != nil {
		return err
	}
	_, err := f.w.Write(data)
	return err
}

func (f *frameWriter) end(off int64) {
	binary.BigEndian.PutUint64(f.head[:8], uint64(off))
	binary.BigEndian.PutUint32(f.head[8:], guest.FrameEnd)
	_, _ = f.w.Write(f.head[:])
}

func (f *frameWriter) flushNow() error { return f.flush.Flush() }

// stdin writes the body to the process; close=1 ends its input afterwards.
func (s *Supervisor) stdin(w http.ResponseWriter, r *http.Request) {
	const op = "guest.stdin"
	p, err := s.reg.find(refOf(r))
	if err != nil {
		s.fail(w, err)
		return
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, guest.MaxInput+1))
	switch {
	case err != nil:
		err = core.E(op, core.Invalid, err, "body")
	case len(data) > guest.MaxInput:
		err = core.E(op, core.Invalid, nil, "more than %d bytes in one write", guest.MaxInput)
	case p.stdin == nil:
		err = core.E(op, core.Conflict, nil, "process %s was started without standard input", p.info.ID)
	case !p.running():
		err = core.E(op, core.Conflict, nil, "process %s has ended", p.info.ID)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	p.inMu.Lock()
	defer p.inMu.Unlock()
	// A process that does not read must not hold the writer longer than its
	// connection lives.
	stop := context.AfterFunc(r.Context(), func() { _ = p.stdin.SetWriteDeadline(time.Now()) })
	defer func() {
		if stop() {
			return
		}
		_ = p.stdin.SetWriteDeadline(time.Time{})
	}()
	if len(data) > 0 {
		if _, err := p.stdin.Write(data); err != nil {
			s.fail(w, core.E(op, core.Conflict, err, "process %s does not read its input", p.info.ID))
			return
		}
	}
	if r.URL.Query().Get("close") == "1" {
		p.closeInput()
	}
	s.reply(w, empty{}, nil)
}

// token replaces the token: after a restore of a memory image, the clone must
// not answer to what its siblings answer to.
func (s *Supervisor) rotate(_ context.Context, in guest.TokenRequest) (guest.Health, error) {
	if err := checkToken(in.Token); err != nil {
		return guest.Health{}, err
	}
	s.setToken(in.Token)
	return s.health(), nil
}

func checkToken(token string) error {
	if len(token) < 16 || len(token) > 1024 || strings.ContainsAny(token, " \r\n") {
		return core.E("guest.rotate", core.Invalid, nil, "a token of %d bytes", len(token))
	}
	return nil
}
