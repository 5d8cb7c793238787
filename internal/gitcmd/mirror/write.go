package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// Signature is who did something to a commit, and when.
type Signature struct {
	Name  string
	Email string
	When  time.Time
}

// CommitSpec is a commit to make, exactly.
type CommitSpec struct {
	Tree      string
	Parents   []string
	Author    Signature
	Committer Signature
	Message   string
}

func (s Signature) check(role string) error {
	bad := func(why string) error {
		return core.E("mirror.commit", core.Invalid, nil, "%s %q <%s> cannot be written into a commit: %s", role, s.Name, s.Email, why)
	}
	for _, v := range []string{s.Name, s.Email} {
		if strings.ContainsAny(v, "<>\n\r\x00") || !utf8.ValidString(v) || len(v) > 500 {
			return bad("it holds < > or a line break, is not UTF-8 or is too long")
		}
	}
	if strings.Trim(s.Name, " .,:;\"'\\") == "" {
		return bad("the name is empty")
	}
	if s.When.IsZero() {
		return bad("it has no time")
	}
	return nil
}

func (s Signature) env(role string) []string {
	return []string{
		"GIT_" + role + "_NAME=" + s.Name,
		"GIT_" + role + "_EMAIL=" + s.Email,
		fmt.Sprintf("GIT_%s_DATE=@%d %s", role, s.When.Unix(), s.When.Format("-0700")),
	}
}

// CommitTree makes a commit of a tree that the mirror has. It moves no ref.
// The same spec always gives the same commit.
func (m *Mirror) CommitTree(ctx context.Context, spec CommitSpec) (string, error) {
	if err := spec.Author.check("author"); err != nil {
		return "", err
	}
	if err := spec.Committer.check("committer"); err != nil {
		return "", err
	}
	if strings.TrimSpace(spec.Message) == "" || strings.ContainsRune(spec.Message, 0) || !utf8.ValidString(spec.Message) {
		return "", core.E("mirror.commit", core.Invalid, nil, "commit message is empty, holds a zero byte or is not UTF-8")
	}
	if !strings.HasSuffix(spec.Message, "\n") {
		spec.Message += "\n"
	}
	args := []string{"commit-tree", "--no-gpg-sign", "-F", "-"}
	for _, parent := range spec.Parents {
		if err := gitcmd.CheckCommitID(parent); err != nil {
			return "", err
		}
		args = append(args, "-p", parent)
	}
	if err := gitcmd.CheckCommitID(spec.Tree); err != nil {
		return "", err
	}
	out, err := m.git.Output(ctx, gitcmd.Call{
		Dir: m.dir, Args: append(args, spec.Tree), Stdin: strings.NewReader(spec.Message),
		Env: append(spec.Author.env("AUTHOR"), spec.Committer.env("COMMITTER")...),
	})
	if err != nil {
		return "", m.named(err, "cannot make a commit of tree %s", spec.Tree)
	}
	return strings.TrimSpace(string(out)), nil
}

// Tree is the tree of a commit.
func (m *Mirror) Tree(ctx context.Context, commit string) (string, error) {
	if err := gitcmd.CheckCommitID(commit); err != nil {
		return "", err
	}
	out, err := m.git.Run(ctx, m.dir, "rev-parse", "--quiet", "--verify", "--end-of-options", commit+"^{tree}")
	if err != nil {
		return "", core.E("mirror.tree", core.NotFound, nil, "commit %s is not in the mirror", commit)
	}
	return strings.TrimSpace(string(out)), nil
}

// ComposeTree makes the tree of commit base in which each of paths is as in
// commit from: replaced, added, or removed where from does not have it.
func (m *Mirror) ComposeTree(ctx context.Context, base, from string, paths []string) (string, error) {
	for _, id := range []string{base, from} {
		if err := gitcmd.CheckCommitID(id); err != nil {
			return "", err
		}
	}
	var info strings.Builder
	for _, path := range paths {
		if err := gitcmd.CheckPath(path); err != nil {
			return "", err
		}
		// Remove first: a file may stand where the other side has a directory.
		fmt.Fprintf(&info, "0 %s\t%s\x00", strings.Repeat("0", 40), path)
	}
	files, err := m.Files(ctx, from, paths)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		fmt.Fprintf(&info, "%s %s\t%s\x00", f.Mode, f.Object, f.Path)
	}
	dir, err := os.MkdirTemp(m.dir, "drydock-index")
	if err != nil {
		return "", core.E("mirror.tree", core.Internal, err, "cannot make an index in %s", m.dir)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	var out []byte
	for _, call := range []gitcmd.Call{
		{Args: []string{"read-tree", base + "^{tree}"}},
		{Args: []string{"update-index", "-z", "--index-info"}, Stdin: strings.NewReader(info.String())},
		{Args: []string{"write-tree"}},
	} {
		call.Dir, call.Env = m.dir, env
		if out, err = m.git.Output(ctx, call); err != nil {
			return "", m.named(err, "cannot put files of %s onto %s", from, base)
		}
	}
	return strings.TrimSpace(string(out)), nil
}

