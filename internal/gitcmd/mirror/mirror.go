package mirror

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// Defaults of Options.
const (
	DefaultMaxBundle = 2 << 30
	DefaultMaxObject = 512 << 20
	DefaultMaxTotal  = 8 << 30
	DefaultMaxCount  = 2_000_000

	// ownRefs is where everything of Drydock's own lives.
	ownRefs = "refs/drydock/"
	// packsBeforeRepack bounds how many packs pile up.
	packsBeforeRepack = 40
	// staleAfter is the age at which a lock file that no process can hold any
	// more is removed.
	staleAfter = 2 * time.Minute
	// quarantineAge is the age at which an abandoned quarantine is removed.
	quarantineAge = 6 * time.Hour
)

// Options of a Mirror. Limits that are zero take their default.
type Options struct {
	Git    *gitcmd.Git
	Dir    string // of the bare repository; made when missing
	Source string // absolute path, URL or user@host:path; may be "" for a store without source

	MaxBundle int64 // bytes of a bundle
	MaxObject int64 // bytes of one object, unpacked
	MaxTotal  int64 // bytes of all objects of a bundle, unpacked
	MaxCount  int   // objects of a bundle
}

// Mirror is one bare repository.
type Mirror struct {
	git    *gitcmd.Git
	dir    string
	source gitcmd.Source
	opts   Options
}

