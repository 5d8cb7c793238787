package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"

	"drydock/internal/control/workspace"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/harness/tool"
)

// box gives the tools of the built-in agent the sandbox of a session. When the
// sandbox dies, the call that notices fails and says why; the next one opens
// it again from its files.
type box struct {
	open func(context.Context) (opened, error)

	mu     sync.Mutex
	living opened
}

// opened is what the box uses of a workspace.
type opened interface {
	Machine() *environment.Machine
	// Ready returns when the files are those of the session.
	Ready(ctx context.Context) error
}

var _ opened = (*workspace.Workspace)(nil)

// workspace is the one that lives, as far as is known.
func (b *box) workspace(ctx context.Context) (opened, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.living != nil {
		return b.living, nil
	}
	w, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	b.living = w
	return w, nil
}

// write is do for what changes something: it waits until the files are those
// of the session.
func (b *box) write(ctx context.Context, call func(*environment.Machine, *guest.Client) error) error {
	w, err := b.workspace(ctx)
	if err != nil {
		return err
	}
	if err := w.Ready(ctx); err != nil {
		b.mu.Lock()
		if b.living == w {
			b.living = nil
		}
		b.mu.Unlock()
		return err
	}
	return b.do(ctx, call)
}

// do calls the guest, and makes the error of a dead sandbox say why it died.
func (b *box) do(ctx context.Context, call func(*environment.Machine, *guest.Client) error) error {
	w, err := b.workspace(ctx)
	if err != nil {
		return err
	}
	m := w.Machine()
	if err = call(m, m.Guest()); err == nil {
		return nil
	}
	err = m.Explain(ctx, err)
	if _, dead := errors.AsType[*environment.DeadError](err); !dead {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.living == w {
		b.living = nil
	}
	return &goneError{err}
}

// goneError tells the agent what to expect of its next call.
type goneError struct{ err error }

func (e *goneError) Error() string {
	return e.err.Error() + "; its files are kept: the next call opens a new sandbox with them, and what ran in the old one is gone"
}

func (e *goneError) Unwrap() error { return e.err }

func process(p guest.Process) tool.Process {
	return tool.Process{
		ID: string(p.ID), Running: p.Running, ExitCode: p.ExitCode, Signal: p.Signal, TimedOut: p.TimedOut,
		First: p.Stdout.First, End: p.Stdout.End, Started: p.Started, Finished: p.Finished,
	}
}

// Start implements tool.Processes.
func (b *box) Start(ctx context.Context, cmd tool.Command) (out tool.Process, err error) {
	err = b.write(ctx, func(m *environment.Machine, g *guest.Client) error {
		p, err := g.Start(ctx, guest.Command{
			Key: cmd.Key, Argv: []string{"/bin/sh", "-c", cmd.Shell}, Dir: cmd.Dir, User: m.User(), Timeout: cmd.Timeout, Merge: true,
		})
		out = process(p)
		return err
	})
	return out, err
}

// Process implements tool.Processes.
func (b *box) Process(ctx context.Context, id string) (out tool.Process, err error) {
	err = b.do(ctx, func(_ *environment.Machine, g *guest.Client) error {
		p, err := g.Process(ctx, guest.ProcessID(id))
		out = process(p)
		return err
	})
	return out, err
}

// Wait implements tool.Processes.
func (b *box) Wait(ctx context.Context, id string) (out tool.Process, err error) {
	err = b.do(ctx, func(_ *environment.Machine, g *guest.Client) error {
		p, err := g.Wait(ctx, guest.ProcessID(id))
		out = process(p)
		return err
	})
	return out, err
}

// Output implements tool.Processes.
func (b *box) Output(ctx context.Context, id string, offset int64, limit int) (out []byte, err error) {
	err = b.do(ctx, func(_ *environment.Machine, g *guest.Client) error {
		r, err := g.Output(ctx, guest.ProcessID(id), guest.Stdout, offset, false)
		if err != nil {
			return err
		}
		defer r.Close()
		out, err = io.ReadAll(io.LimitReader(r, int64(limit)))
		return err
	})
	return out, err
}

// Signal implements tool.Processes.
func (b *box) Signal(ctx context.Context, id, signal string) error {
	return b.do(ctx, func(_ *environment.Machine, g *guest.Client) error { return g.Signal(ctx, guest.ProcessID(id), signal) })
}

func fileInfo(f guest.FileInfo) tool.FileInfo {
	return tool.FileInfo{Path: f.Path, Size: f.Size, Mode: f.Mode, Target: f.Target}
}

// Read implements tool.Files.
func (b *box) Read(ctx context.Context, path string, limit int64) (data []byte, info tool.FileInfo, err error) {
	err = b.do(ctx, func(_ *environment.Machine, g *guest.Client) error {
		got, i, err := g.ReadFile(ctx, path, 0, limit)
		data, info = got, fileInfo(i)
		return err
	})
	return data, info, err
}

// Write implements tool.Files.
func (b *box) Write(ctx context.Context, path string, mode fs.FileMode, data []byte) error {
	return b.write(ctx, func(m *environment.Machine, g *guest.Client) error {
		return g.WriteFileAs(ctx, m.User(), path, mode, strings.NewReader(string(data)))
	})
}

// Remove implements tool.Files.
func (b *box) Remove(ctx context.Context, path string) error {
	return b.write(ctx, func(_ *environment.Machine, g *guest.Client) error { return g.Remove(ctx, path, false) })
}

// List implements tool.Files.
func (b *box) List(ctx context.Context, path string, depth, limit int) (out []tool.FileInfo, cut bool, err error) {
	err = b.do(ctx, func(_ *environment.Machine, g *guest.Client) error {
		got, err := g.Walk(ctx, guest.WalkOptions{Dir: path, Depth: depth, Limit: limit, SkipGit: true, GitIgnore: depth != 1})
		out, cut = make([]tool.FileInfo, 0, len(got.Files)), got.Cut
		for _, f := range got.Files {
			out = append(out, fileInfo(f))
		}
		return err
	})
	return out, cut, err
}

// Search implements tool.Files.
func (b *box) Search(ctx context.Context, q tool.Query) (out tool.Matches, err error) {
	req := guest.SearchRequest{Pattern: q.Pattern, IgnoreCase: q.IgnoreCase, Dir: q.Path, Limit: q.Limit}
	if q.Glob != "" {
		req.Globs = []string{q.Glob}
	}
	err = b.do(ctx, func(_ *environment.Machine, g *guest.Client) error {
		got, err := g.Search(ctx, req)
		out = tool.Matches{More: got.Cut}
		for _, m := range got.Matches {
			out.Lines = append(out.Lines, tool.Match{Path: m.Path, Line: m.Line, Text: m.Text})
		}
		return err
	})
	return out, err
}

var _ tool.Box = (*box)(nil)
