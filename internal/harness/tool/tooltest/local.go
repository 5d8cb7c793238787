// Package tooltest helps tests: a tool.Box that works in a directory of this
// host, and a suite that every Box passes.
//
//	box := tooltest.Local(t, t.TempDir())
package tooltest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/tool"
)

// LocalBox is a tool.Box without a sandbox. Its root stands for /workspace:
// tests give it as tool.Options.Root.
type LocalBox struct {
	Root string

	mu      sync.Mutex
	procs   map[string]*proc
	byKey   map[string]string
	Starts  int   // processes really started
	FailNow error // every call fails with it, when set
}

type proc struct {
	mu   sync.Mutex
	info tool.Process
	out  []byte
	cmd  *exec.Cmd
	done chan struct{}
}

// Local makes a LocalBox; processes that are left are killed at the end.
func Local(t testing.TB, root string) *LocalBox {
	b := &LocalBox{Root: root, procs: map[string]*proc{}, byKey: map[string]string{}}
	t.Cleanup(func() {
		for _, p := range b.procs {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // may have ended
			<-p.done
		}
	})
	return b
}

func (b *LocalBox) fail() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.FailNow
}

// Break makes every later call fail, nil mends it.
func (b *LocalBox) Break(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.FailNow = err
}

type writer struct{ p *proc }

func (w writer) Write(d []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.out = append(w.p.out, d...)
	return len(d), nil
}

// Start implements tool.Processes.
func (b *LocalBox) Start(ctx context.Context, c tool.Command) (tool.Process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.FailNow != nil {
		return tool.Process{}, b.FailNow
	}
	if id, ok := b.byKey[c.Key]; ok && c.Key != "" {
		return b.procs[id].now(), nil
	}
	if _, err := os.Stat(c.Dir); err != nil {
		return tool.Process{}, core.E("box.start", core.Invalid, nil, "directory %s does not exist", c.Dir)
	}
	// The process outlives the call, as in a sandbox; clean-up kills it.
	p := &proc{done: make(chan struct{}), cmd: exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", c.Shell)}
	p.cmd.Dir = c.Dir
	p.cmd.Stdout, p.cmd.Stderr = writer{p}, writer{p}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return tool.Process{}, core.E("box.start", core.Internal, err, "sh cannot be started")
	}
	b.Starts++
	p.info = tool.Process{ID: fmt.Sprintf("p%d", len(b.procs)+1), Running: true, Started: time.Now()}
	b.procs[p.info.ID] = p
	if c.Key != "" {
		b.byKey[c.Key] = p.info.ID
	}
	go p.watch(c.Timeout)
	return p.now(), nil
}

func (p *proc) watch(timeout time.Duration) {
	defer close(p.done)
	if timeout > 0 {
		t := time.AfterFunc(timeout, func() {
			p.mu.Lock()
			p.info.TimedOut = p.info.Running
			p.mu.Unlock()
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // may have ended
		})
		defer t.Stop()
	}
	_ = p.cmd.Wait() // the state says how it ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info.Running, p.info.Finished = false, time.Now()
	p.info.ExitCode = p.cmd.ProcessState.ExitCode()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.info.Signal = strings.ToUpper(ws.Signal().String())
		p.info.ExitCode = 128 + int(ws.Signal())
	}
}

func (p *proc) now() tool.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.info
	out.End = int64(len(p.out))
	return out
}

func (b *LocalBox) get(id string) (*proc, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.FailNow != nil {
		return nil, b.FailNow
	}
	if p, ok := b.procs[id]; ok {
		return p, nil
	}
	return nil, core.E("box.process", core.NotFound, nil, "process %s does not exist", id)
}

// Process implements tool.Processes.
func (b *LocalBox) Process(_ context.Context, id string) (tool.Process, error) {
	p, err := b.get(id)
	if err != nil {
		return tool.Process{}, err
	}
	return p.now(), nil
}

