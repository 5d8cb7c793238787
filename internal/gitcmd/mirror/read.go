package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// emptyTree stands for "before everything"; git knows it without having it.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// DefaultDiff bounds a diff when DiffOptions do not.
const DefaultDiff = 8 << 20

// DiffOptions shape a diff.
type DiffOptions struct {
	Paths   []string // only these; each a path or a directory
	Context int      // lines around a change; 0 means 3, negative none
	Limit   int64    // bytes; default DefaultDiff
}

// Patch is a diff in git's format, cut after a whole line when it was longer
// than the limit.
type Patch struct {
	Text      []byte
	Truncated bool
}

// ChangeStatus is the letter git gives a changed file.
type ChangeStatus string

const (
	Added       ChangeStatus = "A"
	Modified    ChangeStatus = "M"
	Deleted     ChangeStatus = "D"
	Renamed     ChangeStatus = "R"
	Copied      ChangeStatus = "C"
	TypeChanged ChangeStatus = "T" // a file became a symbolic link, or the like
)

// ChangedFile is one file that differs between two commits.
type ChangedFile struct {
	Path    string       `json:"path"`
	OldPath string       `json:"old_path,omitempty"` // of a rename or copy
	Status  ChangeStatus `json:"status"`
	OldMode string       `json:"old_mode"` // "100644", "100755", "120000", "160000"; "000000" when absent
	NewMode string       `json:"new_mode"`
	Added   int          `json:"added"` // lines; 0 for binary files
	Removed int          `json:"removed"`
	Binary  bool         `json:"binary,omitempty"`
}

// File is one entry of a tree that is not a directory.
type File struct {
	Path   string
	Mode   string
	Object string
	Size   int64 // -1 for a submodule
}

// Commit as it was written.
type Commit struct {
	ID        string    `json:"id"`
	Tree      string    `json:"tree"`
	Parents   []string  `json:"parents"`
	Author    Signature `json:"author"`
	Committer Signature `json:"committer"`
	Message   string    `json:"message"`
}

// Subject is the first line of the message.
func (c Commit) Subject() string {
	first, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n")
	return first
}

// LogOptions say which commits to list: those reachable from From and not from
// any of Exclude, newest first.
type LogOptions struct {
	From    string
	Exclude []string
	Max     int // default 100
	Paths   []string
}

// side checks one end of a comparison; "" is the empty tree.
func side(commit string) (string, error) {
	if commit == "" {
		return emptyTree, nil
	}
	return commit, gitcmd.CheckCommitID(commit)
}

func appendPaths(args, paths []string) ([]string, error) {
	args = append(args, "--")
	for _, p := range paths {
		if err := gitcmd.CheckPath(p); err != nil {
			return nil, err
		}
		args = append(args, p)
	}
	return args, nil
}

// Diff is what changed from a to b, renames found. An empty a means that
// everything in b is new.
func (m *Mirror) Diff(ctx context.Context, a, b string, opts DiffOptions) (Patch, error) {
	left, err := side(a)
	if err != nil {
		return Patch{}, err
	}
	right, err := side(b)
	if err != nil {
		return Patch{}, err
	}
	lines := opts.Context
	switch {
	case lines == 0:
		lines = 3
	case lines < 0:
		lines = 0
	}
	limit := opts.Limit
	if limit <= 0 {
		limit = DefaultDiff
	}
	args, err := appendPaths([]string{
		"--literal-pathspecs", "diff-tree", "-p", "-r", "-M", "--no-color", "--no-ext-diff", "--no-textconv", "--full-index",
		"--src-prefix=a/", "--dst-prefix=b/", "-U" + strconv.Itoa(lines), left, right,
	}, opts.Paths)
	if err != nil {
		return Patch{}, err
	}
	text, cut, err := m.cut(ctx, gitcmd.Call{Dir: m.dir, Args: args}, limit)
	if err != nil {
		return Patch{}, m.named(err, "cannot compare %s with %s", orNone(a), orNone(b))
	}
	if i := bytes.LastIndexByte(text, '\n'); cut && i >= 0 {
		text = text[:i+1]
	}
	return Patch{Text: text, Truncated: cut}, nil
}

// cut runs git and keeps the first limit bytes.
func (m *Mirror) cut(ctx context.Context, call gitcmd.Call, limit int64) ([]byte, bool, error) {
	out := &head{limit: limit}
	call.Stdout = out
	err := m.git.Stream(ctx, call)
	if out.over {
		return out.buf.Bytes(), true, nil
	}
	return out.buf.Bytes(), false, err
}

type head struct {
	buf   bytes.Buffer
	limit int64
	over  bool
}

var errCut = errors.New("enough was read")

func (h *head) Write(p []byte) (int, error) {
	if room := h.limit - int64(h.buf.Len()); int64(len(p)) > room {
		h.buf.Write(p[:room])
		h.over = true
		return 0, errCut
	}
	return h.buf.Write(p)
}

