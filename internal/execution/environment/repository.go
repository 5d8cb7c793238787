package environment

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
)

// Files through which bundles pass, inside.
const (
	bundleIn  = "/var/tmp/.drydock-in.bundle"
	bundleOut = "/var/tmp/.drydock-out.bundle"
	wipRef    = "refs/drydock/wip"
	placeRef  = "refs/drydock/place"
)

// gitEnv is the environment of the platform's own git commands inside: no
// hooks, no helpers, whoever owns the files.
func gitEnv() []string {
	settings := [][2]string{
		{"safe.directory", "*"}, {"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}, {"gc.auto", "0"},
		{"advice.detachedHead", "false"}, {"commit.gpgSign", "false"}, {"core.quotePath", "false"},
	}
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_AUTHOR_NAME=Drydock", "GIT_AUTHOR_EMAIL=drydock@localhost", "GIT_COMMITTER_NAME=Drydock", "GIT_COMMITTER_EMAIL=drydock@localhost",
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)),
	}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}

// script runs a platform shell script in the working tree; arguments are $1...
func (m *Machine) script(ctx context.Context, what, text string, args ...string) (string, error) {
	res, err := m.guest.Run(ctx, guest.Command{
		Argv: append([]string{"/bin/sh", "-eu", "-c", text, "drydock"}, args...),
		Env:  gitEnv(), Dir: "/", Timeout: 10 * time.Minute,
	})
	if err != nil {
		return "", m.died(ctx, err)
	}
	if res.ExitCode != 0 {
		return "", core.E("environment."+what, core.Unavailable, nil, "%s in sandbox %s: exit code %d: %s",
			what, m.handle.ID, res.ExitCode, lastLines(string(res.Stderr), 600))
	}
	return strings.TrimSpace(string(res.Stdout)), nil
}

func lastLines(s string, n int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "?"))
	if len(s) > n {
		s = "..." + s[len(s)-n:]
	}
	return s
}

const checkoutScript = `
mkdir -p ` + Workspace + `; cd ` + Workspace + `
[ -d .git ] || git init -q -b drydock-init .
git fetch -q --no-tags --force ` + bundleIn + ` "$3:` + placeRef + `"
rm -f ` + bundleIn + ` .git/index.lock
if [ "$4" = keep ]; then
	# What lies in the working tree stays as it is; only HEAD and index move.
	git symbolic-ref HEAD "refs/heads/$2"; git update-ref "refs/heads/$2" "$1"; git reset -q
else
	git checkout -q --force -B "$2" "$1" --
fi
git rev-parse HEAD
`

// PutRepository brings a commit in and makes it HEAD, on a local branch. have
// names commits that are known to be there already. With keep the working
// tree's files stay as they are and only HEAD moves.
func (m *Machine) PutRepository(ctx context.Context, repo *mirror.Mirror, commit, branch string, have []string, keep bool) error {
	if err := gitcmd.CheckCommitID(commit); err != nil {
		return err
	}
	if err := gitcmd.CheckBranch(branch); err != nil {
		return err
	}
	const name = "refs/drydock/in"
	have = withoutCommit(have, commit)
	if present, err := m.script(ctx, "checkout", `cd `+Workspace+` 2>/dev/null && git cat-file -e "$1^{commit}" 2>/dev/null && echo yes || echo no`, commit); err == nil && present == "yes" {
		return m.moveHead(ctx, commit, branch, keep)
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := repo.Bundle(ctx, pw, []string{name + "=" + commit}, have)
		_ = pw.CloseWithError(err)
		done <- err
	}()
	err := m.guest.WriteFile(ctx, bundleIn, 0o600, pr)
	_ = pr.CloseWithError(err)
	if bundleErr := <-done; bundleErr != nil && err == nil {
		err = bundleErr
	}
	if err != nil {
		return m.died(ctx, err)
	}
	mode := "force"
	if keep {
		mode = "keep"
	}
	return m.assertHead(ctx, commit)(m.script(ctx, "checkout", checkoutScript, commit, branch, name, mode))
}

