package mirror

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

const (
	bundleMagic     = "# v2 git bundle\n"
	maxBundleLine   = 4096
	maxBundleHeader = 4 << 20
	quarantineDir   = "drydock-incoming"
)

// Header is what a bundle says about itself before its pack.
type Header struct {
	Prerequisites []string
	Refs          []BundleRef
}

// BundleRef is one ref that a bundle offers.
type BundleRef struct {
	Commit string
	Name   string
}

// ReadHeader reads the header of a version 2 bundle from r, which afterwards
// stands at the pack. Only 40-digit names are accepted.
func ReadHeader(r *bufio.Reader) (Header, error) {
	var h Header
	total := 0
	line := func() (string, error) {
		s, err := r.ReadSlice('\n')
		if err != nil || len(s) > maxBundleLine {
			return "", badBundle("its header is cut off or has a line that is too long")
		}
		if total += len(s); total > maxBundleHeader {
			return "", badBundle("its header is too long")
		}
		return string(s[:len(s)-1]), nil
	}
	first, err := line()
	if err != nil {
		return h, err
	}
	if first+"\n" != bundleMagic {
		return h, badBundle("it does not begin with the line of a version 2 bundle")
	}
	for {
		s, err := line()
		if err != nil {
			return h, err
		}
		if s == "" {
			break
		}
		if rest, ok := strings.CutPrefix(s, "-"); ok {
			id, _, _ := strings.Cut(rest, " ")
			if len(id) != 40 || !gitcmd.IsCommitID(id) || len(h.Refs) > 0 {
				return h, badBundle("a prerequisite line is malformed or out of place")
			}
			h.Prerequisites = append(h.Prerequisites, id)
			continue
		}
		id, name, ok := strings.Cut(s, " ")
		if !ok || len(id) != 40 || !gitcmd.IsCommitID(id) {
			return h, badBundle("a ref line is malformed")
		}
		if name != "HEAD" {
			if err := gitcmd.CheckRef(name); err != nil {
				return h, badBundle("it offers something that is not a ref name")
			}
		}
		h.Refs = append(h.Refs, BundleRef{Commit: id, Name: name})
	}
	if len(h.Refs) == 0 {
		return h, badBundle("it offers no ref")
	}
	return h, nil
}

func badBundle(why string) error {
	return core.E("mirror.bundle", core.Invalid, nil, "bundle refused: %s", why)
}

// Bundle writes a version 2 bundle of what want needs and have does not. An
// entry of want is a ref name, a branch or tag, or a commit; "NAME=WHAT" offers
// WHAT under the ref NAME. Entries of have that the mirror does not know are
// left out.
func (m *Mirror) Bundle(ctx context.Context, w io.Writer, want, have []string) error {
	var head, revs strings.Builder
	head.WriteString(bundleMagic)
	for _, id := range have {
		if err := gitcmd.CheckCommitID(id); err != nil {
			return err
		}
		if !m.hasCommit(ctx, id) {
			continue
		}
		fmt.Fprintf(&head, "-%s\n", id)
		fmt.Fprintf(&revs, "^%s\n", id)
	}
	if len(want) == 0 {
		return core.E("mirror.bundle", core.Invalid, nil, "nothing was named to put into the bundle")
	}
	for _, entry := range want {
		name, what, renamed := strings.Cut(entry, "=")
		if !renamed {
			what = entry
		}
		commit, err := m.Resolve(ctx, what)
		if err != nil {
			return err
		}
		if !renamed {
			name = m.fullName(ctx, what, commit)
		}
		if err := gitcmd.CheckRef(name); err != nil {
			return err
		}
		fmt.Fprintf(&head, "%s %s\n", commit, name)
		fmt.Fprintf(&revs, "%s\n", commit)
	}
	head.WriteString("\n")
	if _, err := io.WriteString(w, head.String()); err != nil {
		return core.E("mirror.bundle", core.Unavailable, err, "cannot write the bundle")
	}
	return m.git.Stream(ctx, gitcmd.Call{
		Dir: m.dir, Stdin: strings.NewReader(revs.String()), Stdout: w,
		Args: []string{"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"},
	})
}