// ChangedFiles lists what differs from a to b, renames found, in git's order.
func (m *Mirror) ChangedFiles(ctx context.Context, a, b string) ([]ChangedFile, error) {
	left, err := side(a)
	if err != nil {
		return nil, err
	}
	right, err := side(b)
	if err != nil {
		return nil, err
	}
	out, err := m.git.Run(ctx, m.dir, "diff-tree", "-r", "-z", "-M", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff", "--no-textconv", left, right)
	if err != nil {
		return nil, m.named(err, "cannot compare %s with %s", orNone(a), orNone(b))
	}
	return parseChanges(out)
}

func parseChanges(out []byte) ([]ChangedFile, error) {
	list, err := parseCompared(out)
	if err != nil {
		return nil, err
	}
	var files []ChangedFile
	for _, f := range list {
		files = append(files, f.ChangedFile)
	}
	return files, nil
}

// parseCompared reads the output of diff-tree -z --raw --numstat: first all raw
// records, then all counts.
func parseCompared(out []byte) ([]Compared, error) {
	bad := func(what string) ([]Compared, error) {
		return nil, core.E("mirror.changes", core.Internal, nil, "git's list of changed files cannot be read: %s", what)
	}
	fields := strings.Split(string(out), "\x00")
	if fields[len(fields)-1] == "" {
		fields = fields[:len(fields)-1]
	}
	var files []Compared
	byPath := map[string]int{}
	next := func() (string, bool) {
		if len(fields) == 0 {
			return "", false
		}
		f := fields[0]
		fields = fields[1:]
		return f, true
	}
	for len(fields) > 0 && strings.HasPrefix(fields[0], ":") {
		raw, _ := next()
		parts := strings.Fields(raw[1:]) // old mode, new mode, old, new, status
		if len(parts) != 5 {
			return bad("raw record")
		}
		path, ok := next()
		if !ok || path == "" {
			return bad("raw record without path")
		}
		f := Compared{
			ChangedFile: ChangedFile{Path: path, Status: ChangeStatus(parts[4][:1]), OldMode: parts[0], NewMode: parts[1]},
			OldBlob:     object(parts[2]), NewBlob: object(parts[3]),
		}
		if f.Status == Renamed || f.Status == Copied {
			f.OldPath = path
			if f.Path, ok = next(); !ok || f.Path == "" {
				return bad("rename without target")
			}
		}
		byPath[f.Path] = len(files)
		files = append(files, f)
	}
	for {
		record, ok := next()
		if !ok {
			return files, nil
		}
		counts := strings.SplitN(record, "\t", 3)
		if len(counts) != 3 {
			return bad("counts")
		}
		path := counts[2]
		if path == "" { // rename: old and new path follow
			_, _ = next()
			if path, ok = next(); !ok {
				return bad("counts of a rename")
			}
		}
		i, known := byPath[path]
		if !known {
			return bad("counts of an unknown file")
		}
		if counts[0] == "-" {
			files[i].Binary = true
			continue
		}
		added, err1 := strconv.Atoi(counts[0])
		removed, err2 := strconv.Atoi(counts[1])
		if err1 != nil || err2 != nil || added < 0 || removed < 0 {
			return bad("counts that are not numbers")
		}
		files[i].Added, files[i].Removed = added, removed
	}
}

// Files lists the files of a commit that are, or are below, one of paths; all
// of them without paths.
func (m *Mirror) Files(ctx context.Context, commit string, paths []string) ([]File, error) {
	if err := gitcmd.CheckCommitID(commit); err != nil {
		return nil, err
	}
	args, err := appendPaths([]string{"--literal-pathspecs", "ls-tree", "-r", "-z", "-l", "--full-tree", commit}, paths)
	if err != nil {
		return nil, err
	}
	out, err := m.git.Run(ctx, m.dir, args...)
	if err != nil {
		return nil, m.named(err, "cannot list the files of %s", commit)
	}
	return parseTree(out)
}

func parseTree(out []byte) ([]File, error) {
	var files []File
	for record := range bytes.SplitSeq(out, []byte{0}) {
		if len(record) == 0 {
			continue
		}
		meta, path, ok := strings.Cut(string(record), "\t")
		parts := strings.Fields(meta) // mode, type, name, size
		if !ok || len(parts) != 4 || path == "" {
			return nil, core.E("mirror.files", core.Internal, nil, "git's list of files cannot be read")
		}
		f := File{Path: path, Mode: parts[0], Object: parts[2], Size: -1}
		if parts[3] != "-" {
			n, err := strconv.ParseInt(parts[3], 10, 64)
			if err != nil {
				return nil, core.E("mirror.files", core.Internal, err, "git's list of files cannot be read")
			}
			f.Size = n
		}
		files = append(files, f)
	}
	return files, nil
}

// ShowFile reads a file of a commit. More than limit bytes is Exhausted; a
// directory, a submodule or nothing is NotFound. Of a symbolic link it returns
// the target's name, with File.Mode "120000".
func (m *Mirror) ShowFile(ctx context.Context, commit, path string, limit int64) ([]byte, File, error) {
	if err := gitcmd.CheckPath(path); err != nil {
		return nil, File{}, err
	}
	files, err := m.Files(ctx, commit, []string{path})
	if err != nil {
		return nil, File{}, err
	}
	if len(files) != 1 || files[0].Path != path || files[0].Size < 0 {
		return nil, File{}, core.E("mirror.file", core.NotFound, nil, "file %q is not in commit %s", path, commit)
	}
	f := files[0]
	if f.Size > limit {
		return nil, f, core.E("mirror.file", core.Exhausted, nil, "file %q of commit %s has %d bytes, more than %d", path, commit, f.Size, limit)
	}
	data, err := m.git.Run(ctx, m.dir, "cat-file", "blob", f.Object)
	if err != nil {
		return nil, f, m.named(err, "cannot read %q of commit %s", path, commit)
	}
	return data, f, nil
}

// MergeBase is the best common ancestor of two commits; NotFound when they have
// none.
func (m *Mirror) MergeBase(ctx context.Context, a, b string) (string, error) {
	for _, id := range []string{a, b} {
		if err := gitcmd.CheckCommitID(id); err != nil {
			return "", err
		}
	}
	out, err := m.git.Run(ctx, m.dir, "merge-base", a, b)
	if err != nil {
		if f, ok := gitcmd.FailureOf(err); ok && f.Exit == 1 {
			return "", core.E("mirror.merge_base", core.NotFound, nil, "commits %s and %s have no common history", a, b)
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// IsAncestor reports whether a is b or comes before it.
func (m *Mirror) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	for _, id := range []string{a, b} {
		if err := gitcmd.CheckCommitID(id); err != nil {
			return false, err
		}
	}
	_, err := m.git.Run(ctx, m.dir, "merge-base", "--is-ancestor", a, b)
	if f, ok := gitcmd.FailureOf(err); ok && f.Exit == 1 {
		return false, nil
	}
	return err == nil, err
}

// logFields are separated by zero bytes; the last is the message.
const (
	logFormat = "%H%x00%T%x00%P%x00%an%x00%ae%x00%at %ai%x00%cn%x00%ce%x00%ct %ci%x00%B"
	logCount  = 10
)

// Log lists commits, newest first.
func (m *Mirror) Log(ctx context.Context, opts LogOptions) ([]Commit, error) {
	if opts.Max <= 0 {
		opts.Max = 100
	}
	if err := gitcmd.CheckCommitID(opts.From); err != nil {
		return nil, err
	}
	args := []string{
		"--literal-pathspecs", "log", "-z", "--no-color", "--no-show-signature", "--no-mailmap", "--encoding=utf-8",
		"--topo-order", "--max-count=" + strconv.Itoa(opts.Max), "--format=tformat:" + logFormat, opts.From,
	}
	for _, id := range opts.Exclude {
		if err := gitcmd.CheckCommitID(id); err != nil {
			return nil, err
		}
		args = append(args, "^"+id)
	}
	args, err := appendPaths(args, opts.Paths)
	if err != nil {
		return nil, err
	}
	out, err := m.git.Run(ctx, m.dir, args...)
	if err != nil {
		return nil, m.named(err, "cannot list commits from %s", opts.From)
	}
	return parseLog(out)
}

func parseLog(out []byte) ([]Commit, error) {
	fields := strings.Split(string(out), "\x00")
	if fields[len(fields)-1] == "" {
		fields = fields[:len(fields)-1]
	}
	if len(fields)%logCount != 0 {
		return nil, core.E("mirror.log", core.Internal, nil, "git's list of commits cannot be read")
	}
	var commits []Commit
	for ; len(fields) > 0; fields = fields[logCount:] {
		c := Commit{ID: fields[0], Tree: fields[1], Parents: strings.Fields(fields[2]), Message: fields[9]}
		var err error
		if c.Author, err = signature(fields[3], fields[4], fields[5]); err != nil {
			return nil, err
		}
		if c.Committer, err = signature(fields[6], fields[7], fields[8]); err != nil {
			return nil, err
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// signature reads "1700000000 2023-11-14 22:13:20 +0100": seconds and, from the
// end, the zone.
func signature(name, email, when string) (Signature, error) {
	s := Signature{Name: name, Email: email}
	parts := strings.Fields(when)
	if len(parts) < 2 {
		return s, nil // a commit without a readable date
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return s, core.E("mirror.log", core.Internal, err, "the date %q of a commit cannot be read", when)
	}
	s.When = time.Unix(seconds, 0).UTC()
	if zone, err := time.Parse("-0700", parts[len(parts)-1]); err == nil {
		_, offset := zone.Zone()
		s.When = s.When.In(time.FixedZone("", offset))
	}
	return s, nil
}

// Archive writes the tree of a commit as a tar stream.
func (m *Mirror) Archive(ctx context.Context, w io.Writer, commit string) error {
	if err := gitcmd.CheckCommitID(commit); err != nil {
		return err
	}
	err := m.git.Stream(ctx, gitcmd.Call{Dir: m.dir, Stdout: w, Args: []string{"archive", "--format=tar", commit}})
	if err != nil {
		return m.named(err, "%s", fmt.Sprintf("cannot write the files of %s", commit))
	}
	return nil
}
