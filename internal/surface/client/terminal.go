package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Exec is a command to run in a session's sandbox.
type Exec struct {
	api.ExecRequest
	In       io.Reader // nil: none. Read until the command ends; the last read may outlive it
	Out, Err io.Writer
	// Sizes and Signals are passed on while the command runs; nil is fine.
	Sizes   <-chan api.Size
	Signals <-chan string
}

// Exec runs a command and returns how it ended.
func (c *Client) Exec(ctx context.Context, id core.SessionID, e Exec) (api.ExecEnd, error) {
	e.Stdin = e.In != nil
	header := http.Header{}
	if c.opts.Token != "" {
		header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	conn, resp, err := websocket.Dial( //nolint:bodyclose // the library says nobody needs to
		ctx, c.url("/sessions/"+seg(string(id))+"/terminal", nil), &websocket.DialOptions{
			HTTPClient: c.opts.HTTP, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
		})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != 0 {
			return api.ExecEnd{}, c.refused(resp)
		}
		return api.ExecEnd{}, c.unreachable(ctx, err)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(api.MaxFrame * 2)
	first, err := json.Marshal(e.ExecRequest)
	if err != nil {
		return api.ExecEnd{}, core.E("client.exec", core.Internal, err, "request")
	}
	if err := conn.Write(ctx, websocket.MessageText, first); err != nil {
		return api.ExecEnd{}, c.unreachable(ctx, err)
	}
	sendCtx, cancel := context.WithCancel(ctx)
	var senders sync.WaitGroup
	defer senders.Wait()
	defer cancel()
	if e.In != nil {
		// A read of a terminal cannot be interrupted, so nobody waits for it.
		go sendInput(sendCtx, conn, e.In)
	}
	senders.Go(func() { sendControl(sendCtx, conn, e) })
	return c.receive(ctx, conn, e)
}

func (c *Client) receive(ctx context.Context, conn *websocket.Conn, e Exec) (api.ExecEnd, error) {
	for {
		kind, raw, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return api.ExecEnd{}, core.E("client.exec", core.Canceled, ctx.Err(), "")
			}
			return api.ExecEnd{}, core.E("client.exec", core.Unavailable, err, "connection to the command broke off")
		}
		if kind == websocket.MessageBinary {
			if len(raw) == 0 {
				continue
			}
			w := e.Out
			if raw[0] == api.StreamError && e.Err != nil {
				w = e.Err
			}
			if _, err := w.Write(raw[1:]); err != nil {
				return api.ExecEnd{}, core.E("client.exec", core.Internal, err, "write output")
			}
			continue
		}
		var end api.ExecEnd
		if err := json.Unmarshal(raw, &end); err != nil {
			return end, core.E("client.exec", core.Internal, err, "end of the command is not readable")
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
		if end.Error != nil {
			return end, errorOf(*end.Error)
		}
		return end, nil
	}
}

func sendInput(ctx context.Context, conn *websocket.Conn, in io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if ctx.Err() != nil {
			return
		}
		if n > 0 && conn.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
			return
		}
		if err != nil {
			sendOne(ctx, conn, api.Control{EOF: true})
			return
		}
	}
}

func sendControl(ctx context.Context, conn *websocket.Conn, e Exec) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, open := <-e.Sizes:
			if !open {
				e.Sizes = nil
				continue
			}
			sendOne(ctx, conn, api.Control{Resize: &size})
		case sig, open := <-e.Signals:
			if !open {
				e.Signals = nil
				continue
			}
			sendOne(ctx, conn, api.Control{Signal: strings.TrimPrefix(strings.ToUpper(sig), "SIG")})
		}
	}
}

func sendOne(ctx context.Context, conn *websocket.Conn, c api.Control) {
	raw, err := json.Marshal(c)
	if err != nil {
		return
	}
	_ = conn.Write(ctx, websocket.MessageText, raw)
}
