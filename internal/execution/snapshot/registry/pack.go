package registry

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/image"
)

const (
	whiteoutPrefix = ".wh."
	whiteoutOpaque = ".wh..wh..opq"

	// What the other end takes.
	maxPath  = 4095
	maxDepth = 199
)

// packer writes one layer as tar.
type packer struct {
	ctx  context.Context //nolint:containedctx // of one run
	v    *view           // the layer, and those below it
	w    *tar.Writer
	warn func(string)

	links map[inode]string // files with several names: the first one written
	zero  []byte
	buf   []byte
}

type inode struct{ dev, ino uint64 }

// pack writes the topmost of some layers to w. The same layer on the same ones
// gives the same bytes.
//
// A directory that was renamed has its content in the layers below, where OCI
// knows no way to point to: it is written in full under its new name. Its old
// name is removed by the whiteout that overlayfs left there.
func pack(ctx context.Context, w io.Writer, layers []string, warn func(string)) error {
	v, err := openView(layers)
	if err != nil {
		return core.E("snapshot.pack", core.Unavailable, err, "layer of a snapshot")
	}
	defer v.close()
	p := &packer{ctx: ctx, v: v, w: tar.NewWriter(w), warn: warn, links: map[inode]string{}, zero: make([]byte, 256<<10), buf: make([]byte, 256<<10)}
	if err := p.layer(".", false); err != nil {
		return err
	}
	return p.w.Close()
}

// layer writes what the topmost layer has in a directory. Alone says that
// nothing below shows through.
func (p *packer) layer(at string, alone bool) error {
	d, err := p.v.open(part{0, at})
	if err != nil {
		return p.fault(at, err)
	}
	defer d.Close()
	names, err := d.names()
	if err != nil {
		return p.fault(at, err)
	}
	for _, name := range names {
		full := path.Join(at, name)
		st, ok, err := d.stat(name)
		if err != nil || !ok {
			return p.fault(full, errors.Join(err, errors.New("it vanished")))
		}
		if isWhiteout(st) {
			if alone {
				continue
			}
			if err := p.mark(path.Join(at, whiteoutPrefix+name)); err != nil {
				return err
			}
			continue
		}
		if err := p.entry(d, name, full, st); err != nil {
			return err
		}
		if kind(st) != unix.S_IFDIR || !sayable(name) {
			continue
		}
		if err := p.inside(d, name, full, alone); err != nil {
			return err
		}
	}
	return nil
}

// inside writes the content of a directory of the layer.
func (p *packer) inside(d *directory, name, full string, alone bool) error {
	opaque, err := d.attr(name, opaqueAttr)
	if err != nil {
		return p.fault(full, err)
	}
	redirect, err := d.attr(name, redirectAttr)
	if err != nil {
		return p.fault(full, err)
	}
	switch {
	case opaque == "y":
		if !alone {
			if err := p.mark(path.Join(full, whiteoutOpaque)); err != nil {
				return err
			}
		}
		return p.layer(full, true)
	case redirect != "":
		found, ok, err := p.v.find(full)
		if err != nil || !ok {
			return p.fault(full, errors.Join(err, errors.New("it cannot be followed")))
		}
		if !alone {
			if err := p.mark(path.Join(full, whiteoutOpaque)); err != nil {
				return err
			}
		}
		return p.merged(found.parts, full)
	}
	return p.layer(full, alone)
}