// Open finds or makes the mirror. It fetches nothing.
func Open(ctx context.Context, opts Options) (*Mirror, error) {
	m := &Mirror{git: opts.Git, dir: filepath.Clean(opts.Dir), opts: opts}
	if !filepath.IsAbs(m.dir) {
		return nil, core.E("mirror.open", core.Invalid, nil, "mirror directory %q is not absolute", opts.Dir)
	}
	if opts.Source != "" {
		source, err := gitcmd.ParseSource(opts.Source)
		if err != nil {
			return nil, err
		}
		m.source = source
	}
	setDefault(&m.opts.MaxBundle, DefaultMaxBundle)
	setDefault(&m.opts.MaxObject, DefaultMaxObject)
	setDefault(&m.opts.MaxTotal, DefaultMaxTotal)
	setDefault(&m.opts.MaxCount, DefaultMaxCount)
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return nil, core.E("mirror.open", core.Internal, err, "cannot make mirror directory %s", m.dir)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "HEAD")); errors.Is(err, fs.ErrNotExist) {
		// Init is safe to repeat, so a crash in the middle heals here. The empty
		// template keeps sample hooks and descriptions out.
		lock, err := m.lock(ctx)
		if err != nil {
			return nil, err
		}
		defer lock.release()
		if _, err := m.git.Run(ctx, m.dir, "init", "--quiet", "--bare", "--template="); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func setDefault[T int | int64](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Dir is the bare repository's directory.
func (m *Mirror) Dir() string { return m.dir }

// Source is what the mirror follows, as given.
func (m *Mirror) Source() string { return m.opts.Source }

// SyncResult says what a Sync found.
type SyncResult struct {
	DefaultBranch string // "" for an empty repository
	Head          string // its commit
	Changed       bool   // any branch or tag moved
}

// benignFaults are old mistakes in public histories that harm nobody; refusing
// them would make those repositories unusable. What a sandbox sends is held to
// the full check.
func benignFaults() []string {
	var out []string
	for _, id := range []string{
		"badTimezone", "badDate", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingNameBeforeEmail",
		"missingEmail", "badEmail", "badName", "zeroPaddedFilemode", "zeroPaddedDate", "badFilemode", "missingTaggerEntry",
		"badTagName", "gitmodulesParse",
	} {
		out = append(out, "-c", "fetch.fsck."+id+"=ignore")
	}
	return out
}

// Sync brings branches and tags to where the source has them. It is
// incremental, and one runs at a time.
func (m *Mirror) Sync(ctx context.Context) (SyncResult, error) {
	if m.source.URL == "" {
		return SyncResult{}, core.E("mirror.sync", core.Invalid, nil, "mirror %s has no source", m.dir)
	}
	if m.source.Local {
		if _, err := os.Stat(m.source.URL); err != nil {
			return SyncResult{}, core.E("mirror.sync", core.NotFound, err, "repository %s is not there", m.source.URL).
				WithHint("name the directory of a git repository")
		}
	}
	lock, err := m.lock(ctx)
	if err != nil {
		return SyncResult{}, err
	}
	defer lock.release()
	m.removeLeftovers()

	before, err := m.refs(ctx)
	if err != nil {
		return SyncResult{}, err
	}
	args := append(benignFaults(), "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--force",
		"--end-of-options", m.source.URL, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	if err := m.git.Stream(ctx, gitcmd.Call{Dir: m.dir, Args: args, Inherit: lock.files()}); err != nil {
		return SyncResult{}, m.named(err, "cannot fetch from %s", gitcmd.Redact(m.source.URL))
	}
	if err := m.followHead(ctx); err != nil {
		return SyncResult{}, err
	}
	after, err := m.refs(ctx)
	if err != nil {
		return SyncResult{}, err
	}
	m.maintain(ctx, lock)
	result := SyncResult{Changed: !bytes.Equal(before, after)}
	result.DefaultBranch, err = m.DefaultBranch(ctx)
	if core.Is(err, core.NotFound) {
		return result, nil // empty repository
	}
	if err != nil {
		return result, err
	}
	result.Head, err = m.Resolve(ctx, "refs/heads/"+result.DefaultBranch)
	return result, err
}

// named puts the object in front of git's own words, keeping kind and hint.
func (m *Mirror) named(err error, format string, args ...any) error {
	return core.E("mirror", core.KindOf(err), err, format, args...).WithHint("%s", core.HintOf(err))
}

func (m *Mirror) refs(ctx context.Context) ([]byte, error) {
	return m.git.Run(ctx, m.dir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
}

// followHead points HEAD at the source's default branch.
func (m *Mirror) followHead(ctx context.Context) error {
	out, err := m.git.Run(ctx, m.dir, "ls-remote", "--symref", "--end-of-options", m.source.URL, "HEAD")
	if err != nil {
		return m.named(err, "cannot ask %s for its default branch", gitcmd.Redact(m.source.URL))
	}
	branch := parseSymref(out)
	if branch == "" || !m.exists(ctx, "refs/heads/"+branch) {
		branch = m.guessBranch(ctx)
	}
	if branch == "" {
		return nil
	}
	_, err = m.git.Run(ctx, m.dir, "symbolic-ref", "HEAD", "refs/heads/"+branch)
	return err
}

// parseSymref reads "ref: refs/heads/main\tHEAD"; "" when the source's HEAD is
// detached or names something odd.
func parseSymref(out []byte) string {
	for line := range bytes.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimRight(string(line), "\n"), "ref: refs/heads/")
		if !ok {
			continue
		}
		branch, name, ok := strings.Cut(rest, "\t")
		if ok && name == "HEAD" && gitcmd.CheckBranch(branch) == nil {
			return branch
		}
	}
	return ""
}

func (m *Mirror) guessBranch(ctx context.Context) string {
	for _, name := range []string{"main", "master"} {
		if m.exists(ctx, "refs/heads/"+name) {
			return name
		}
	}
	out, err := m.git.Run(ctx, m.dir, "for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", "refs/heads")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (m *Mirror) exists(ctx context.Context, ref string) bool {
	_, err := m.git.Run(ctx, m.dir, "rev-parse", "--quiet", "--verify", "--end-of-options", ref)
	return err == nil
}

// DefaultBranch is the branch HEAD of the source named at the last Sync.
func (m *Mirror) DefaultBranch(ctx context.Context) (string, error) {
	out, err := m.git.Run(ctx, m.dir, "symbolic-ref", "--quiet", "--short", "HEAD")
	branch := strings.TrimSpace(string(out))
	if err != nil || !m.exists(ctx, "refs/heads/"+branch) {
		return "", core.E("mirror.branch", core.NotFound, nil, "repository %s has no default branch", gitcmd.Redact(m.opts.Source)).
			WithHint("the repository is empty, or its HEAD names a branch that is not there")
	}
	return branch, nil
}

// Resolve turns a commit identifier (full or at least 7 digits), a full ref
// name, a branch or a tag into a commit. A branch wins over a tag.
func (m *Mirror) Resolve(ctx context.Context, ref string) (string, error) {
	var candidates []string
	switch {
	case gitcmd.IsCommitID(ref) || isAbbreviated(ref):
		candidates = []string{ref}
		if !gitcmd.IsCommitID(ref) { // "cafe123" may as well be a branch
			candidates = []string{"refs/heads/" + ref, "refs/tags/" + ref, ref}
		}
	case strings.HasPrefix(ref, "refs/"):
		if err := gitcmd.CheckRef(ref); err != nil {
			return "", err
		}
		candidates = []string{ref}
	case ref == "HEAD":
		candidates = []string{ref}
	default:
		if err := gitcmd.CheckBranch(ref); err != nil {
			return "", err
		}
		candidates = []string{"refs/heads/" + ref, "refs/tags/" + ref}
	}
	for _, c := range candidates {
		out, err := m.git.Run(ctx, m.dir, "rev-parse", "--quiet", "--verify", "--end-of-options", c+"^{commit}")
		if err == nil {
			return strings.TrimSpace(string(out)), nil
		}
		if ctx.Err() != nil {
			return "", err
		}
	}
	return "", core.E("mirror.resolve", core.NotFound, nil, "%q is not a branch, tag or commit of %s", ref, gitcmd.Redact(m.opts.Source)).
		WithHint("check the name; branches are read from the source at the last fetch")
}

func isAbbreviated(s string) bool {
	return len(s) >= 7 && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// maintain keeps the number of packs small. Failing to is not an error of the
// caller's.
func (m *Mirror) maintain(ctx context.Context, lock *dirLock) {
	packs, _ := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.pack"))
	if len(packs) < packsBeforeRepack {
		return
	}
	_ = m.git.Stream(ctx, gitcmd.Call{Dir: m.dir, Args: []string{"repack", "-q", "-d", "-l", "--geometric=2"}, Inherit: lock.files()})
	_ = m.git.Stream(ctx, gitcmd.Call{Dir: m.dir, Args: []string{"pack-refs", "--all"}, Inherit: lock.files()})
}

// removeLeftovers clears what a killed git left. The caller holds the lock,
// which outlives every git that could still be writing.
func (m *Mirror) removeLeftovers() {
	now := time.Now()
	old := func(d fs.DirEntry, age time.Duration) bool {
		info, err := d.Info()
		return err == nil && now.Sub(info.ModTime()) > age
	}
	for _, root := range []string{"refs", "."} {
		dir := filepath.Join(m.dir, root)
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // what cannot be read is left alone
			case d.IsDir() && root == "." && path != dir:
				return fs.SkipDir
			case !d.IsDir() && strings.HasSuffix(path, ".lock") && old(d, staleAfter):
				_ = os.Remove(path)
			}
			return nil
		})
	}
	tmp, _ := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "tmp_*"))
	for _, path := range tmp {
		_ = os.Remove(path)
	}
	entries, _ := os.ReadDir(filepath.Join(m.dir, quarantineDir))
	for _, e := range entries {
		if old(e, quarantineAge) {
			_ = os.RemoveAll(filepath.Join(m.dir, quarantineDir, e.Name()))
		}
	}
}

