package mirror

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// Scratch holds objects that are needed for one answer and belong to nobody: the
// repository stays as it is. Close removes them. It belongs to one goroutine.
type Scratch struct {
	m   *Mirror
	dir string
}

// Scratch makes an empty one.
func (m *Mirror) Scratch() (*Scratch, error) {
	base := filepath.Join(m.dir, quarantineDir) // what a killed process leaves there is removed with the rest
	err := os.MkdirAll(base, 0o700)
	removeScratches(base)
	if err == nil {
		var dir string
		if dir, err = os.MkdirTemp(base, "s"); err == nil {
			return &Scratch{m: m, dir: dir}, nil
		}
	}
	return nil, core.E("mirror.scratch", core.Unavailable, err, "no place for objects in %s", m.dir)
}

// removeScratches removes what killed processes left.
func removeScratches(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), "s") && time.Since(info.ModTime()) > quarantineAge {
			_ = os.RemoveAll(filepath.Join(base, e.Name()))
		}
	}
}

// Close removes the objects.
func (s *Scratch) Close() { _ = os.RemoveAll(s.dir) }

func (s *Scratch) env() []string {
	return []string{
		"GIT_OBJECT_DIRECTORY=" + s.dir,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(s.m.dir, "objects"),
		"GIT_INDEX_FILE=" + filepath.Join(s.dir, "index"),
		"GIT_AUTHOR_NAME=Drydock", "GIT_AUTHOR_EMAIL=drydock@localhost", "GIT_AUTHOR_DATE=@0 +0000",
		"GIT_COMMITTER_NAME=Drydock", "GIT_COMMITTER_EMAIL=drydock@localhost", "GIT_COMMITTER_DATE=@0 +0000",
	}
}

func (s *Scratch) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	out, err := s.m.git.Output(ctx, gitcmd.Call{Dir: s.m.dir, Args: args, Stdin: stdin, Env: s.env()})
	return strings.TrimSuffix(string(out), "\n"), err
}

// Replayed is a change as it would be on another base.
type Replayed struct {
	Tree      string
	Conflicts []string // files of which the change's own version was taken, since both sides changed the same lines
}

// Replay brings what was changed from base to head onto another base. The tree
// is in the scratch and ends with it.
func (s *Scratch) Replay(ctx context.Context, base, head, onto string) (Replayed, error) {
	for _, id := range []string{base, head, onto} {
		if err := gitcmd.CheckCommitID(id); err != nil {
			return Replayed{}, err
		}
	}
	// Two commits on one root: merging them merges with exactly this base.
	root, err := s.run(ctx, nil, "commit-tree", "-m", "base", base+"^{tree}")
	if err != nil {
		return Replayed{}, s.m.named(err, "cannot bring %s onto %s", head, onto)
	}
	var sides [2]string
	for i, id := range []string{onto, head} {
		if sides[i], err = s.run(ctx, nil, "commit-tree", "-m", "side", "-p", root, id+"^{tree}"); err != nil {
			return Replayed{}, s.m.named(err, "cannot bring %s onto %s", head, onto)
		}
	}
	out := &bounded{limit: 16 << 20}
	err = s.m.git.Stream(ctx, gitcmd.Call{
		Dir: s.m.dir, Stdout: out, Env: s.env(),
		Args: []string{"merge-tree", "--write-tree", "-z", "--no-messages", sides[0], sides[1]},
	})
	if err != nil {
		if f, ok := gitcmd.FailureOf(err); !ok || f.Exit != 1 { // 1: conflicts
			return Replayed{}, s.m.named(err, "cannot bring %s onto %s", head, onto)
		}
	}
	fields := strings.Split(strings.TrimRight(out.buf.String(), "\x00"), "\x00")
	if !gitcmd.IsCommitID(fields[0]) {
		return Replayed{}, core.E("mirror.replay", core.Internal, nil, "git's answer to a merge of %s cannot be read", head)
	}
	return s.settle(ctx, fields[0], fields[1:])
}

// bounded is a buffer that refuses more than its limit.
type bounded struct {
	buf   bytes.Buffer
	limit int
}

func (l *bounded) Write(p []byte) (int, error) {
	if l.buf.Len()+len(p) > l.limit {
		return 0, errCut
	}
	return l.buf.Write(p)
}

// settle takes the change's side of every conflict: marks of a conflict are
// nobody's work and would be read as a difference.
func (s *Scratch) settle(ctx context.Context, tree string, conflicts []string) (Replayed, error) {
	res := Replayed{Tree: tree}
	if len(conflicts) == 0 {
		return res, nil
	}
	ours := map[string]string{} // path to "mode object" of the change, "" where it has none
	for _, record := range conflicts {
		meta, path, ok := strings.Cut(record, "\t")
		parts := strings.Fields(meta) // mode, object, stage
		if !ok || len(parts) != 3 {
			return res, core.E("mirror.replay", core.Internal, nil, "git's list of conflicts cannot be read")
		}
		if _, known := ours[path]; !known {
			ours[path] = ""
			res.Conflicts = append(res.Conflicts, path)
		}
		if parts[2] == "3" {
			ours[path] = parts[0] + " " + parts[1]
		}
	}
	var info strings.Builder
	for _, path := range res.Conflicts {
		entry := ours[path]
		if entry == "" {
			entry = "0 " + strings.Repeat("0", len(tree))
		}
		fmt.Fprintf(&info, "%s 0\t%s\x00", entry, path)
	}
	if _, err := s.run(ctx, nil, "read-tree", tree); err != nil {
		return res, err
	}
	if _, err := s.run(ctx, strings.NewReader(info.String()), "update-index", "-z", "--index-info"); err != nil {
		return res, err
	}
	var err error
	res.Tree, err = s.run(ctx, nil, "write-tree")
	return res, err
}
