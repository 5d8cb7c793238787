package codechange

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"drydock/internal/execution/environment"
	"drydock/internal/gitcmd/mirror"
)

// Gate are the limits of the scope gate.
type Gate struct {
	MaxFiles  int      // 0: 200
	MaxLines  int      // added and removed, without lock and generated files; 0: 4000
	MaxBinary int64    // bytes of one added binary; 0: 2 MiB
	Protected []string // globs of paths an agent may not touch ("**" crosses directories)
}

// Finding is one reason to refuse or to mention a change.
type Finding struct {
	Code   string // "secret", "protected", "too_large", "artifact", "link", "submodule"
	Path   string
	Line   int
	Detail string
	Refuse bool // the agent must take it out
	Stop   bool // a person must look; the agent cannot mend it
}

func (f Finding) String() string {
	where := f.Path
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	if where == "" {
		return f.Detail
	}
	return where + ": " + f.Detail
}

// AddedLine is one line that a change adds.
type AddedLine struct {
	Path string
	Line int
	Text string
}

// Inspect judges a change before it is committed.
func (g Gate) Inspect(files []mirror.ChangedFile, added []AddedLine) []Finding {
	if g.MaxFiles == 0 {
		g.MaxFiles = 200
	}
	if g.MaxLines == 0 {
		g.MaxLines = 4000
	}
	var out []Finding
	lines := 0
	for _, f := range files {
		if !mechanical(f.Path) {
			lines += f.Added + f.Removed
		}
		out = append(out, g.inspectFile(f)...)
	}
	if len(files) > g.MaxFiles {
		out = append(out, Finding{
			Code: "too_large", Stop: true,
			Detail: fmt.Sprintf("the change touches %d files, the limit is %d", len(files), g.MaxFiles),
		})
	}
	if lines > g.MaxLines {
		out = append(out, Finding{
			Code: "too_large", Stop: true,
			Detail: fmt.Sprintf("the change adds and removes %d lines that somebody must read, the limit is %d", lines, g.MaxLines),
		})
	}
	for _, l := range added {
		if name := secretIn(l.Text); name != "" {
			out = append(out, Finding{Code: "secret", Path: l.Path, Line: l.Line, Refuse: true, Detail: "looks like " + name})
		}
	}
	return out
}

func (g Gate) inspectFile(f mirror.ChangedFile) []Finding {
	var out []Finding
	for _, p := range []string{f.Path, f.OldPath} {
		if p == "" {
			continue
		}
		if i := slices.IndexFunc(g.Protected, func(glob string) bool { return GlobMatch(glob, p) }); i >= 0 {
			out = append(out, Finding{
				Code: "protected", Path: p, Stop: true,
				Detail: fmt.Sprintf("is protected by the rule %q", g.Protected[i]),
			})
		}
	}
	if f.Status != mirror.Added {
		return out
	}
	switch {
	case f.NewMode == "160000":
		out = append(out, Finding{Code: "submodule", Path: f.Path, Refuse: true, Detail: "is a nested repository; its files would not be part of the change"})
	case artifact(f.Path):
		out = append(out, Finding{Code: "artifact", Path: f.Path, Refuse: true, Detail: "is a build product or a cache, not source"})
	}
	return out
}

// lockFiles are written by package managers, not read by reviewers.
var lockFiles = []string{
	"go.sum", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "poetry.lock", "uv.lock",
	"Pipfile.lock", "composer.lock", "Gemfile.lock", "mix.lock", "gradle.lockfile", "flake.lock", "bun.lock", "deno.lock",
}

func mechanical(p string) bool {
	base := path.Base(p)
	return slices.Contains(lockFiles, base) || strings.HasSuffix(base, ".snap") || strings.Contains(base, ".generated.") ||
		strings.HasSuffix(base, ".pb.go") || strings.HasSuffix(base, ".min.js")
}

var artifactDirs = []string{"node_modules", "__pycache__", ".pytest_cache", ".venv", ".gradle", ".next", ".cache", "target/debug", "target/release"}

func artifact(p string) bool {
	for _, d := range artifactDirs {
		if strings.HasPrefix(p, d+"/") || strings.Contains(p, "/"+d+"/") {
			return true
		}
	}
	switch path.Ext(p) {
	case ".pyc", ".o", ".class", ".swp":
		return true
	}
	return path.Base(p) == ".DS_Store" || path.Base(p) == "core"
}

type secretForm struct {
	name string
	re   *regexp.Regexp
}

// secretForms match the shape of real credentials only; words like "password"
// in code are none of this gate's business.
var secretForms = []secretForm{
	{"a private key", regexp.MustCompile(`-----BEGIN (?:RSA |EC |DSA |OPENSSH |PGP |ENCRYPTED )?PRIVATE KEY`)},
	{"an AWS access key", regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a GitHub token", regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})\b`)},
	{"a GitLab token", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}\b`)},
	{"a Slack token", regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{"a Stripe live key", regexp.MustCompile(`\b(?:sk|rk)_live_[A-Za-z0-9]{20,}\b`)},
	{"an Anthropic key", regexp.MustCompile(`\bsk-ant-[A-Za-z0-9_-]{30,}\b`)},
	{"an OpenAI key", regexp.MustCompile(`\bsk-(?:proj-)?[A-Za-z0-9_-]{40,}\b`)},
	{"a Google API key", regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b`)},
	{"a JSON web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{20,}\b`)},
}

func secretIn(text string) string {
	if len(text) > 20_000 {
		text = text[:20_000]
	}
	for _, s := range secretForms {
		if s.re.MatchString(text) {
			return s.name
		}
	}
	return ""
}

// GlobMatch matches slash-separated paths; "**" stands for any directories, a
// glob without a slash matches the base name anywhere.
func GlobMatch(glob, p string) bool {
	if !strings.Contains(glob, "/") {
		ok, _ := path.Match(glob, path.Base(p))
		return ok
	}
	return environment.MatchGlob(glob, p)
}

// addedLines reads a unified diff (made by the host's git with no prefix
// surprises: a/ and b/) and returns what it adds, bounded.
func addedLines(diff string, limit int) []AddedLine {
	var out []AddedLine
	file, line := "", 0
	inHunk := false
	for text := range strings.Lines(diff) {
		text = strings.TrimRight(text, "\n")
		switch {
		case strings.HasPrefix(text, "diff --git "):
			inHunk, file = false, ""
		case !inHunk && strings.HasPrefix(text, "+++ "):
			file = strings.TrimPrefix(strings.TrimPrefix(text, "+++ "), "b/")
		case strings.HasPrefix(text, "@@ "):
			inHunk = true
			line = hunkStart(text)
		case inHunk && strings.HasPrefix(text, "+"):
			out = append(out, AddedLine{Path: file, Line: line, Text: text[1:]})
			line++
			if len(out) >= limit {
				return out
			}
		case inHunk && strings.HasPrefix(text, " "):
			line++
		}
	}
	return out
}

var hunkRE = regexp.MustCompile(`^@@ -\d+(?:,\d+)? \+(\d+)`)

func hunkStart(text string) int {
	n := 0
	if m := hunkRE.FindStringSubmatch(text); m != nil {
		_, _ = fmt.Sscanf(m[1], "%d", &n)
	}
	return n
}
