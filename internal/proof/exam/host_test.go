package exam_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drydock/internal/gitcmd"
	"drydock/internal/proof/exam"
)

// hostRooms are rooms without walls: fresh clones in temporary directories of
// this host. They show that the engine works with real git, real runners and
// real reports.
type hostRooms struct {
	t    *testing.T
	repo string
	env  []string
	open atomic.Int32
}

func (h *hostRooms) Open(_ context.Context, _ exam.RoomRequest) (exam.Room, error) {
	dir, err := os.MkdirTemp(h.t.TempDir(), "room-")
	if err != nil {
		return nil, err
	}
	h.open.Add(1)
	root := filepath.Join(dir, "workspace")
	if out, err := exec.Command("git", "clone", "-q", h.repo, root).CombinedOutput(); err != nil {
		return nil, errors.New(string(out))
	}
	return &hostRoom{rooms: h, dir: dir, root: root}, nil
}

type hostRoom struct {
	rooms     *hostRooms
	dir, root string
}

func (r *hostRoom) Root() string { return r.root }

func (r *hostRoom) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New(string(out))
	}
	return nil
}

func (r *hostRoom) Checkout(ctx context.Context, commit string) error {
	return r.git(ctx, "reset", "-q", "--hard", commit)
}

func (r *hostRoom) Overlay(_ context.Context, files []exam.OverlayFile) error {
	for _, f := range files {
		p := filepath.Join(r.root, f.Path)
		if f.Delete {
			if err := os.RemoveAll(p); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, f.Data, f.Mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}

func (r *hostRoom) Ready(context.Context) error { return nil }

func (r *hostRoom) Run(ctx context.Context, c exam.Command) (exam.Outcome, error) {
	limit, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(limit, "sh", "-c", c.Shell)
	cmd.Dir = filepath.Join(r.root, c.Dir)
	cmd.Env = append(append(os.Environ(), r.rooms.env...), c.Env...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	out := exam.Outcome{Started: time.Now()}
	err := cmd.Run()
	out.Duration = time.Since(out.Started)
	out.Stdout, out.Stderr = exam.Bytes(stdout.Bytes()), exam.Bytes(stderr.Bytes())
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	if limit.Err() != nil {
		out.TimedOut, out.ExitCode = true, 137
		return out, nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		out.ExitCode = exit.ExitCode()
		return out, nil
	}
	return out, err
}

func (r *hostRoom) match(globs []string) []string {
	var out []string
	for _, g := range globs {
		found, _ := filepath.Glob(filepath.Join(r.root, g))
		out = append(out, found...)
	}
	return out
}

func (r *hostRoom) Files(_ context.Context, globs []string, limit int64) ([]exam.RoomFile, error) {
	var out []exam.RoomFile
	for _, p := range r.match(globs) {
		info, err := os.Lstat(p)
		if err != nil || !info.Mode().IsRegular() || info.Size() > limit {
			continue
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		rel, _ := filepath.Rel(r.root, p)
		out = append(out, exam.RoomFile{Path: rel, ModTime: info.ModTime(), Data: data})
	}
	return out, nil
}

func (r *hostRoom) Remove(_ context.Context, globs []string) error {
	for _, p := range r.match(globs) {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (r *hostRoom) Close(context.Context) error { return os.RemoveAll(r.dir) }

// repository is a temporary git repository with a base and a branch.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t: t, dir: t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=A", "-c", "user.email=a@example.test"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files ("" deletes) and returns the commit.
func (r *repository) commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		p := filepath.Join(r.dir, name)
		if text == "" {
			if err := os.Remove(p); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "work")
	return r.git("rev-parse", "HEAD")
}

func (r *repository) repo() exam.GitRepo {
	r.t.Helper()
	git, err := gitcmd.New(gitcmd.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	return exam.GitRepo{Git: git, Dir: r.dir}
}