func (m *Mirror) hasCommit(ctx context.Context, id string) bool {
	_, err := m.git.Run(ctx, m.dir, "cat-file", "-e", id+"^{commit}")
	return err == nil
}

func (m *Mirror) fullName(ctx context.Context, what, commit string) string {
	if strings.HasPrefix(what, "refs/") {
		return what
	}
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		if gitcmd.CheckBranch(what) == nil && m.exists(ctx, prefix+what) {
			return prefix + what
		}
	}
	return ownRefs + "commit/" + commit
}

// FetchBundle takes the commit that a bundle offers as from (a ref name of the
// bundle) and lets it enter as the ref to, which must be under refs/drydock/.
// It returns the commit. The bundle may come from a sandbox.
func (m *Mirror) FetchBundle(ctx context.Context, bundle io.Reader, from, to string) (string, error) {
	if err := gitcmd.CheckRef(to); err != nil {
		return "", err
	}
	if !strings.HasPrefix(to, ownRefs) {
		return "", core.E("mirror.bundle", core.Invalid, nil, "ref %q is not under %s", to, ownRefs)
	}
	bounded := &boundReader{r: bundle, n: m.opts.MaxBundle}
	buffered := bufio.NewReaderSize(bounded, 64<<10)
	header, err := ReadHeader(buffered)
	if err != nil {
		return "", err
	}
	commit := ""
	for _, ref := range header.Refs {
		if ref.Name == from {
			commit = ref.Commit
		}
	}
	if commit == "" {
		return "", core.E("mirror.bundle", core.NotFound, nil, "the bundle does not offer %q", from)
	}
	for _, id := range header.Prerequisites {
		if !m.hasCommit(ctx, id) {
			return "", core.E("mirror.bundle", core.Conflict, nil, "the bundle needs commit %s, which the mirror does not have", id)
		}
	}
	if err := m.takeObjects(ctx, buffered, commit); err != nil {
		return "", err
	}
	if _, err := m.git.Run(ctx, m.dir, "update-ref", "--no-deref", to, commit); err != nil {
		return "", m.named(err, "cannot set %s", to)
	}
	return commit, nil
}

// takeObjects checks a pack in quarantine and then moves it in.
func (m *Mirror) takeObjects(ctx context.Context, pack io.Reader, tip string) error {
	base := filepath.Join(m.dir, quarantineDir)
	if err := os.MkdirAll(base, 0o700); err != nil {
		return core.E("mirror.bundle", core.Internal, err, "cannot make quarantine in %s", m.dir)
	}
	quarantine, err := os.MkdirTemp(base, "q")
	if err != nil {
		return core.E("mirror.bundle", core.Internal, err, "cannot make quarantine in %s", m.dir)
	}
	defer func() { _ = os.RemoveAll(quarantine) }()
	packDir := filepath.Join(quarantine, "pack")
	if err := os.Mkdir(packDir, 0o700); err != nil {
		return core.E("mirror.bundle", core.Internal, err, "cannot make quarantine in %s", m.dir)
	}
	env := []string{
		"GIT_OBJECT_DIRECTORY=" + quarantine,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(m.dir, "objects"),
	}
	// --strict checks the form of every object and that what they name exists.
	err = m.git.Stream(ctx, gitcmd.Call{Dir: m.dir, Env: env, Stdin: pack, Args: []string{
		"index-pack", "--stdin", "--fix-thin", "--strict", "--max-input-size=" + strconv.FormatInt(m.opts.MaxBundle, 10),
	}})
	if errors.Is(err, errBundleTooLarge) || strings.Contains(fmt.Sprint(err), "pack exceeds maximum allowed size") {
		return core.E("mirror.bundle", core.Exhausted, nil, "bundle refused: it is larger than %d bytes", m.opts.MaxBundle)
	}
	if err != nil {
		return m.hostile(err, "its objects do not pass the check")
	}
	if err := m.measure(ctx, env, packDir); err != nil {
		return err
	}
	// Everything reachable from the tip and not from a ref must be there.
	if _, err := m.git.Output(ctx, gitcmd.Call{Dir: m.dir, Env: env, Args: []string{
		"rev-list", "--objects", "--quiet", tip + "^{commit}", "--not", "--all",
	}}); err != nil {
		return m.hostile(err, "objects that its commit needs are missing")
	}
	lock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.release()
	return m.moveIn(packDir)
}

