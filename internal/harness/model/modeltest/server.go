// Package modeltest has model servers for tests, which speak the wire formats
// over real sockets with every fault that the field has shown, and the suite
// that each provider behind HTTP passes.
//
//	srv := modeltest.Serve(t, modeltest.Anthropic{}.Reply(model.WantsTools, usage, blocks...))
//	p := anthropic.New(anthropic.Options{Key: "k", BaseURL: srv.URL})
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Step is how the server treats one request.
type Step struct {
	Status int // default 200
	Header map[string]string
	Body   string   // sent as it is, with application/json unless Header says otherwise
	Frames []string // server-sent events
	Pause  time.Duration
	Hang   bool // keep the connection open after the frames, until the client leaves
	Abort  bool // break the connection after the frames
}

// Server answers requests with its steps in order; the last one is repeated.
type Server struct {
	URL string

	mu       sync.Mutex
	steps    []Step
	next     int
	requests []Request
}

// Request is what came.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
	Raw    []byte
}

// Serve starts a server that ends with the test.
func Serve(t testing.TB, steps ...Step) *Server {
	t.Helper()
	s := &Server{steps: steps}
	h := httptest.NewServer(http.HandlerFunc(s.handle))
	s.URL = h.URL
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return s
}

// Requests that came so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(io.LimitReader(r.Body, 64<<20)) // a short body fails to parse below
	req := Request{Path: r.URL.Path, Header: r.Header.Clone(), Raw: raw}
	_ = json.Unmarshal(raw, &req.Body) // tests look at what is there
	s.mu.Lock()
	s.requests = append(s.requests, req)
	step := s.steps[min(s.next, len(s.steps)-1)]
	s.next++
	s.mu.Unlock()

	kind := "text/event-stream; charset=utf-8"
	if step.Frames == nil {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	for k, v := range step.Header {
		w.Header().Set(k, v)
	}
	if step.Status == 0 {
		step.Status = http.StatusOK
	}
	w.WriteHeader(step.Status)
	_, _ = io.WriteString(w, step.Body)
	flush := http.NewResponseController(w)
	for _, f := range step.Frames {
		if step.Pause > 0 {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(step.Pause):
			}
		}
		if _, err := io.WriteString(w, f); err != nil {
			return
		}
		_ = flush.Flush()
	}
	switch {
	case step.Hang:
		<-r.Context().Done()
	case step.Abort:
		panic(http.ErrAbortHandler)
	}
}

func event(name string, data any) string {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	if name == "" {
		return fmt.Sprintf("data: %s\n\n", raw)
	}
	return fmt.Sprintf("event: %s\ndata: %s\n\n", name, raw)
}

// pieces cuts a text as streams do, in the middle of words and characters' runs.
func pieces(s string) []string {
	var out []string
	for r := []rune(s); len(r) > 0; {
		n := min(5, len(r))
		out = append(out, string(r[:n]))
		r = r[n:]
	}
	return out
}
