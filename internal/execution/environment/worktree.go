package environment

import (
	"context"
	"path"
	"strings"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// placeRef remembers the commit that the platform last put into a workspace:
// HEAD may be moved by whoever works inside.
const placeRef = "refs/drydock/place"

// MarkPlace remembers a commit as the one that the workspace stands on.
func (m *Machine) MarkPlace(ctx context.Context, commit string) error {
	if !isCommit(commit) {
		return core.E("environment.place", core.Invalid, nil, "%q is not a commit", clip(commit, 80))
	}
	_, err := m.git(ctx, "mark the place", `g update-ref `+placeRef+` "$1"`, commit)
	return err
}

// Place is the commit that MarkPlace last remembered.
func (m *Machine) Place(ctx context.Context) (string, error) {
	out, err := m.git(ctx, "find the place", `g rev-parse --verify `+placeRef)
	if err != nil {
		return "", err
	}
	return commitIn("the place", out)
}

// Has says whether a commit is in the workspace's repository.
func (m *Machine) Has(ctx context.Context, commit string) bool {
	if !isCommit(commit) {
		return false
	}
	out, err := m.git(ctx, "look for a commit", `g cat-file -e "$1^{commit}" 2>/dev/null && echo yes || echo no`, commit)
	return err == nil && strings.TrimSpace(out) == "yes"
}

// CarryOver puts the edits that were harvested on top of before onto what is
// checked out now. It says false, and changes nothing, when they do not fit.
func (m *Machine) CarryOver(ctx context.Context, before string) (bool, error) {
	if !isCommit(before) {
		return false, core.E("environment.carry", core.Invalid, nil, "%q is not a commit", clip(before, 80))
	}
	file := path.Join(scratch, "carry")
	out, err := m.git(ctx, "carry edits over", `mkdir -p "${2%/*}"
g diff --binary "$1" `+wipRef+` >"$2"
if [ ! -s "$2" ]; then echo fits
elif g apply --check "$2" 2>/dev/null; then g apply "$2"; echo fits
else echo no; fi
rm -f "$2"`, before, file)
	return strings.TrimSpace(out) == "fits", err
}

// Untracked lists files that a harvest would take as new.
func (m *Machine) Untracked(ctx context.Context) ([]string, error) {
	res, err := m.guest.Run(ctx, guest.Command{
		Argv: []string{"sh", "-c", gitPrelude + `g ls-files -z --others --exclude-standard`}, Dir: m.Workspace(), Timeout: gitTimeout, Limit: 8 << 20,
	})
	if err != nil {
		return nil, m.Explain(ctx, err)
	}
	if res.ExitCode != 0 {
		return nil, core.E("environment.git", core.Unavailable, nil, "listing new files in sandbox %s ended with %d: %s", m.id, res.ExitCode, clip(string(res.Stderr), 300))
	}
	var out []string
	for f := range strings.SplitSeq(string(res.Stdout), "\x00") {
		if f != "" {
			out = append(out, f)
		}
	}
	return out, nil
}

// Ignore keeps files out of every later harvest: what the platform's own runs
// (services, checks) left is no work of the agent.
func (m *Machine) Ignore(ctx context.Context, paths []string) error {
	var b strings.Builder
	for _, p := range paths {
		if !strings.ContainsAny(p, "\n\r") {
			b.WriteString("/" + escapeGlob(p) + "\n")
		}
	}
	if b.Len() == 0 {
		return nil
	}
	file := path.Join(scratch, "ignore")
	if err := m.guest.WriteFile(ctx, path.Join(m.Workspace(), file), 0o600, strings.NewReader(b.String())); err != nil {
		return m.Explain(ctx, err)
	}
	_, err := m.git(ctx, "ignore files", `mkdir -p .git/info; touch .git/info/exclude
cat "$1" >>.git/info/exclude; sort -u -o .git/info/exclude .git/info/exclude; rm -f "$1"`, file)
	return err
}

// IgnoreUntracked ignores what is new now.
func (m *Machine) IgnoreUntracked(ctx context.Context) error {
	paths, err := m.Untracked(ctx)
	if err != nil {
		return err
	}
	return m.Ignore(ctx, paths)
}

// escapeGlob makes a path match itself alone in an ignore file.
func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, ` `, `\ `, `!`, `\!`, `#`, `\#`).Replace(p)
}
