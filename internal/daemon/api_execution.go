package daemon

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"sync"
	"time"

	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/store"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// slicePage pages over a list that is in memory; the cursor is a position.
func slicePage[T any](list []T, page core.Page) ([]T, string, error) {
	from := 0
	if page.Cursor != "" {
		n, err := strconv.Atoi(page.Cursor)
		if err != nil || n < 0 {
			return nil, "", core.E("api.page", core.Invalid, nil, "%q is not a cursor of this list", page.Cursor)
		}
		from = min(n, len(list))
	}
	to := min(from+page.Size(), len(list))
	next := ""
	if to < len(list) {
		next = strconv.Itoa(to)
	}
	return list[from:to], next, nil
}

// environments gives the interface environments and builds.
type environments struct{ *environment.Builder }

var _ server.Environments = environments{}

// Build implements server.Environments.
func (e environments) Build(ctx context.Context, req server.BuildRequest) (core.Build, error) {
	return e.Builder.Build(ctx, environment.BuildRequest{Source: req.Source, Name: req.Name, Ref: req.Ref, Fresh: req.Fresh, By: req.By})
}

// Recipe implements server.Environments.
func (e environments) Recipe(ctx context.Context, id core.EnvironmentID) (api.Recipe, error) {
	r, err := e.Builder.Recipe(ctx, id)
	return api.Recipe{File: r.File, Commit: r.Commit, Text: r.Text}, err
}

// sandboxes lists what runs.
type sandboxes struct {
	db     *store.DB
	driver sandbox.Driver
}

var _ server.Sandboxes = sandboxes{}

func (s sandboxes) List(ctx context.Context) ([]api.Sandbox, error) {
	rows, err := s.db.LiveSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]api.Sandbox, 0, len(rows))
	for _, row := range rows {
		shown := api.Sandbox{ID: row.ID, State: row.State, Purpose: row.Purpose, Created: row.Created}
		if row.Purpose == "session" {
			shown.Session = core.SessionID(row.Owner)
		}
		var h sandbox.Handle
		if json.Unmarshal(row.Handle, &h) == nil && h.Guest.IsValid() {
			shown.Address = h.Guest.Addr().String()
		}
		if status, err := s.driver.Status(ctx, row.ID); err == nil {
			shown.State = status.State
		}
		out = append(out, shown)
	}
	return out, nil
}

// look lets people look into a session's files and work in its sandbox.
type look struct{ m *workspace.Manager }

var (
	_ server.Workspaces = look{}
	_ server.Terminals  = look{}
)

func (l look) Diff(ctx context.Context, id core.SessionID) (string, error) { return l.m.Diff(ctx, id) }

func (l look) ReadFile(ctx context.Context, id core.SessionID, path string, limit int64) ([]byte, error) {
	return l.m.ReadFile(ctx, id, path, limit)
}

func (l look) ListFiles(ctx context.Context, id core.SessionID, path string) ([]api.FileInfo, error) {
	list, err := l.m.ListFiles(ctx, id, path)
	if err != nil {
		return nil, err
	}
	out := make([]api.FileInfo, 0, len(list))
	for _, f := range list {
		out = append(out, api.FileInfo{Path: f.Path, Size: f.Size, Mode: f.Mode, ModTime: f.ModTime, Target: f.Target})
	}
	return out, nil
}

// Exec implements server.Terminals. The process ends with ctx: somebody who
// closes a terminal does not leave things running unseen.
func (l look) Exec(ctx context.Context, id core.SessionID, _ core.Author, req api.ExecRequest) (_ server.Process, err error) {
	left := l.m.Attach(id) // from before it wakes: it must not fall asleep in between
	defer func() {
		if err != nil {
			left()
		}
	}()
	w, err := l.m.Wake(ctx, id)
	if err != nil {
		return nil, err
	}
	argv := req.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-c", "[ -x /bin/bash ] && exec /bin/bash -l; exec /bin/sh -l"}
	}
	cmd := guest.Command{Argv: argv, Dir: req.Dir, Env: req.Env, Stdin: req.Stdin, User: w.Machine().User()}
	if req.PTY != nil {
		cmd.PTY = &guest.Size{Rows: req.PTY.Rows, Cols: req.PTY.Cols}
	}
	g := w.Machine().Guest()
	p, err := g.Start(ctx, cmd)
	if err != nil {
		return nil, w.Machine().Explain(ctx, err)
	}
	t := &terminal{m: w.Machine(), g: g, id: p.ID, pty: req.PTY != nil}
	context.AfterFunc(ctx, func() {
		left()
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = g.Stop(clean, p.ID, 2*time.Second) // the sandbox may be gone, and the process with it
	})
	return t, nil
}

// terminal is a command that a person runs.
type terminal struct {
	m   *environment.Machine
	g   *guest.Client
	id  guest.ProcessID
	pty bool
}

// Output implements server.Process.
func (t *terminal) Output(ctx context.Context) iter.Seq2[server.Chunk, error] {
	return func(yield func(server.Chunk, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		type piece struct {
			chunk server.Chunk
			err   error
		}
		pieces := make(chan piece)
		var wg sync.WaitGroup
		streams := map[string]byte{guest.Stdout: api.StreamOutput, guest.Stderr: api.StreamError}
		if t.pty {
			delete(streams, guest.Stderr)
		}
		for name, code := range streams {
			wg.Go(func() {
				send := func(p piece) bool {
					select {
					case pieces <- p:
						return true
					case <-ctx.Done():
						return false
					}
				}
				err := t.m.Follow(ctx, t.id, name, writer(func(p []byte) error {
					if !send(piece{chunk: server.Chunk{Stream: code, Data: append([]byte(nil), p...)}}) {
						return ctx.Err()
					}
					return nil
				}))
				if err != nil {
					send(piece{err: err})
				}
			})
		}
		go func() {
			wg.Wait()
			close(pieces)
		}()
		for p := range pieces {
			if !yield(p.chunk, t.m.Explain(ctx, p.err)) || p.err != nil {
				cancel()
				for range pieces { //nolint:revive // drained, so that the readers end
				}
				return
			}
		}
	}
}

type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) { return len(p), w(p) }

// Input implements server.Process.
func (t *terminal) Input(ctx context.Context, p []byte) error { return t.g.Write(ctx, t.id, p) }

// CloseInput implements server.Process.
func (t *terminal) CloseInput(ctx context.Context) error { return t.g.CloseStdin(ctx, t.id) }

// Resize implements server.Process.
func (t *terminal) Resize(ctx context.Context, s api.Size) error {
	return t.g.Resize(ctx, t.id, guest.Size{Rows: s.Rows, Cols: s.Cols})
}

// Signal implements server.Process.
func (t *terminal) Signal(ctx context.Context, name string) error { return t.g.Signal(ctx, t.id, name) }

// Wait implements server.Process.
func (t *terminal) Wait(ctx context.Context) (int, string, error) {
	p, err := t.g.Wait(ctx, t.id)
	return p.ExitCode, p.Signal, t.m.Explain(ctx, err)
}