func withoutCommit(list []string, commit string) []string {
	var out []string
	for _, c := range list {
		if c != "" && c != commit {
			out = append(out, c)
		}
	}
	return out
}

func (m *Machine) moveHead(ctx context.Context, commit, branch string, keep bool) error {
	text := `cd ` + Workspace + `; rm -f .git/index.lock; git update-ref ` + placeRef + ` "$1"; git checkout -q --force -B "$2" "$1" --; git rev-parse HEAD`
	if keep {
		text = `cd ` + Workspace + `; rm -f .git/index.lock; git update-ref ` + placeRef + ` "$1"; git symbolic-ref HEAD "refs/heads/$2"; git update-ref "refs/heads/$2" "$1"; git reset -q; git rev-parse HEAD`
	}
	return m.assertHead(ctx, commit)(m.script(ctx, "checkout", text, commit, branch))
}

// assertHead refuses to go on from anything but the recorded commit.
func (m *Machine) assertHead(_ context.Context, commit string) func(string, error) error {
	return func(head string, err error) error {
		if err != nil {
			return err
		}
		if head != commit {
			return core.E("environment.checkout", core.Internal, nil, "sandbox %s stands at %q after the checkout of %s", m.handle.ID, head, commit)
		}
		return nil
	}
}

// harvestScript writes the working tree, untracked files included, as a commit
// on top of $1 without touching the user's index or branches.
const harvestScript = `
cd ` + Workspace + `
index=.git/drydock-index
rm -f "$index.lock"
[ -f "$index" ] || cp .git/index "$index" 2>/dev/null || true
export GIT_INDEX_FILE="$PWD/$index"
git add -A . 2>/tmp/.drydock-add || { cat /tmp/.drydock-add >&2; exit 1; }
tree=$(git write-tree)
export GIT_AUTHOR_DATE="@0 +0000" GIT_COMMITTER_DATE="@0 +0000"
commit=$(git commit-tree "$tree" -p "$1" -m "working tree")
git update-ref ` + wipRef + ` "$commit"
rm -f ` + bundleOut + `
git bundle create -q ` + bundleOut + ` ` + wipRef + ` "^$1"
echo "$commit"
`

// Harvest brings the working tree into the mirror as a commit on top of place,
// under ref (below refs/drydock/), and returns it. The commit only carries the
// tree: author, message and parent of what is delivered are made outside.
func (m *Machine) Harvest(ctx context.Context, repo *mirror.Mirror, place, ref string) (string, error) {
	if err := gitcmd.CheckCommitID(place); err != nil {
		return "", err
	}
	commit, err := m.script(ctx, "harvest", harvestScript, place)
	if err != nil {
		return "", err
	}
	if err := gitcmd.CheckCommitID(commit); err != nil {
		return "", core.E("environment.harvest", core.Invalid, nil, "sandbox %s handed out something that is no commit", m.handle.ID)
	}
	if at, err := repo.ReadRef(ctx, ref); err == nil && at == commit {
		return commit, nil
	}
	got, err := repo.FetchBundle(ctx, &fileReader{ctx: ctx, m: m, path: bundleOut}, wipRef, ref)
	if err != nil {
		return "", err
	}
	return got, nil
}

// untracked lists files that git would add.
func (m *Machine) untracked(ctx context.Context) ([]string, error) {
	res, err := m.guest.Run(ctx, guest.Command{
		Argv: []string{"git", "-C", Workspace, "ls-files", "-z", "--others", "--exclude-standard"},
		Env:  gitEnv(), Dir: "/", Timeout: 2 * time.Minute, Limit: 4 << 20,
	})
	if err != nil {
		return nil, m.died(ctx, err)
	}
	if res.ExitCode != 0 {
		return nil, core.E("environment.untracked", core.Unavailable, nil, "git ls-files in sandbox %s: %s", m.handle.ID, lastLines(string(res.Stderr), 300))
	}
	var out []string
	for _, f := range bytes.Split(res.Stdout, []byte{0}) {
		if len(f) > 0 {
			out = append(out, string(f))
		}
	}
	return out, nil
}