// UpdateRef moves a ref from old to new if it still stands at old. An empty
// old means that the ref must not exist; an empty new removes it. A ref that
// stands at new already is success, so a retry is harmless.
func (m *Mirror) UpdateRef(ctx context.Context, ref, newCommit, old string) error {
	if err := gitcmd.CheckRef(ref); err != nil {
		return err
	}
	for _, id := range []string{newCommit, old} {
		if id == "" {
			continue
		}
		if err := gitcmd.CheckCommitID(id); err != nil {
			return err
		}
	}
	args := []string{"update-ref", "--no-deref"}
	zero := strings.Repeat("0", 40)
	switch {
	case newCommit == "" && old == "":
		return core.E("mirror.ref", core.Invalid, nil, "update of %s names neither a new nor an old commit", ref)
	case newCommit == "":
		args = append(args, "-d", ref, old)
	case old == "":
		args = append(args, ref, newCommit, zero)
	default:
		args = append(args, ref, newCommit, old)
	}
	_, err := m.git.Run(ctx, m.dir, args...)
	if err == nil {
		return nil
	}
	now, readErr := m.ReadRef(ctx, ref)
	if readErr == nil && now == newCommit {
		return nil
	}
	if readErr == nil && now != old {
		return core.E("mirror.ref", core.Conflict, err, "ref %s stands at %s, not at %s", ref, orNone(now), orNone(old)).
			WithHint("it was moved meanwhile; look at it again")
	}
	return m.named(err, "cannot move %s", ref)
}

func orNone(id string) string {
	if id == "" {
		return "nothing"
	}
	return id
}

// ReadRef is where a full ref name stands, "" when it does not exist.
func (m *Mirror) ReadRef(ctx context.Context, ref string) (string, error) {
	if err := gitcmd.CheckRef(ref); err != nil {
		return "", err
	}
	out, err := m.git.Run(ctx, m.dir, "for-each-ref", "--format=%(objectname) %(refname)", ref)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if id, name, ok := strings.Cut(strings.TrimRight(line, "\n"), " "); ok && name == ref {
			return id, nil
		}
	}
	return "", nil
}

// Refs lists the refs under a prefix ("refs/heads/") and where they stand.
func (m *Mirror) Refs(ctx context.Context, prefix string) (map[string]string, error) {
	if err := gitcmd.CheckRef(strings.TrimSuffix(prefix, "/")); err != nil && prefix != "refs/" {
		return nil, err
	}
	out, err := m.git.Run(ctx, m.dir, "for-each-ref", "--format=%(objectname) %(refname)", strings.TrimSuffix(prefix, "/"))
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if id, name, ok := strings.Cut(strings.TrimRight(line, "\n"), " "); ok {
			refs[name] = id
		}
	}
	return refs, nil
}

// RemoteRef asks a repository where one of its refs stands; "" when it does not
// exist there.
func (m *Mirror) RemoteRef(ctx context.Context, target, ref string) (string, error) {
	source, err := gitcmd.ParseSource(target)
	if err != nil {
		return "", err
	}
	if err := gitcmd.CheckRef(ref); err != nil {
		return "", err
	}
	out, err := m.git.Run(ctx, m.dir, "ls-remote", "--end-of-options", source.URL, ref)
	if err != nil {
		return "", m.named(err, "cannot ask %s where %s stands", gitcmd.Redact(source.URL), ref)
	}
	for line := range strings.Lines(string(out)) {
		id, name, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if ok && name == ref && gitcmd.IsCommitID(id) {
			return id, nil
		}
	}
	return "", nil
}

// Push moves ref of the repository target to a commit of the mirror if it
// stands at expected there (empty: does not exist). A ref that stands at the
// commit already is success. It may move a ref backwards; expected is what
// guards other people's work. Hooks of a local target do not run.
func (m *Mirror) Push(ctx context.Context, target, ref, commit, expected string) error {
	source, err := gitcmd.ParseSource(target)
	if err != nil {
		return err
	}
	if err := gitcmd.CheckRef(ref); err != nil {
		return err
	}
	for _, id := range []string{commit, expected} {
		if id == "" {
			continue
		}
		if err := gitcmd.CheckCommitID(id); err != nil {
			return err
		}
	}
	args := []string{"push", "--quiet", "--no-verify", "--no-recurse-submodules", "--force-with-lease=" + ref + ":" + expected}
	if source.Local {
		args = append(args, "--receive-pack=git -c core.hooksPath=/dev/null -c receive.autogc=false receive-pack")
	}
	// An empty commit on the left of the colon removes the ref.
	_, err = m.git.Run(ctx, m.dir, append(args, "--end-of-options", source.URL, commit+":"+ref)...)
	if err == nil {
		return nil
	}
	if gitcmd.ReasonOf(err) == gitcmd.LeaseFailed || gitcmd.ReasonOf(err) == gitcmd.NonFastForward {
		if now, askErr := m.RemoteRef(ctx, target, ref); askErr == nil && now == commit {
			return nil
		}
	}
	return m.named(err, "cannot push %s to %s", ref, gitcmd.Redact(source.URL))
}
