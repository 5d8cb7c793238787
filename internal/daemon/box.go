package daemon

import (
	"context"
	"io"
	"io/fs"
	"strings"

	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/harness/tool"
)

// box gives the tools of the built-in agent the sandbox of a session.
type box struct {
	machine *environment.Machine
	user    string
}

func (b box) guest() *guest.Client { return b.machine.Guest() }

// died makes an error of a dead sandbox say why it died.
func (b box) died(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return b.machine.Explain(ctx, err)
}

func process(p guest.Process) tool.Process {
	return tool.Process{
		ID: string(p.ID), Running: p.Running, ExitCode: p.ExitCode, Signal: p.Signal, TimedOut: p.TimedOut,
		First: p.Stdout.First, End: p.Stdout.End, Started: p.Started, Finished: p.Finished,
	}
}

// Start implements tool.Processes.
func (b box) Start(ctx context.Context, cmd tool.Command) (tool.Process, error) {
	p, err := b.guest().Start(ctx, guest.Command{
		Key: cmd.Key, Argv: []string{"/bin/sh", "-c", cmd.Shell}, Dir: cmd.Dir, User: b.user, Timeout: cmd.Timeout, Merge: true,
	})
	return process(p), b.died(ctx, err)
}

// Process implements tool.Processes.
func (b box) Process(ctx context.Context, id string) (tool.Process, error) {
	p, err := b.guest().Process(ctx, guest.ProcessID(id))
	return process(p), b.died(ctx, err)
}

// Wait implements tool.Processes.
func (b box) Wait(ctx context.Context, id string) (tool.Process, error) {
	p, err := b.guest().Wait(ctx, guest.ProcessID(id))
	return process(p), b.died(ctx, err)
}

// Output implements tool.Processes.
func (b box) Output(ctx context.Context, id string, offset int64, limit int) ([]byte, error) {
	out, err := b.guest().Output(ctx, guest.ProcessID(id), guest.Stdout, offset, false)
	if err != nil {
		return nil, b.died(ctx, err)
	}
	defer out.Close()
	data, err := io.ReadAll(io.LimitReader(out, int64(limit)))
	return data, b.died(ctx, err)
}

// Signal implements tool.Processes.
func (b box) Signal(ctx context.Context, id, signal string) error {
	return b.died(ctx, b.guest().Signal(ctx, guest.ProcessID(id), signal))
}

func fileInfo(f guest.FileInfo) tool.FileInfo {
	return tool.FileInfo{Path: f.Path, Size: f.Size, Mode: f.Mode, Target: f.Target}
}

// Read implements tool.Files.
func (b box) Read(ctx context.Context, path string, limit int64) ([]byte, tool.FileInfo, error) {
	data, info, err := b.guest().ReadFile(ctx, path, 0, limit)
	return data, fileInfo(info), b.died(ctx, err)
}

// Write implements tool.Files.
func (b box) Write(ctx context.Context, path string, mode fs.FileMode, data []byte) error {
	return b.died(ctx, b.guest().WriteFile(ctx, path, mode, strings.NewReader(string(data))))
}

// Remove implements tool.Files.
func (b box) Remove(ctx context.Context, path string) error {
	return b.died(ctx, b.guest().Remove(ctx, path, false))
}

// List implements tool.Files.
func (b box) List(ctx context.Context, path string, depth, limit int) ([]tool.FileInfo, bool, error) {
	got, err := b.guest().Walk(ctx, guest.WalkOptions{Dir: path, Depth: depth, Limit: limit, SkipGit: true, GitIgnore: depth != 1})
	if err != nil {
		return nil, false, b.died(ctx, err)
	}
	out := make([]tool.FileInfo, 0, len(got.Files))
	for _, f := range got.Files {
		out = append(out, fileInfo(f))
	}
	return out, got.Cut, nil
}

// Search implements tool.Files.
func (b box) Search(ctx context.Context, q tool.Query) (tool.Matches, error) {
	req := guest.SearchRequest{Pattern: q.Pattern, IgnoreCase: q.IgnoreCase, Dir: q.Path, Limit: q.Limit}
	if q.Glob != "" {
		req.Globs = []string{q.Glob}
	}
	got, err := b.guest().Search(ctx, req)
	if err != nil {
		return tool.Matches{}, b.died(ctx, err)
	}
	out := tool.Matches{More: got.Cut}
	for _, m := range got.Matches {
		out.Lines = append(out.Lines, tool.Match{Path: m.Path, Line: m.Line, Text: m.Text})
	}
	return out, nil
}

var _ tool.Box = box{}
