package exam

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// GitRepo is a Repo over a git directory on this host, bare or not. It reads
// objects only; Git sees to it that the repository decides nothing.
type GitRepo struct {
	Git *gitcmd.Git
	Dir string
}

const (
	maxFile  = 16 << 20
	maxPatch = 64 << 20
	maxFiles = 20_000
)

var commitRE = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

func (g GitRepo) git(ctx context.Context, limit int, args ...string) ([]byte, error) {
	out := &limited{max: limit}
	err := g.Git.Stream(ctx, gitcmd.Call{Dir: g.Dir, Args: append([]string{"--literal-pathspecs"}, args...), Stdout: out})
	if out.over {
		return nil, core.E("exam.git", core.Exhausted, nil, "git %s gave more than %d bytes", args[0], limit)
	}
	return out.Bytes(), err
}

// limited is a buffer that fails when it is full, which ends the program.
type limited struct {
	bytes.Buffer
	max  int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.max {
		l.over = true
		return 0, io.ErrShortWrite
	}
	return l.Buffer.Write(p)
}

func validCommit(commit string) error {
	if !commitRE.MatchString(commit) {
		return core.E("exam.git", core.Invalid, nil, "%q is not a commit", clip(commit, 80))
	}
	return nil
}

// Tree is the tree of a commit.
func (g GitRepo) Tree(ctx context.Context, commit string) (string, error) {
	if err := validCommit(commit); err != nil {
		return "", err
	}
	out, err := g.git(ctx, 4<<10, "rev-parse", "--verify", "--quiet", commit+"^{tree}")
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", core.E("exam.git", core.NotFound, err, "commit %s is not in the repository", commit)
	}
	return strings.TrimSpace(string(out)), nil
}

// Changes lists the files that differ, renames found.
func (g GitRepo) Changes(ctx context.Context, from, to string) ([]FileChange, error) {
	if err := errors.Join(validCommit(from), validCommit(to)); err != nil {
		return nil, err
	}
	out, err := g.git(ctx, maxPatch, "diff-tree", "-r", "-z", "--no-commit-id", "--name-status", "-M60%", "--no-ext-diff", "--no-textconv", from, to)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var changes []FileChange
	for i := 0; i+1 < len(fields); i += 2 {
		c := FileChange{Path: fields[i+1]}
		switch fields[i][:min(1, len(fields[i]))] {
		case "A":
			c.Status = "added"
		case "D":
			c.Status = "deleted"
		case "R", "C":
			if i+2 >= len(fields) {
				return nil, core.E("exam.git", core.Internal, nil, "git diff-tree gave a rename without a target")
			}
			c.Status, c.Old, c.Path = "renamed", fields[i+1], fields[i+2]
			i++
		default:
			c.Status = "modified"
		}
		if len(changes) >= maxFiles {
			return nil, core.E("exam.git", core.Exhausted, nil, "more than %d files changed between %s and %s", maxFiles, from, to).
				WithHint("split the change")
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// File is a file at a commit.
func (g GitRepo) File(ctx context.Context, commit, p string) (File, error) {
	if err := validCommit(commit); err != nil {
		return File{}, err
	}
	out, err := g.git(ctx, 64<<10, "ls-tree", "-z", commit, "--", p)
	if err != nil {
		return File{}, err
	}
	// "<mode> SP <type> SP <object> TAB <path> NUL"
	head, _, ok := strings.Cut(string(out), "\t")
	fields := strings.Fields(head)
	if !ok || len(fields) != 3 || fields[1] != "blob" {
		return File{}, core.E("exam.git", core.NotFound, nil, "file %q is not in commit %s", p, commit)
	}
	data, err := g.git(ctx, maxFile, "cat-file", "blob", fields[2])
	if err != nil {
		return File{}, err
	}
	f := File{Data: data, Mode: 0o644}
	bits, _ := strconv.ParseUint(fields[0], 8, 32)
	switch {
	case bits&0o170000 == 0o120000:
		f.Mode = fs.ModeSymlink | 0o777
	case bits&0o111 != 0:
		f.Mode = 0o755
	}
	return f, nil
}

// Patch is the unified difference of some files without context.
func (g GitRepo) Patch(ctx context.Context, from, to string, paths []string) ([]byte, error) {
	if err := errors.Join(validCommit(from), validCommit(to)); err != nil {
		return nil, err
	}
	args := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "-M60%", "-U0", "--src-prefix=a/", "--dst-prefix=b/", from, to, "--"}
	return g.git(ctx, maxPatch, append(args, paths...)...)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