// merged writes a directory as it is seen, of all layers.
func (p *packer) merged(parts []part, full string) error {
	names, err := p.v.list(parts)
	if err != nil {
		return p.fault(full, err)
	}
	for _, name := range names {
		at := path.Join(full, name)
		found, ok, err := p.v.lookup(parts, name)
		if err != nil || !ok {
			return p.fault(at, errors.Join(err, errors.New("it vanished")))
		}
		d, err := p.v.open(part{found.at.layer, path.Dir(found.at.path)})
		if err != nil {
			return p.fault(at, err)
		}
		err = p.entry(d, path.Base(found.at.path), at, found.stat)
		_ = d.Close()
		if err != nil {
			return err
		}
		if kind(found.stat) == unix.S_IFDIR && sayable(name) {
			if err := p.merged(found.parts, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// sayable says whether OCI can express a name: the prefix means something.
func sayable(name string) bool { return !strings.HasPrefix(name, whiteoutPrefix) }

func (p *packer) fault(name string, err error) error {
	if err == nil {
		return nil
	}
	return core.E("snapshot.pack", core.KindOf(err), err, "cannot pack %.200q", name)
}

// mark writes an empty file that stands for something removed.
func (p *packer) mark(name string) error {
	return p.header(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Format: tar.FormatPAX})
}

func (p *packer) header(h *tar.Header) error {
	if err := p.ctx.Err(); err != nil {
		return core.E("snapshot.pack", core.KindOf(err), err, "")
	}
	if len(h.Name) > maxPath || strings.Count(h.Name, "/") > maxDepth {
		return core.E("snapshot.pack", core.Invalid, nil, "%.200q lies deeper than any program could unpack it", h.Name).
			WithHint("remove it, and take the snapshot again")
	}
	return p.fault(h.Name, p.w.WriteHeader(h))
}

// entry writes one file of any kind; the content of a directory follows.
func (p *packer) entry(d *directory, name, full string, st unix.Stat_t) error {
	if !sayable(path.Base(full)) {
		p.warn(fmt.Sprintf("%.200q is left out: images cannot hold a file of such a name", full))
		return nil
	}
	h := &tar.Header{
		Name: full, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()), Format: tar.FormatPAX,
	}
	if st.Nlink > 1 && kind(st) != unix.S_IFDIR {
		id := inode{st.Dev, st.Ino}
		if first, ok := p.links[id]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return p.header(h)
		}
		p.links[id] = full
	}
	var err error
	switch kind(st) {
	case unix.S_IFSOCK:
		delete(p.links, inode{st.Dev, st.Ino})
		return nil // means nothing without the process
	case unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, full+"/"
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
		buf := make([]byte, 4096)
		n, err := unix.Readlinkat(int(d.Fd()), name, buf)
		if err != nil {
			return p.fault(full, err)
		}
		h.Linkname = string(buf[:n])
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if kind(st) == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	default:
		h.Typeflag, h.Size = tar.TypeReg, st.Size
	}
	if h.PAXRecords, err = p.attrs(d, name); err != nil {
		return p.fault(full, err)
	}
	if err := p.header(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	return p.fault(full, p.content(d, name, st))
}

// attrs are those that mean something elsewhere.
func (p *packer) attrs(d *directory, name string) (map[string]string, error) {
	n, err := unix.Llistxattr(d.at(name), p.buf)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out map[string]string
	for attr := range strings.SplitSeq(strings.TrimSuffix(string(p.buf[:n]), "\x00"), "\x00") {
		if attr == metacopyAttr {
			return nil, errors.New("its content is in another layer (metacopy)")
		}
		if !image.KeepAttr(attr) || strings.ContainsRune(attr, '=') { // PAX cannot say such a name
			continue
		}
		value, err := d.attr(name, attr)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]string{}
		}
		out["SCHILY.xattr."+attr] = value
	}
	return out, nil
}

// content writes a file; holes are not read.
func (p *packer) content(d *directory, name string, st unix.Stat_t) error {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var at int64
	for at < st.Size {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		data, hole := at, st.Size
		if st.Blocks*512 < st.Size {
			data, hole = nextData(f, at, st.Size)
		}
		for at < data {
			n, err := p.w.Write(p.zero[:min(int64(len(p.zero)), data-at)])
			if at += int64(n); err != nil {
				return err
			}
		}
		for at < hole {
			n, err := f.ReadAt(p.buf[:min(int64(len(p.buf)), hole-at)], at)
			if n == 0 {
				return errors.Join(err, errors.New("it changed while it was read"))
			}
			if _, err := p.w.Write(p.buf[:n]); err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return nil
}

// nextData finds where data begins and ends, from a position on.
func nextData(f *os.File, at, size int64) (data, hole int64) {
	data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size
	case err != nil:
		return at, size
	}
	hole, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
	if err != nil {
		hole = size
	}
	return min(data, size), min(hole, size)
}