// dirLock is held by an open file, so it ends with the last process that has
// it open.
type dirLock struct{ f *os.File }

func (l *dirLock) files() []*os.File { return []*os.File{l.f} }

// release closes the file and does not unlock it: a git that was left behind
// keeps the lock until it ends.
func (l *dirLock) release() { _ = l.f.Close() }

func (m *Mirror) lock(ctx context.Context) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(m.dir, "drydock-mutex"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, core.E("mirror.lock", core.Internal, err, "cannot lock mirror %s", m.dir)
	}
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &dirLock{f: f}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, core.E("mirror.lock", core.Internal, err, "cannot lock mirror %s", m.dir)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, core.E("mirror.lock", core.KindOf(ctx.Err()), ctx.Err(), "mirror %s is in use", m.dir)
		case <-ticker.C:
		}
	}
}

// boundReader fails after n bytes.
type boundReader struct {
	r io.Reader
	n int64
}

var errBundleTooLarge = errors.New("size limit reached")

func (b *boundReader) Read(p []byte) (int, error) {
	if b.n <= 0 {
		// One byte more decides between "exactly as large" and "larger".
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errBundleTooLarge
	}
	if int64(len(p)) > b.n {
		p = p[:b.n]
	}
	n, err := b.r.Read(p)
	b.n -= int64(n)
	return n, err
}