// Wait implements tool.Processes.
func (b *LocalBox) Wait(ctx context.Context, id string) (tool.Process, error) {
	p, err := b.get(id)
	if err != nil {
		return tool.Process{}, err
	}
	select {
	case <-ctx.Done():
		return p.now(), context.Cause(ctx)
	case <-p.done:
		return p.now(), nil
	}
}

// Output implements tool.Processes.
func (b *LocalBox) Output(_ context.Context, id string, offset int64, limit int) ([]byte, error) {
	p, err := b.get(id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	from := min(max(offset, 0), int64(len(p.out)))
	return append([]byte(nil), p.out[from:min(from+int64(limit), int64(len(p.out)))]...), nil
}

// Signal implements tool.Processes.
func (b *LocalBox) Signal(_ context.Context, id, signal string) error {
	p, err := b.get(id)
	if err != nil {
		return err
	}
	sig, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "INT": syscall.SIGINT}[signal]
	if !ok {
		return core.E("box.signal", core.Invalid, nil, "signal %q is not known", signal)
	}
	if !p.now().Running {
		return core.E("box.signal", core.Conflict, nil, "process %s has ended", id)
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, sig) // it may just have ended
	return nil
}

func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return core.E("box.file", core.NotFound, nil, "%s does not exist", path)
	}
	return core.E("box.file", core.Invalid, err, "%s", path)
}

// Read implements tool.Files.
func (b *LocalBox) Read(_ context.Context, path string, max int64) ([]byte, tool.FileInfo, error) {
	if err := b.fail(); err != nil {
		return nil, tool.FileInfo{}, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, tool.FileInfo{}, missing(path, err)
	}
	info := tool.FileInfo{Path: path, Size: st.Size(), Mode: st.Mode()}
	if st.IsDir() {
		return nil, info, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, info, missing(path, err)
	}
	return data[:min(int64(len(data)), max)], info, nil
}

// Write implements tool.Files.
func (b *LocalBox) Write(_ context.Context, path string, mode fs.FileMode, data []byte) error {
	if err := b.fail(); err != nil {
		return err
	}
	if mode == 0 {
		mode = 0o644
		if st, err := os.Stat(path); err == nil {
			mode = st.Mode().Perm()
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return missing(path, err)
	}
	if err := os.WriteFile(path+".new", data, mode); err != nil {
		return missing(path, err)
	}
	return os.Rename(path+".new", path)
}

// Remove implements tool.Files.
func (b *LocalBox) Remove(_ context.Context, path string) error {
	if err := os.Remove(path); err != nil {
		return missing(path, err)
	}
	return nil
}

// List implements tool.Files.
func (b *LocalBox) List(_ context.Context, path string, depth, limit int) ([]tool.FileInfo, bool, error) {
	var out []tool.FileInfo
	more := false
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == path {
			return nil
		}
		if len(out) == limit {
			more = true
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := tool.FileInfo{Path: p, Size: info.Size(), Mode: info.Mode()}
		f.Target, _ = os.Readlink(p) // "" for what is no link
		out = append(out, f)
		rel, _ := filepath.Rel(path, p)
		if d.IsDir() && (strings.Count(rel, "/")+1 >= depth || d.Name() == ".git") {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, false, missing(path, err)
	}
	return out, more, nil
}

// Search implements tool.Files.
func (b *LocalBox) Search(_ context.Context, q tool.Query) (tool.Matches, error) {
	pattern := q.Pattern
	if q.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return tool.Matches{}, core.E("box.search", core.Invalid, err, "pattern %q", q.Pattern)
	}
	var m tool.Matches
	err = filepath.WalkDir(q.Path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if ok, _ := filepath.Match(q.Glob, d.Name()); q.Glob != "" && !ok {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil || strings.ContainsRune(string(data), 0) {
			return err
		}
		for i, line := range strings.Split(string(data), "\n") {
			if !re.MatchString(line) {
				continue
			}
			if len(m.Lines) == q.Limit {
				m.More = true
				return fs.SkipAll
			}
			m.Lines = append(m.Lines, tool.Match{Path: p, Line: i + 1, Text: line})
		}
		return nil
	})
	if err != nil {
		return tool.Matches{}, missing(q.Path, err)
	}
	return m, nil
}