func (m *Mirror) hostile(err error, why string) error {
	// Git said no, and not for want of space: the bundle's fault. "Early EOF" is
	// a network fault elsewhere, here it is a bundle that was cut off.
	if f, ok := gitcmd.FailureOf(err); !ok || f.Reason == gitcmd.DiskFull {
		return err
	}
	return core.E("mirror.bundle", core.Invalid, err, "bundle refused: %s", why)
}

// measure refuses packs that unpack to more than the limits allow.
func (m *Mirror) measure(ctx context.Context, env []string, packDir string) error {
	indexes, err := filepath.Glob(filepath.Join(packDir, "*.idx"))
	if err != nil || len(indexes) != 1 {
		return badBundle("it does not hold one pack")
	}
	index, err := os.Open(indexes[0])
	if err != nil {
		return core.E("mirror.bundle", core.Internal, err, "cannot read the index of a received pack")
	}
	defer func() { _ = index.Close() }()
	var names bytes.Buffer
	list, err := m.git.Output(ctx, gitcmd.Call{Dir: m.dir, Stdin: index, Args: []string{"show-index"}})
	if err != nil {
		return m.hostile(err, "the index of its pack cannot be read")
	}
	count := 0
	for line := range bytes.Lines(list) {
		fields := bytes.Fields(line) // offset, name, (crc)
		if len(fields) < 2 {
			continue
		}
		if count++; count > m.opts.MaxCount {
			return core.E("mirror.bundle", core.Exhausted, nil, "bundle refused: it holds more than %d objects", m.opts.MaxCount)
		}
		names.Write(fields[1])
		names.WriteByte('\n')
	}
	sizes, err := m.git.Output(ctx, gitcmd.Call{Dir: m.dir, Env: env, Stdin: &names, Args: []string{"cat-file", "--batch-check=%(objectsize)", "--buffer"}})
	if err != nil {
		return m.hostile(err, "its objects cannot be measured")
	}
	total := int64(0)
	for line := range bytes.Lines(sizes) {
		n, err := strconv.ParseInt(strings.TrimSpace(string(line)), 10, 64)
		if err != nil || n < 0 {
			return badBundle("an object has no size")
		}
		total += n
		if n > m.opts.MaxObject || total > m.opts.MaxTotal {
			return core.E("mirror.bundle", core.Exhausted, nil, "bundle refused: an object of %d bytes, or %d bytes in all, is over the limit", n, total)
		}
	}
	return nil
}

// moveIn renames the pack and then its index into the repository; a pack
// without index is invisible, so a crash in between loses nothing.
func (m *Mirror) moveIn(packDir string) error {
	target := filepath.Join(m.dir, "objects", "pack")
	if err := os.MkdirAll(target, 0o700); err != nil {
		return core.E("mirror.bundle", core.Internal, err, "cannot make %s", target)
	}
	entries, err := os.ReadDir(packDir)
	if err != nil {
		return core.E("mirror.bundle", core.Internal, err, "cannot read quarantine")
	}
	for _, index := range []bool{false, true} {
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".idx") != index || strings.HasSuffix(e.Name(), ".keep") {
				continue
			}
			if err := syncFile(filepath.Join(packDir, e.Name())); err != nil {
				return core.E("mirror.bundle", core.Internal, err, "cannot write a received pack to disk")
			}
			if err := os.Rename(filepath.Join(packDir, e.Name()), filepath.Join(target, e.Name())); err != nil {
				return core.E("mirror.bundle", core.Internal, err, "cannot move a received pack into %s", m.dir)
			}
		}
	}
	return syncFile(target)
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
