package recipe

import (
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
)

var (
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)
	envForm     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	packageForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]{0,127}(:[a-z0-9-]+)?(=[A-Za-z0-9.+:~_-]+)?$`)
	suiteForm   = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,63}$`)
	imageForm   = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._/-]|:[A-Za-z0-9])*(@sha256:[0-9a-f]{64})?$`)
	userForm    = regexp.MustCompile(`^([a-z_][a-z0-9_-]{0,31}|[0-9]{1,10}(:[0-9]{1,10})?)$`)
	sizeForm    = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)$`)
	daysForm    = regexp.MustCompile(`^([0-9]+)d$`)
	sizesForm   = regexp.MustCompile(`^([0-9]{2,5})x([0-9]{2,5})$`)
	hostForm    = regexp.MustCompile(`^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?$`)
	addressForm = regexp.MustCompile(`^[0-9.]+$`)
)

// ParseSize reads "4GiB", "500 MB". A unit is required.
func ParseSize(s string) (int64, error) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, core.E("recipe.size", core.Invalid, nil, "%q is not a size", clip(s)).WithHint("write a number and a unit, like 512MiB or 4GiB")
	}
	n, err := strconv.ParseFloat(m[1], 64)
	unit := map[string]float64{
		"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	}[m[2]]
	if err != nil || n*unit > 1<<60 {
		return 0, core.E("recipe.size", core.Invalid, err, "size %q is too large", clip(s))
	}
	return int64(n * unit), nil
}

// ParseDuration reads "90s", "1h30m", "2d".
func ParseDuration(s string) (time.Duration, error) {
	if m := daysForm.FindStringSubmatch(s); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n <= 3650 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, core.E("recipe.duration", core.Invalid, nil, "%q is not a length of time", clip(s)).WithHint("write a number and a unit: 90s, 30m, 8h, 2d")
	}
	return d, nil
}

// ParseReport reads "gotest", "junit:GLOB", "tap" and "tap:GLOB".
func ParseReport(s string) (Report, error) {
	kind, glob, hasGlob := strings.Cut(s, ":")
	bad := func(why string) (Report, error) {
		return Report{}, core.E("recipe.report", core.Invalid, nil, "report %q %s", clip(s), why).
			WithHint("use gotest (the command prints go test -json), junit:GLOB, tap or tap:GLOB")
	}
	switch kind {
	case "gotest":
		if hasGlob {
			return bad("must not name files: the command's standard output is read")
		}
	case "junit":
		if glob == "" {
			return bad("must name files, like junit:reports/*.xml")
		}
	case "tap":
		if hasGlob && glob == "" {
			return bad("names no files after the colon")
		}
	default:
		return bad("is not of a known kind")
	}
	if glob != "" {
		if err := checkGlob(glob); err != nil {
			return Report{}, err
		}
	}
	return Report{Kind: kind, Glob: glob}, nil
}

// checkInside accepts a relative path that stays below its root.
func checkInside(p string) bool {
	return p != "" && len(p) <= 1024 && !path.IsAbs(p) && path.Clean(p) == strings.TrimSuffix(p, "/") &&
		p != ".." && !strings.HasPrefix(p, "../") && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' })
}

func checkGlob(glob string) error {
	if !checkInside(glob) {
		return core.E("recipe.glob", core.Invalid, nil, "pattern %q is not a plain path below the workspace", clip(glob))
	}
	for segment := range strings.SplitSeq(glob, "/") {
		if segment == "**" {
			continue
		}
		if _, err := path.Match(segment, "x"); err != nil || strings.Contains(segment, "**") {
			return core.E("recipe.glob", core.Invalid, nil, "pattern %q is malformed", clip(glob)).
				WithHint("*, ? and [a-z] match within one name; ** stands alone for any directories")
		}
	}
	return nil
}

// Match reports whether a path below the workspace fits a pattern: *, ? and
// [a-z] match within one name, ** matches any number of directories.
func Match(glob, name string) bool {
	return match(strings.Split(glob, "/"), strings.Split(name, "/"))
}

