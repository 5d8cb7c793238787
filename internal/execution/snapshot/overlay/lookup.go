package overlay

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

type kind int

const (
	nothing kind = iota
	whiteout
	file
	directory
)

// found is what overlayfs finds under a name.
type found struct {
	name string
	kind kind
	at   place   // of a file
	dirs []place // of a directory, topmost first
	on   string  // the name it is looked for under in the layers below those that are merged
}

// search is the state of one lookup (struct ovl_lookup_data).
type search struct {
	m      *merger
	name   string // a name in the same directory, or an absolute path
	dir    bool   // a directory was found
	stop   bool   // nothing below counts
	hidden bool   // stopped by a whiteout
	jump   bool   // the redirect just found is absolute
}

var errForeign = errors.New("it was made by another kind of overlay")

// find looks a name up in a directory that lies in places (ovl_lookup).
func (m *merger) find(places []place, name string) (found, error) {
	s := &search{m: m, name: name}
	out := found{name: name, on: name}
	stack, rooted, crossed := places, false, false
	for i := 0; i < len(stack) && !s.stop; i++ {
		p := stack[i]
		if p.layer >= m.count && !crossed {
			crossed, out.on = true, s.name
		}
		s.jump = false
		path, isDir, err := s.layer(p)
		if err != nil {
			return out, err
		}
		if path == "" {
			if s.hidden && out.kind == nothing {
				out.kind = whiteout
			}
			continue
		}
		here := place{p.layer, path}
		if !isDir {
			out.kind, out.at = file, here
			return out, nil
		}
		out.kind = directory
		out.dirs = append(out.dirs, here)
		if s.jump && !rooted {
			rooted = true
			stack, i = m.all(), p.layer
		}
	}
	return out, nil
}

// all are the roots of every layer.
func (m *merger) all() []place {
	out := make([]place, len(m.roots))
	for i := range out {
		out[i].layer = i
	}
	return out
}

// layer looks in one layer (ovl_lookup_layer): "" is not there.
func (s *search) layer(p place) (path string, isDir bool, err error) {
	if !strings.HasPrefix(s.name, "/") {
		return s.single(p.layer, p.path, s.name, 0, "")
	}
	// Counted from the end, since a redirect on the way changes the beginning.
	rest := len(s.name) - 1
	base := ""
	for {
		at := len(s.name) - rest
		this, after, more := strings.Cut(s.name[at:], "/")
		post := ""
		if more {
			post = "/" + after
		}
		path, isDir, err = s.single(p.layer, base, this, at, post)
		if err != nil || path == "" || !more {
			return path, isDir, err
		}
		base = path
		rest -= len(this) + 1
	}
}

// single looks for one component (ovl_lookup_single). before is the length of
// what precedes it in s.name, post what follows.
func (s *search) single(layer int, base, name string, before int, post string) (path string, isDir bool, err error) {
	path = join(base, name)
	root := int(s.m.roots[layer].Fd())
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: inside})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	var st unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &st), unix.Close(fd))
	if err != nil {
		return "", false, err
	}
	last := post == ""
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			s.stop, s.hidden = true, true
			return "", false, nil
		}
	case unix.S_IFDIR:
		s.dir = s.dir || last
		return path, true, s.follow(layer, path, before, post)
	}
	s.stop = true
	if s.dir || !last {
		return "", false, nil
	}
	return path, false, nil
}

// follow reads what a directory says of the layers below it.
func (s *search) follow(layer int, path string, before int, post string) error {
	dir, err := s.m.open(place{layer, path})
	if err != nil {
		return err
	}
	defer dir.Close()
	switch value, err := getXattr(dir, xattrOpaque); {
	case err == nil && string(value) == "y":
		s.stop = true
		return nil
	case err == nil:
		return fmt.Errorf("%w (%s is %q)", errForeign, xattrOpaque, value)
	case !absent(err):
		return err
	}
	value, err := getXattr(dir, xattrRedirect)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	to := string(value)
	if abs := strings.HasPrefix(to, "/"); abs {
		if strings.Contains(to, "//") || strings.HasSuffix(to, "/") || strings.ContainsRune(to, 0) {
			return fmt.Errorf("%w (%s is %q)", errForeign, xattrRedirect, to)
		}
		// It counts also where an opaque directory on the way had ended the search.
		s.jump, s.stop = true, false
		s.name = to + post
	} else {
		if to == "" || strings.ContainsAny(to, "/\x00") {
			return fmt.Errorf("%w (%s is %q)", errForeign, xattrRedirect, to)
		}
		s.name = s.name[:before] + to + post
	}
	return nil
}

func absent(err error) bool { return errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) }
