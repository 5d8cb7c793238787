package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/gitcmd/mirror"
)

// Platform commands run as root, in a workspace that may belong to another
// user and whose configuration and hooks are the sandbox's. Nothing they start
// can hurt the host; but hooks and helpers would change what is harvested, and
// a person's own settings would change what is checked out.
const gitPrelude = `set -eu
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 LC_ALL=C
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES 2>/dev/null || :
g() { git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false \
	-c commit.gpgSign=false -c core.untrackedCache=false -c advice.detachedHead=false -c protocol.file.allow=always "$@"; }
owned() { # gives to the workspace's owner what root has made in it
	[ -n "$1" ] || return 0
	chown "$1" .
	find .git -xdev -user 0 -exec chown -h "$1" {} +
	{ g ls-files -z; g ls-tree -rdz --name-only HEAD; } | xargs -0 -r chown -h "$1" 2>/dev/null || : # some may be deleted
}
`

const (
	gitTimeout = 10 * time.Minute
	wipRef     = "refs/drydock/wip"
	// scratch is below the workspace, on the sandbox's disk, out of git's sight.
	scratch = ".git/drydock"
)

// git runs a script with the prelude in the workspace.
func (m *Machine) git(ctx context.Context, what, script string, args ...string) (string, error) {
	res, err := m.guest.Run(ctx, guest.Command{
		Argv: append([]string{"sh", "-c", gitPrelude + script, "sh"}, args...), Dir: m.Workspace(), Timeout: gitTimeout,
	})
	if err != nil {
		return "", m.Explain(ctx, err)
	}
	if res.ExitCode != 0 {
		return "", core.E("environment.git", core.Unavailable, nil, "%s in sandbox %s ended with %d: %s", what, m.id, res.ExitCode,
			clip(strings.TrimSpace(string(res.Stderr)), 1000))
	}
	return string(res.Stdout), nil
}

const checkoutScript = `bundle=$1 commit=$2 branch=$3 user=$4 keep=$5
if [ ! -e .git/HEAD ]; then
	g init -q -b "$branch" .
	# What gVisor shows of a file and what the next sandbox sees of it differ in
	# everything but size and seconds.
	g config core.checkStat minimal
	g config core.trustctime false
fi
for lock in .git/index.lock .git/HEAD.lock .git/shallow.lock; do
	[ ! -e "$lock" ] || rm -f "$lock"
done
if [ -n "$bundle" ]; then
	g fetch -q --no-tags --force "$bundle" 'refs/heads/*:refs/remotes/origin/*' 'refs/drydock/*:refs/drydock/in/*'
	rm -f "$bundle"
fi
g checkout -q -f -B "$branch" "$commit"
if [ -z "$keep" ]; then
	g clean -q -ffd
fi
test "$(g rev-parse HEAD)" = "$commit"
owned "$user"
left=$(g status --porcelain ${keep:+--untracked-files=no})
if [ -n "$left" ]; then
	printf 'the checkout is not clean: %.500s\n' "$left" >&2
	exit 1
fi
`

// CheckoutBundle brings the workspace to a commit on a branch. The bundle (see
// mirror.Bundle) holds what the workspace does not have yet, its branches under
// refs/heads become origin's; nil means that the commit is there already. Files
// that are not ignored and not of the commit are removed, ignored ones stay.
// HEAD is checked.
func (m *Machine) CheckoutBundle(ctx context.Context, bundle io.Reader, commit, branch string) error {
	return m.checkout(ctx, bundle, commit, branch, false)
}

// checkout is CheckoutBundle; with keep, files that are new to git stay.
func (m *Machine) checkout(ctx context.Context, bundle io.Reader, commit, branch string, keep bool) error {
	const op = "environment.checkout"
	if !isCommit(commit) || branch == "" || strings.HasPrefix(branch, "-") {
		return core.E(op, core.Invalid, nil, "checkout of %q as branch %q", commit, branch)
	}
	if err := m.guest.Mkdir(ctx, m.Workspace(), 0o755); err != nil && !core.Is(err, core.Conflict) {
		return m.Explain(ctx, err)
	}
	name, flag := "", ""
	if keep {
		flag = "keep"
	}
	if bundle != nil {
		name = path.Join(scratch, "in-"+string(core.NewSandboxID())+".bundle")
		if err := m.guest.WriteFile(ctx, path.Join(m.Workspace(), name), 0o600, bundle); err != nil {
			return m.Explain(ctx, err)
		}
	}
	_, err := m.git(ctx, "checkout", checkoutScript, name, commit, branch, m.User(), flag)
	return err
}

