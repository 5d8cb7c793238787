package gitcmd

import (
	"net/url"
	"path/filepath"
	"strings"

	"drydock/internal/core"
)

// CheckRef accepts a full ref name ("refs/heads/x"). The rules are git's own,
// plus a bound on length.
func CheckRef(ref string) error {
	if !strings.HasPrefix(ref, "refs/") {
		return badRef(ref, "does not begin with refs/")
	}
	return CheckBranch(ref)
}

// CheckBranch accepts a short branch or tag name.
func CheckBranch(name string) error {
	switch {
	case name == "" || len(name) > 255:
		return badRef(name, "is empty or longer than 255 bytes")
	case name == "@" || name == "HEAD":
		return badRef(name, "is reserved")
	case strings.HasPrefix(name, "-"):
		return badRef(name, "begins with a dash")
	case strings.HasSuffix(name, "/") || strings.HasSuffix(name, "."):
		return badRef(name, "ends with a slash or a dot")
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//"):
		return badRef(name, "contains .., @{ or //")
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return badRef(name, "contains a character that git forbids")
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") || part == "" {
			return badRef(name, "has a part that is empty, begins with a dot or ends with .lock")
		}
	}
	return nil
}

func badRef(ref, why string) error {
	if len(ref) > 80 {
		ref = ref[:80] + "..."
	}
	return core.E("git.ref", core.Invalid, nil, "%q is not a ref name: it %s", ref, why)
}

// IsCommitID reports whether s is a full object name in lower-case hex.
func IsCommitID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// CheckCommitID accepts a full object name.
func CheckCommitID(s string) error {
	if !IsCommitID(s) {
		if len(s) > 80 {
			s = s[:80] + "..."
		}
		return core.E("git.commit", core.Invalid, nil, "%q is not a full commit identifier", s)
	}
	return nil
}

// CheckPath accepts a path inside a tree: relative, clean, with no part that is
// "..", "." or ".git".
func CheckPath(path string) error {
	if path == "" || len(path) > 4096 || strings.ContainsRune(path, 0) {
		return core.E("git.path", core.Invalid, nil, "path is empty, longer than 4096 bytes or holds a zero byte")
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return core.E("git.path", core.Invalid, nil, "%q is not a path inside a repository", path)
		}
	}
	return nil
}

// Source is where a repository is fetched from or pushed to.
type Source struct {
	URL   string // as given to git
	Local bool   // an absolute path
}

// ParseSource accepts an absolute path, a file, http, https, ssh or git URL, or
// the scp-like form user@host:path.
func ParseSource(s string) (Source, error) {
	bad := func(why string) error {
		return core.E("git.source", core.Invalid, nil, "repository %q %s", Redact(s), why).
			WithHint("give an absolute path, an http(s) or ssh URL, or user@host:path")
	}
	if s == "" || len(s) > 4096 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Source{}, bad("is empty, too long or holds control characters")
	}
	if strings.HasPrefix(s, "-") {
		return Source{}, bad("begins with a dash")
	}
	if filepath.IsAbs(s) {
		return Source{URL: filepath.Clean(s), Local: true}, nil
	}
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		switch scheme {
		case "file":
			if !filepath.IsAbs(rest) {
				return Source{}, bad("is a file URL without an absolute path")
			}
			return Source{URL: filepath.Clean(rest), Local: true}, nil
		case "http", "https", "ssh", "git":
			u, err := url.Parse(s)
			if err != nil || u.Host == "" || strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-") {
				return Source{}, bad("is not a usable URL")
			}
			return Source{URL: s}, nil
		}
		return Source{}, bad("has a scheme that is not supported")
	}
	host, path, ok := strings.Cut(s, ":")
	if !ok || host == "" || path == "" || strings.ContainsAny(host, "/ ") || strings.Contains(path, "::") || strings.HasPrefix(path, ":") {
		return Source{}, bad("is neither a path nor a URL")
	}
	return Source{URL: s}, nil
}