// Ignore keeps files out of every later harvest: what the platform's own runs
// (setup, warm-up, checks, services) left is no work of the agent.
func (m *Machine) Ignore(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	var b strings.Builder
	for _, p := range paths {
		if strings.ContainsAny(p, "\n\r") {
			continue
		}
		b.WriteString("/" + escapeGlob(p) + "\n")
	}
	if err := m.guest.WriteFile(ctx, "/var/tmp/.drydock-ignore", 0o600, strings.NewReader(b.String())); err != nil {
		return m.died(ctx, err)
	}
	_, err := m.script(ctx, "ignore", `cd `+Workspace+`; mkdir -p .git/info; cat /var/tmp/.drydock-ignore >>.git/info/exclude; sort -u -o .git/info/exclude .git/info/exclude; rm -f /var/tmp/.drydock-ignore`)
	return err
}

// escapeGlob makes a path match itself alone in an ignore file.
func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, ` `, `\ `, `!`, `\!`, `#`, `\#`).Replace(p)
}

// Settle makes the working tree a clean checkout: tracked files as committed,
// everything else that is there kept but ignored from now on.
func (m *Machine) Settle(ctx context.Context) error {
	if _, err := m.script(ctx, "settle", `cd `+Workspace+`; rm -f .git/index.lock; git checkout -q --force HEAD -- . ; git reset -q --hard HEAD`); err != nil {
		return err
	}
	return m.IgnoreUntracked(ctx)
}

// IgnoreUntracked ignores what is untracked now.
func (m *Machine) IgnoreUntracked(ctx context.Context) error {
	paths, err := m.untracked(ctx)
	if err != nil {
		return err
	}
	return m.Ignore(ctx, paths)
}

// Untracked lists files that git would add.
func (m *Machine) Untracked(ctx context.Context) ([]string, error) { return m.untracked(ctx) }

// fileReader reads a file of the sandbox piece by piece.
type fileReader struct {
	ctx  context.Context //nolint:containedctx // lives for one call, io.Reader has no other way
	m    *Machine
	path string
	off  int64
	rest []byte
	end  bool
}

const pieceSize = 8 << 20

func (r *fileReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.end {
			return 0, io.EOF
		}
		data, info, err := r.m.guest.ReadFile(r.ctx, r.path, r.off, pieceSize)
		if err != nil {
			return 0, r.m.died(r.ctx, err)
		}
		r.off += int64(len(data))
		r.rest, r.end = data, len(data) == 0 || r.off >= info.Size
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Place is the commit that the platform last put into the sandbox.
func (m *Machine) Place(ctx context.Context) (string, error) {
	commit, err := m.script(ctx, "place", `cd `+Workspace+`; git rev-parse --verify `+placeRef)
	if err != nil {
		return "", err
	}
	return commit, gitcmd.CheckCommitID(commit)
}

// CarryOver puts the edits that were harvested on top of before onto what is
// checked out now. It says false, and changes nothing, when they do not fit.
func (m *Machine) CarryOver(ctx context.Context, before string) (bool, error) {
	if err := gitcmd.CheckCommitID(before); err != nil {
		return false, err
	}
	out, err := m.script(ctx, "carry over", `cd `+Workspace+`
git diff --binary "$1" `+wipRef+` >/var/tmp/.drydock-carry
if git apply --check /var/tmp/.drydock-carry 2>/dev/null; then git apply /var/tmp/.drydock-carry; echo fits; else echo no; fi
rm -f /var/tmp/.drydock-carry`, before)
	return out == "fits", err
}

// Clean removes files that are neither tracked nor ignored.
func (m *Machine) Clean(ctx context.Context) error {
	_, err := m.script(ctx, "clean", `cd `+Workspace+`; git clean -ffdq`)
	return err
}