// settle makes the tracked files those of HEAD. What else is there (made by
// setup, and perhaps needed by services) stays, and is ignored from now on.
func (m *Machine) settle(ctx context.Context) error {
	if _, err := m.git(ctx, "settle", `rm -f .git/index.lock
g reset -q --hard HEAD
owned "$1"
`, m.User()); err != nil {
		return err
	}
	return m.IgnoreUntracked(ctx)
}

// Reset brings tracked files to a commit that the workspace has, like git reset
// --hard: files that are new to git stay.
func (m *Machine) Reset(ctx context.Context, commit, branch string) error {
	return m.checkout(ctx, nil, commit, branch, true)
}

// Checkout says what to bring into a workspace.
type Checkout struct {
	Commit string
	Branch string   // to be checked out; made or moved
	Base   string   // origin's branch that the commit is shown as; "" for none
	Have   []string // commits that the workspace has already
	// KeepNew leaves files alone that are neither tracked nor ignored: what
	// set-up installed in a repository that ignores nothing.
	KeepNew bool
}

// CheckoutMirror is CheckoutBundle with what is missing taken from a mirror.
func (m *Machine) CheckoutMirror(ctx context.Context, from *mirror.Mirror, c Checkout) error {
	name := "refs/drydock/commit"
	if c.Base != "" {
		name = "refs/heads/" + c.Base
	}
	r, w := io.Pipe()
	bundled := make(chan error, 1)
	go func() {
		err := from.Bundle(ctx, w, []string{name + "=" + c.Commit}, c.Have)
		w.CloseWithError(err)
		bundled <- err
	}()
	err := m.checkout(ctx, r, c.Commit, c.Branch, c.KeepNew)
	_ = r.CloseWithError(errEnough)
	if bundleErr := <-bundled; bundleErr != nil && !errors.Is(bundleErr, errEnough) && ctx.Err() == nil {
		return bundleErr
	}
	return err
}

var errEnough = errors.New("the reader has gone")

// Head is the commit that is checked out.
func (m *Machine) Head(ctx context.Context) (string, error) {
	out, err := m.git(ctx, "rev-parse", `g rev-parse --verify HEAD^{commit}`)
	if err != nil {
		return "", err
	}
	return commitIn("HEAD", out)
}

const harvestScript = `file=$1 user=$2
shift 2
# One process instead of three: each takes a few hundredths of a second here.
if at=$(g rev-parse --absolute-git-dir "HEAD^{commit}" "HEAD^{tree}" 2>/dev/null); then
	{ read -r git_dir; read -r head; read -r head_tree; } <<AT
$at
AT
else
	git_dir=$(g rev-parse --absolute-git-dir) head='' head_tree=''
fi
index=$file.index
trap 'rm -f "$index" "$index.lock"' EXIT
[ -d "${file%/*}" ] || mkdir -p "${file%/*}"
if [ -f "$git_dir/index" ]; then
	# With its time: git looks into files that are as new as their index. A copy
	# that looks newer hides an edit of the same size made in the same second.
	cp -p "$git_dir/index" "$index"
fi
export GIT_INDEX_FILE=$index
if ! g add -A . >/dev/null 2>&1 && ! why=$(g add -A --ignore-errors . 2>&1 >/dev/null); then
	# A repository without a commit inside this one cannot be taken, and is left
	# out. A file that cannot be taken (the disk is full) would be lost.
	left=$(g ls-files -z --modified --others --exclude-standard | tr '\000' '\n' | grep -v '/$' | head -n 5 || :)
	if [ -n "$left" ]; then
		echo "cannot take" $left: "$why" >&2
		exit 1
	fi
fi
tree=$(g write-tree)
branch=$(g symbolic-ref -q --short HEAD || :)
export GIT_AUTHOR_NAME=Drydock GIT_AUTHOR_EMAIL=drydock@localhost GIT_COMMITTER_NAME=Drydock GIT_COMMITTER_EMAIL=drydock@localhost
if [ -z "$head" ]; then
	wip=$(g commit-tree "$tree" -m "work in progress")
elif [ "$head_tree" = "$tree" ]; then
	wip=$head
else
	wip=$(g commit-tree "$tree" -p "$head" -m "work in progress")
fi
g update-ref ` + wipRef + ` "$wip"
set -- $(for c in "$@"; do g cat-file -e "$c^{commit}" 2>/dev/null && echo "^$c"; done; :)
if [ -n "$user" ]; then # root has made objects that the user must be able to add to
	find "$git_dir" -xdev -user 0 -exec chown -h "$user" {} +
fi
size=0
if [ -n "$(g rev-list -n 1 "$wip" "$@")" ]; then
	g bundle create -q "$file" ` + wipRef + ` "$@"
	size=$(wc -c <"$file")
fi
echo "wip $wip"
echo "head $head"
echo "tree $tree"
echo "branch $branch"
echo "size $size"
`