func match(glob, name []string) bool {
	// row[j]: the patterns so far fit the first j names. Filling one row after
	// the other keeps patterns with many ** cheap.
	row := make([]bool, len(name)+1)
	row[0] = true
	for _, g := range glob {
		next := make([]bool, len(name)+1)
		if g == "**" {
			reached := false
			for j := range next {
				reached = reached || row[j]
				next[j] = reached
			}
		} else {
			for j := range name {
				if row[j] {
					ok, err := path.Match(g, name[j])
					next[j+1] = ok && err == nil
				}
			}
		}
		row = next
	}
	return row[len(name)]
}

// checkHost accepts an entry of a network list.
func checkHost(s string) error {
	if s == Registries {
		return nil
	}
	hint := `write a host name, "*.name", either with ":port", or the word registries`
	host, port, hasPort := strings.Cut(s, ":")
	switch {
	case strings.Contains(s, "/"):
		return core.E("recipe.host", core.Invalid, nil, "%q is not a host name", clip(s)).WithHint("%s", hint)
	case hasPort && !validPort(port):
		return core.E("recipe.host", core.Invalid, nil, "%q has a port that is not between 1 and 65535", clip(s)).WithHint("%s", hint)
	case addressForm.MatchString(host):
		return core.E("recipe.host", core.Invalid, nil, "%q is an address; hosts are allowed by name", clip(s)).WithHint("%s", hint)
	case len(host) > 253 || !hostForm.MatchString(host):
		return core.E("recipe.host", core.Invalid, nil, "%q is not a host name in lower case", clip(s)).WithHint("%s", hint)
	case host == "*" || strings.HasPrefix(host, "*.") && !strings.Contains(host[2:], "."):
		return core.E("recipe.host", core.Invalid, nil, "%q would allow too much", clip(s)).WithHint("%s", hint)
	}
	return nil
}

func validPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 1 && n <= 65535 && strconv.Itoa(n) == s
}

// checkBase accepts the forms of a base image.
func checkBase(s string) error {
	bad := func(why string) error {
		return core.E("recipe.base", core.Invalid, nil, "base %q %s", clip(s), why).
			WithHint("use debian:SUITE (debian:bookworm), an image reference (registry/name:tag or name@sha256:...), or oci-layout:DIR")
	}
	if suite, ok := strings.CutPrefix(s, "debian:"); ok {
		if !suiteForm.MatchString(suite) {
			return bad("does not name a suite of Debian")
		}
		return nil
	}
	if dir, ok := strings.CutPrefix(s, "oci-layout:"); ok {
		if !path.IsAbs(dir) || strings.ContainsFunc(dir, func(r rune) bool { return r < ' ' }) {
			return bad("must name an absolute directory")
		}
		return nil
	}
	if len(s) > 512 || !imageForm.MatchString(s) || strings.Contains(s, "//") || strings.Contains(s, "..") {
		return bad("is not an image reference")
	}
	return nil
}

func checkReady(s string) error {
	if port, ok := strings.CutPrefix(s, "tcp:"); ok {
		if !validPort(port) {
			return core.E("recipe.ready", core.Invalid, nil, "ready %q does not name a port", clip(s)).WithHint("write tcp:5432, an http URL, or a command")
		}
		return nil
	}
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		return checkURL(s)
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' }) {
		return core.E("recipe.url", core.Invalid, nil, "%q is not a http or https URL", clip(s)).WithHint("write it as the browser in the sandbox sees it, like http://127.0.0.1:3000/")
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// nearest finds the word that a misspelt one probably meant.
func nearest(word string, words []string) string {
	best, bestDistance := "", 3
	for _, w := range words {
		if d := distance(word, w); d < bestDistance && d < len(w) {
			best, bestDistance = w, d
		}
	}
	return best
}

func distance(a, b string) int {
	if len(a) > 60 || len(b) > 60 {
		return 99
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
