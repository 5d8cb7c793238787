package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"drydock/internal/core"
)

// tree turns paths of the sandbox into paths of the kernel. In a sandbox both
// are the same. Below another root (the fake driver) links are followed here,
// so that an absolute one stays below the root; that is good enough for tests
// and no border against an attacker.
type tree struct{ root string }

func (t tree) isSlash() bool { return t.root == "/" }

// abs cleans a path of the sandbox; it must be absolute.
func (t tree) abs(op, path string) (string, error) {
	if path == "" || path[0] != '/' || strings.IndexByte(path, 0) >= 0 || len(path) > 4096 {
		return "", core.E(op, core.Invalid, nil, "path %q is not absolute", clip(path, 200))
	}
	return filepath.Clean(path), nil
}

// path is where the kernel finds p; the last element is not followed.
func (t tree) path(op, p string) (string, error) {
	clean, err := t.abs(op, p)
	if err != nil || t.isSlash() {
		return clean, err
	}
	if clean == "/" {
		return t.root, nil
	}
	dir, err := t.follow(op, filepath.Dir(clean), 0)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(clean)), nil
}

// target is like path, with the last element followed as well.
func (t tree) target(op, p string) (string, error) {
	clean, err := t.abs(op, p)
	if err != nil || t.isSlash() {
		return clean, err
	}
	return t.follow(op, clean, 0)
}

func (t tree) follow(op, clean string, links int) (string, error) {
	inside := "/"
	parts := strings.Split(strings.TrimPrefix(clean, "/"), "/")
	for i, part := range parts {
		if part == "" {
			continue
		}
		next := filepath.Join(inside, part)
		link, err := os.Readlink(filepath.Join(t.root, next))
		if err != nil {
			inside = next
			continue
		}
		if links++; links > 40 {
			return "", core.E(op, core.Invalid, nil, "path %q has too many links", clean)
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(inside, link)
		}
		rest := filepath.Join(append([]string{"/", link}, parts[i+1:]...)...)
		return t.follow(op, rest, links)
	}
	return filepath.Join(t.root, inside), nil
}

// inside is the reverse of path.
func (t tree) inside(real string) string {
	if t.isSlash() {
		return real
	}
	rel, err := filepath.Rel(t.root, real)
	if err != nil || rel == "." {
		return "/"
	}
	return "/" + rel
}

// fileErr gives an error of the file system its kind.
func fileErr(op string, err error, path string) error {
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &pathErr):
		err = pathErr.Err
	case errors.As(err, &linkErr):
		err = linkErr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return core.E(op, core.NotFound, nil, "%s does not exist", path)
	case errors.Is(err, syscall.ENOTEMPTY):
		return core.E(op, core.Conflict, nil, "directory %s is not empty", path)
	case errors.Is(err, fs.ErrExist):
		return core.E(op, core.Conflict, nil, "%s exists already", path)
	case isDiskFull(err):
		return core.E(op, core.Exhausted, err, "%s", path)
	}
	return core.E(op, core.Invalid, err, "%s", path)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