// Harvested is the state of a workspace, as a commit.
type Harvested struct {
	Commit string // of the whole working tree; Head itself when nothing else is there
	Head   string // what was checked out; "" in an empty repository
	Tree   string
	Branch string // "" when detached
	Dirty  bool   // something is not committed
	// Bundle offers Commit as WipRef. It is nil when every commit is among those
	// that the caller has. The content comes from the sandbox and is hostile.
	Bundle io.ReadCloser
}

// WipRef is the name under which a harvested bundle offers its commit.
const WipRef = wipRef

// Harvest takes the working tree, with new files that are not ignored, as a
// commit, without touching the index or the branch, and returns what the
// caller does not have yet.
func (m *Machine) Harvest(ctx context.Context, have ...string) (Harvested, error) {
	const op = "environment.harvest"
	for _, c := range have {
		if !isCommit(c) {
			return Harvested{}, core.E(op, core.Invalid, nil, "%q is not a commit", clip(c, 80))
		}
	}
	file := path.Join(scratch, "out-"+string(core.NewSandboxID())+".bundle")
	out, err := m.git(ctx, "harvest", harvestScript, append([]string{file, m.User()}, have...)...)
	if err != nil {
		return Harvested{}, err
	}
	h, size, err := parseHarvest(out)
	if err != nil {
		return h, err
	}
	if size > 0 {
		h.Bundle = &fileReader{ctx: ctx, machine: m, path: path.Join(m.Workspace(), file), left: size}
	}
	return h, nil
}

// parseHarvest reads what the script printed; it comes from the sandbox.
func parseHarvest(out string) (h Harvested, size int64, err error) {
	const op = "environment.harvest"
	fields := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fields[name] = value
	}
	if h.Commit, err = commitIn("wip", fields["wip"]); err != nil {
		return h, 0, err
	}
	if h.Tree, err = commitIn("tree", fields["tree"]); err != nil {
		return h, 0, err
	}
	if fields["head"] != "" {
		if h.Head, err = commitIn("head", fields["head"]); err != nil {
			return h, 0, err
		}
	}
	h.Branch = clip(fields["branch"], 250)
	h.Dirty = h.Commit != h.Head
	if _, err := fmt.Sscanf(fields["size"], "%d", &size); err != nil || size < 0 || size > maxHarvest {
		return h, 0, core.E(op, core.Exhausted, err, "the work weighs %q bytes, the limit is %d", clip(fields["size"], 40), int64(maxHarvest))
	}
	return h, size, nil
}

// maxHarvest bounds a bundle out of a sandbox.
const maxHarvest = 2 << 30

func commitIn(what, s string) (string, error) {
	s = strings.TrimSpace(s)
	if !isCommit(s) {
		return "", core.E("environment.git", core.Internal, nil, "the sandbox names %q as %s", clip(s, 80), what)
	}
	return s, nil
}

func isCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// fileReader reads a file inside piece by piece, and removes it at the end.
type fileReader struct {
	ctx     context.Context //nolint:containedctx // of the call that returned the reader
	machine *Machine
	path    string
	offset  int64
	left    int64
	buf     []byte
}

const readPiece = 4 << 20

func (r *fileReader) Read(p []byte) (int, error) {
	if len(r.buf) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		data, _, err := r.machine.guest.ReadFile(r.ctx, r.path, r.offset, min(readPiece, r.left))
		if err != nil {
			return 0, r.machine.Explain(r.ctx, err)
		}
		if len(data) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		r.buf = data
		r.offset += int64(len(data))
		r.left -= int64(len(data))
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

func (r *fileReader) Close() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 10*time.Second)
	defer cancel()
	err := r.machine.guest.Remove(ctx, r.path, false)
	if core.Is(err, core.NotFound) || errors.Is(err, context.Canceled) {
		return nil
	}
	return r.machine.Explain(ctx, err)
}
