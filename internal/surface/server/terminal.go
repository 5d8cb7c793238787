package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func (s *Server) terminalRoutes() {
	register(s, route{id: "session-terminal", method: "GET", path: "/sessions/{id}/terminal", tag: "sessions", stream: true, have: s.deps.Terminals != nil, summary: "Run a command in the sandbox over a WebSocket: ExecRequest first, then bytes both ways, ExecEnd last", content: map[string]*huma.MediaType{
		octets: {Schema: &huma.Schema{Type: "string", Description: "101 Switching Protocols; frames as docs/api.md describes"}},
	}},
		func(_ context.Context, by core.Author, in *IDIn) (*huma.StreamResponse, error) {
			return withSession(in.ID, func(id core.SessionID) (*huma.StreamResponse, error) {
				return &huma.StreamResponse{Body: func(hctx huma.Context) {
					r, w := humago.Unwrap(hctx)
					s.terminal(w, r, id, by)
				}}, nil
			})
		})
}

func (s *Server) terminal(w http.ResponseWriter, r *http.Request, id core.SessionID, by core.Author) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		s.log.DebugContext(r.Context(), "no terminal", "session", id, "err", err)
		return
	}
	conn.SetReadLimit(api.MaxFrame)
	ctx, cancel := s.whileOpen(r.Context())
	defer cancel()

	// The library closes a connection whose Read is cancelled, so the reader
	// of input ends by the closing of the connection and not by a context.
	var input sync.WaitGroup
	defer input.Wait()
	defer func() { _ = conn.CloseNow() }()

	end := s.runTerminal(ctx, func(proc Process) {
		input.Go(func() {
			copyInput(ctx, conn, proc)
			cancel() // the client left, or all is over: so does the process
		})
	}, conn, id, by)
	raw, _ := json.Marshal(end) // plain fields only
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelLast()
	if conn.Write(last, websocket.MessageText, raw) == nil {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
}

// runTerminal copies output until the process ends or the client leaves;
// started is called once there is a process to give input to.
func (s *Server) runTerminal(ctx context.Context, started func(Process), conn *websocket.Conn, id core.SessionID, by core.Author) api.ExecEnd {
	fail := func(err error) api.ExecEnd {
		return api.ExecEnd{ExitCode: -1, Error: &s.problem(ctx, "session-terminal", err).body}
	}
	req, err := readExec(ctx, conn)
	if err != nil {
		return fail(err)
	}
	proc, err := s.deps.Terminals.Exec(ctx, id, by, req)
	if err != nil {
		return fail(err)
	}
	started(proc)
	for chunk, err := range proc.Output(ctx) {
		if err != nil {
			return fail(err)
		}
		for data := chunk.Data; len(data) > 0; {
			n := min(len(data), api.MaxFrame-1)
			if err := conn.Write(ctx, websocket.MessageBinary, append([]byte{chunk.Stream}, data[:n]...)); err != nil {
				return fail(core.E("server.terminal", core.Canceled, err, "the client left"))
			}
			data = data[n:]
		}
	}
	code, signal, err := proc.Wait(ctx)
	if err != nil {
		return fail(err)
	}
	return api.ExecEnd{ExitCode: code, Signal: signal}
}

func readExec(ctx context.Context, conn *websocket.Conn) (api.ExecRequest, error) {
	var req api.ExecRequest
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	kind, raw, err := conn.Read(ctx)
	if err != nil {
		return req, core.E("server.terminal", core.Invalid, err, "read the request of a terminal")
	}
	if kind != websocket.MessageText || json.Unmarshal(raw, &req) != nil {
		return req, core.E("server.terminal", core.Invalid, nil, "the first message of a terminal is not an ExecRequest")
	}
	return req, nil
}

// copyInput ends when the connection does.
func copyInput(ctx context.Context, conn *websocket.Conn, proc Process) {
	for {
		kind, raw, err := conn.Read(context.WithoutCancel(ctx))
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			_ = proc.Input(ctx, raw) // a process that reads no more is no reason to end
			continue
		}
		var c api.Control
		if json.Unmarshal(raw, &c) == nil {
			_ = control(ctx, proc, c)
		}
	}
}

func control(ctx context.Context, proc Process, c api.Control) error {
	switch {
	case c.Resize != nil:
		return proc.Resize(ctx, *c.Resize)
	case c.Signal != "":
		return proc.Signal(ctx, c.Signal)
	case c.EOF:
		return proc.CloseInput(ctx)
	}
	return nil
}
