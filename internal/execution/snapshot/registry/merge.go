package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	opaqueAttr   = "trusted.overlay.opaque"
	redirectAttr = "trusted.overlay.redirect"
	metacopyAttr = "trusted.overlay.metacopy"
)

// view reads a chain of layers as overlayfs shows it, renamed directories
// included. Layers do not change while it is used; what is in them is hostile
// all the same: no symbolic link is ever followed.
type view struct {
	layers []*os.Root // topmost first
}

func openView(dirs []string) (*view, error) {
	v := &view{}
	for _, dir := range dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			v.close()
			return nil, err
		}
		v.layers = append(v.layers, root)
	}
	return v, nil
}

func (v *view) close() {
	for _, r := range v.layers {
		_ = r.Close()
	}
}

// part is a directory of one layer; several of them, topmost first, make a
// directory as it is seen.
type part struct {
	layer int
	path  string
}

// directory is one that is open for looking at its entries.
type directory struct {
	*os.File
	part
}

func (v *view) open(p part) (*directory, error) {
	f, err := v.layers[p.layer].OpenFile(p.path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &directory{f, p}, nil
}

// stat of an entry; ok is false where there is none.
func (d *directory) stat(name string) (st unix.Stat_t, ok bool, err error) {
	err = unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENAMETOOLONG) {
		return st, false, nil
	}
	return st, err == nil, err
}

func (d *directory) names() ([]string, error) {
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// at is a path by which system calls reach an entry without following it.
func (d *directory) at(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name)
}

// attr reads an attribute of an entry, "" where it has none.
func (d *directory) attr(name, attr string) (string, error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Lgetxattr(d.at(name), attr, buf)
		switch {
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
			return "", nil
		case errors.Is(err, unix.ERANGE) && len(buf) < 1<<16:
			buf = make([]byte, 1<<16)
		case err != nil:
			return "", &fs.PathError{Op: "getxattr", Path: path.Join(d.path, name), Err: err}
		default:
			return string(buf[:n]), nil
		}
	}
}

func kind(st unix.Stat_t) uint32 { return st.Mode & unix.S_IFMT }

func isWhiteout(st unix.Stat_t) bool { return kind(st) == unix.S_IFCHR && st.Rdev == 0 }

// seen is what a name means in a view.
type seen struct {
	stat  unix.Stat_t
	at    part   // of the entry itself, in the topmost layer that has it
	parts []part // of a directory
}

// lookup finds a name in a directory as it is seen; ok is false where there is
// nothing. It follows overlayfs in every step: a whiteout, a file or an opaque
// directory ends the search, a redirect changes what is searched for below.
func (v *view) lookup(parts []part, name string) (out seen, ok bool, err error) {
	elems := []string{name}
	rooted := false
	for i := 0; i < len(parts); i++ {
		base := parts[i]
		step, err := v.step(base, elems)
		if err != nil {
			return out, false, err
		}
		if step.found {
			if kind(step.stat) != unix.S_IFDIR {
				if !ok {
					return seen{stat: step.stat, at: step.at}, true, nil
				}
				return out, true, nil
			}
			if !ok {
				out.stat, out.at, ok = step.stat, step.at, true
			}
			out.parts = append(out.parts, step.at)
		}
		if step.stop {
			return out, ok, nil
		}
		if step.redirect == nil {
			continue
		}
		elems = step.redirect
		if step.rooted && !rooted {
			// From the root of every layer below this one.
			rooted = true
			parts, i = nil, -1
			for l := base.layer + 1; l < len(v.layers); l++ {
				parts = append(parts, part{l, "."})
			}
		}
	}
	return out, ok, nil
}

// step is what one layer says of a path.
type step struct {
	found    bool
	stat     unix.Stat_t
	at       part
	stop     bool     // nothing below shows through
	redirect []string // what to look for below, if it is something else
	rooted   bool     // from the root
}

func (v *view) step(base part, elems []string) (s step, err error) {
	at := base.path
	var below []string // the way here, as the layers below know it
	for i, elem := range elems {
		below = append(below, elem)
		last := i == len(elems)-1
		d, err := v.open(part{base.layer, at})
		if err != nil {
			return s, err
		}
		st, ok, err := d.stat(elem)
		var opaque, redirect string
		if err == nil && ok && kind(st) == unix.S_IFDIR {
			if opaque, err = d.attr(elem, opaqueAttr); err == nil {
				redirect, err = d.attr(elem, redirectAttr)
			}
		}
		_ = d.Close()
		switch {
		case err != nil:
			return s, err
		case !ok:
			return s, nil
		case isWhiteout(st):
			s.stop = true
			return s, nil
		}
		at = path.Join(at, elem)
		if kind(st) != unix.S_IFDIR {
			s.stop, s.found = true, last
			s.stat, s.at = st, part{base.layer, at}
			return s, nil
		}
		if last {
			s.found, s.stat, s.at = true, st, part{base.layer, at}
		}
		if opaque == "y" {
			s.stop = true
			continue
		}
		if redirect == "" {
			continue
		}
		target, rooted, err := parseRedirect(redirect)
		if err != nil {
			return s, fmt.Errorf("directory %q: %w", at, err)
		}
		if rooted {
			s.rooted, below = true, target
		} else {
			below[len(below)-1] = target[0]
		}
		s.redirect = slices.Concat(below, elems[i+1:])
	}
	return s, nil
}

var errRedirect = errors.New("it is redirected to something that is no name")

// parseRedirect reads what overlayfs notes on a renamed directory: its old
// name, or with a slash before it its old path.
func parseRedirect(text string) (elems []string, rooted bool, err error) {
	rooted = strings.HasPrefix(text, "/")
	for elem := range strings.SplitSeq(strings.TrimPrefix(text, "/"), "/") {
		if elem == "" || elem == "." || elem == ".." || len(elem) > 255 || strings.ContainsRune(elem, 0) {
			return nil, false, errRedirect
		}
		elems = append(elems, elem)
	}
	if !rooted && len(elems) != 1 || len(elems) > maxDepth {
		return nil, false, errRedirect
	}
	return elems, rooted, nil
}

// find follows a path from the root of the view.
func (v *view) find(name string) (seen, bool, error) {
	out := seen{at: part{0, "."}, parts: v.roots()}
	if name == "." {
		return out, true, nil
	}
	for elem := range strings.SplitSeq(name, "/") {
		var ok bool
		var err error
		if out, ok, err = v.lookup(out.parts, elem); err != nil || !ok {
			return out, false, err
		}
	}
	return out, true, nil
}

func (v *view) roots() []part {
	parts := make([]part, len(v.layers))
	for i := range parts {
		parts[i] = part{i, "."}
	}
	return parts
}

// list names everything that is seen in a directory, sorted.
func (v *view) list(parts []part) ([]string, error) {
	hidden := map[string]bool{} // decided by a layer above
	var out []string
	for _, p := range parts {
		d, err := v.open(p)
		if err != nil {
			return nil, err
		}
		names, err := d.names()
		for _, name := range names {
			if err != nil {
				break
			}
			if hidden[name] {
				continue
			}
			hidden[name] = true
			var st unix.Stat_t
			var ok bool
			if st, ok, err = d.stat(name); err == nil && ok && !isWhiteout(st) {
				out = append(out, name)
			}
		}
		_ = d.Close()
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return out, nil
}
