package mirror

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// MaxText is the size of a file, in bytes, up to which its lines are compared.
const MaxText = 16 << 20

// plain keeps what a repository says about its own files (attributes that hide
// a text as binary, drivers) out of a comparison.
func plain(args ...string) []string {
	return append([]string{"-c", "attr.tree=" + emptyTree, "-c", "core.bigFileThreshold=" + strconv.Itoa(MaxText)}, args...)
}

// Compared is one file that differs between two trees, with what it is on both
// sides.
type Compared struct {
	ChangedFile
	OldBlob, NewBlob string // "" where there is none; of a submodule its commit
	OldSize, NewSize int64  // bytes; 0 where there is none
}

// Compare lists what differs between two commits or trees, renames and copies
// found, in git's order. It runs git twice, whatever the number of files. s may
// be nil; it is where a tree of Replay is.
func (m *Mirror) Compare(ctx context.Context, s *Scratch, a, b string) ([]Compared, error) {
	left, err := side(a)
	if err != nil {
		return nil, err
	}
	right, err := side(b)
	if err != nil {
		return nil, err
	}
	var env []string
	if s != nil {
		env = s.env()
	}
	out, err := m.git.Output(ctx, gitcmd.Call{Dir: m.dir, Env: env, Args: plain(
		"diff-tree", "-r", "-z", "-M", "-C", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff", "--no-textconv", left, right)})
	if err != nil {
		return nil, m.named(err, "cannot compare %s with %s", orNone(a), orNone(b))
	}
	list, err := parseCompared(out)
	if err != nil {
		return nil, err
	}
	return list, m.sizes(ctx, env, list)
}

func object(id string) string {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

const modeSubmodule = "160000"

// sizes asks for all sizes at once.
func (m *Mirror) sizes(ctx context.Context, env []string, list []Compared) error {
	var ask strings.Builder
	var into []*int64
	for i := range list {
		f := &list[i]
		for _, one := range []struct {
			id, mode string
			size     *int64
		}{{f.OldBlob, f.OldMode, &f.OldSize}, {f.NewBlob, f.NewMode, &f.NewSize}} {
			if one.id != "" && one.mode != modeSubmodule {
				ask.WriteString(one.id + "\n")
				into = append(into, one.size)
			}
		}
	}
	if len(into) == 0 {
		return nil
	}
	out, err := m.git.Output(ctx, gitcmd.Call{Dir: m.dir, Env: env, Stdin: strings.NewReader(ask.String()), Args: []string{"cat-file", "--batch-check=%(objectsize)"}})
	if err != nil {
		return m.named(err, "cannot read the sizes of files")
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(into) {
		return core.E("mirror.sizes", core.Internal, nil, "git told %d sizes of %d", len(lines), len(into))
	}
	for i, line := range lines {
		if *into[i], err = strconv.ParseInt(line, 10, 64); err != nil {
			return core.E("mirror.sizes", core.Internal, err, "git told a size that is no number")
		}
	}
	return nil
}

// Pair is two versions of a text; "" is one that is not there.
type Pair struct{ Old, New string }

// PatchOptions shape patches.
type PatchOptions struct {
	Context int   // lines around a change; 0 means 3, negative none
	Limit   int64 // bytes of one patch; 0 means no limit
}

// FilePatch is what differs in one pair: hunks, each beginning with @@, without
// a header. Lines are byte for byte those of the file.
type FilePatch struct {
	Text []byte
	Cut  bool  // Text ends after a whole line, and there was more
	Size int64 // of all of it
}

// Patches compares many pairs of texts in three runs of git. each is called in
// order for the pairs that differ in lines; when it says to stop, what follows
// is not made.
func (s *Scratch) Patches(ctx context.Context, pairs []Pair, opts PatchOptions, each func(i int, p FilePatch) (more bool, err error)) error {
	if len(pairs) == 0 {
		return nil
	}
	// Two trees whose files are numbers: no name of the repository is in git's
	// output, so none can be mistaken for anything else.
	var sides [2]string
	for i := range sides {
		var list strings.Builder
		for n, p := range pairs {
			id := p.Old
			if i == 1 {
				id = p.New
			}
			if id == "" {
				continue
			}
			if err := gitcmd.CheckCommitID(id); err != nil {
				return err
			}
			fmt.Fprintf(&list, "100644 blob %s\t%08d\n", id, n)
		}
		tree, err := s.run(ctx, strings.NewReader(list.String()), "mktree")
		if err != nil {
			return s.m.named(err, "cannot compare %d files", len(pairs))
		}
		sides[i] = tree
	}
	lines := opts.Context
	switch {
	case lines == 0:
		lines = 3
	case lines < 0:
		lines = 0
	}
	split := newSplitter(opts.Limit, len(pairs), each)
	err := s.m.git.Stream(ctx, gitcmd.Call{
		Dir: s.m.dir, Env: s.env(), Stdout: split,
		Args: plain("diff-tree", "-p", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--full-index",
			"--src-prefix=a/", "--dst-prefix=b/", "-U"+strconv.Itoa(lines), sides[0], sides[1]),
	})
	if split.stopped || split.err != nil {
		return split.err
	}
	if err != nil {
		return s.m.named(err, "cannot compare %d files", len(pairs))
	}
	return split.end()
}

// Commit resolves a full commit identifier; NotFound when the repository has no
// such commit.
func (m *Mirror) Commit(ctx context.Context, id string) (string, error) {
	if err := gitcmd.CheckCommitID(id); err != nil {
		return "", err
	}
	if !m.hasCommit(ctx, id) {
		return "", core.E("mirror.commit", core.NotFound, nil, "commit %s is not in the repository", id)
	}
	return id, nil
}

// Blob reads an object of at most limit bytes.
func (m *Mirror) Blob(ctx context.Context, id string, limit int64) ([]byte, error) {
	if err := gitcmd.CheckCommitID(id); err != nil {
		return nil, err
	}
	text, cut, err := m.cut(ctx, gitcmd.Call{Dir: m.dir, Args: []string{"cat-file", "blob", id}}, limit)
	if err != nil {
		return nil, m.named(err, "cannot read object %s", id)
	}
	if cut {
		return nil, core.E("mirror.blob", core.Exhausted, nil, "object %s has more than %d bytes", id, limit)
	}
	return text, nil
}
