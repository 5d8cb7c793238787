package supervisor

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

const maxTarEntries = 2_000_000

// tarIn unpacks the body below a directory. Nothing leaves the directory: os.Root
// refuses "..", absolute names, and links that lead out.
func (s *Supervisor) tarIn(w http.ResponseWriter, r *http.Request) {
	const op = "guest.tar_in"
	dir := r.URL.Query().Get("dir")
	real, err := s.tree.target(op, dir)
	if err == nil {
		if err = s.makeParents(real); err != nil {
			err = fileErr(op, err, dir)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		s.fail(w, fileErr(op, err, dir))
		return
	}
	defer func() { _ = root.Close() }()
	owner, _ := os.Stat(real)
	if err := unpack(r.Context(), root, r.Body, owner); err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, empty{}, nil)
}

// unpack is tarIn without HTTP. Owners in the archive are not used: files
// belong to whoever the directory belongs to.
func unpack(ctx context.Context, root *os.Root, body io.Reader, owner fs.FileInfo) error {
	const op = "guest.tar_in"
	reader := tar.NewReader(body)
	type dirTime struct {
		name string
		mode fs.FileMode
		when time.Time
	}
	var dirs []dirTime // set last: a read-only directory must still be filled
	for count := 0; ; count++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if count > maxTarEntries {
			return core.E(op, core.Invalid, nil, "more than %d entries", maxTarEntries)
		}
		head, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return core.E(op, core.Invalid, err, "the archive is damaged")
		}
		name, err := cleanEntry(head.Name)
		if err != nil {
			return err
		}
		if name == "." {
			continue
		}
		if err := unpackEntry(root, name, head, reader, owner); err != nil {
			if isDiskFull(err) {
				return core.E(op, core.Exhausted, err, "entry %q", clip(head.Name, 200))
			}
			return core.E(op, core.Invalid, err, "entry %q", clip(head.Name, 200))
		}
		if head.Typeflag == tar.TypeDir {
			dirs = append(dirs, dirTime{name, fs.FileMode(head.Mode).Perm(), head.ModTime})
		}
	}
	for _, d := range slices.Backward(dirs) {
		_ = root.Chmod(d.name, d.mode|0o700)
		_ = root.Chtimes(d.name, d.when, d.when)
	}
	return nil
}

func cleanEntry(name string) (string, error) {
	clean := path.Clean(strings.TrimSuffix(name, "/"))
	if name == "" || !filepath.IsLocal(clean) && clean != "." || strings.IndexByte(name, 0) >= 0 {
		return "", core.E("guest.tar_in", core.Invalid, nil, "entry %q leaves the directory", clip(name, 200))
	}
	return clean, nil
}

func unpackEntry(root *os.Root, name string, head *tar.Header, body io.Reader, owner fs.FileInfo) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	mode := fs.FileMode(head.Mode) & fs.ModePerm
	switch head.Typeflag {
	case tar.TypeDir:
		if info, err := root.Lstat(name); err == nil && !info.IsDir() {
			if err := root.Remove(name); err != nil {
				return err
			}
		}
		if err := root.MkdirAll(name, mode|0o700); err != nil {
			return err
		}
	case tar.TypeReg:
		if err := clearName(root, name); err != nil {
			return err
		}
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, body)
		if err == nil {
			err = file.Chmod(mode)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		_ = root.Chtimes(name, head.ModTime, head.ModTime)
	case tar.TypeSymlink:
		if err := clearName(root, name); err != nil {
			return err
		}
		if err := root.Symlink(head.Linkname, name); err != nil {
			return err
		}
	case tar.TypeLink:
		to, err := cleanEntry(head.Linkname)
		if err != nil {
			return err
		}
		if err := clearName(root, name); err != nil {
			return err
		}
		return root.Link(to, name)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return core.E("guest.tar_in", core.Invalid, nil, "entries of type %q are refused", string(head.Typeflag))
	}
	if st, ok := sysOwner(owner); ok {
		_ = root.Lchown(name, st[0], st[1])
	}
	return nil
}

func sysOwner(info fs.FileInfo) ([2]int, bool) {
	if info == nil || os.Geteuid() != 0 {
		return [2]int{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 && st.Gid == 0 {
		return [2]int{}, false
	}
	return [2]int{int(st.Uid), int(st.Gid)}, true
}

// clearName makes room for an entry. A directory in its place stays and the
// entry fails.
func clearName(root *os.Root, name string) error {
	err := root.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tarOut packs files. A file that changes while it is read is padded or cut to
// the size it had; an error after the first byte breaks the connection, so
// that the reader sees an archive without an end.
func (s *Supervisor) tarOut(w http.ResponseWriter, r *http.Request) {
	const op = "guest.tar_out"
	var in guest.TarOptions
	if err := decode(r.Body, &in); err != nil {
		s.fail(w, err)
		return
	}
	real, err := s.tree.target(op, in.Dir)
	if err != nil {
		s.fail(w, err)
		return
	}
	paths := in.Paths
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for _, p := range paths {
		if !filepath.IsLocal(p) {
			s.fail(w, core.E(op, core.Invalid, nil, "path %q leaves %s", clip(p, 200), in.Dir))
			return
		}
		if _, err := os.Lstat(filepath.Join(real, p)); err != nil {
			s.fail(w, fileErr(op, err, path.Join(in.Dir, p)))
			return
		}
	}
	w.Header().Set("Content-Type", "application/x-tar")
	p := packer{tw: tar.NewWriter(w), base: real, skip: parsePatterns("", strings.NewReader(strings.Join(in.Exclude, "\n")))}
	for _, rel := range paths {
		if err := p.pack(r.Context(), path.Clean(rel)); err != nil {
			s.log.Warn("archive cut short", "dir", in.Dir, "err", err)
			panic(http.ErrAbortHandler)
		}
	}
	if err := p.tw.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
}

type packer struct {
	tw   *tar.Writer
	base string
	skip patterns
}

func (p *packer) pack(ctx context.Context, rel string) error {
	if err := p.one(rel); err != nil {
		return err
	}
	full := filepath.Join(p.base, rel)
	info, err := os.Lstat(full)
	if err != nil || !info.IsDir() {
		return nil
	}
	w := walker{hidden: true}
	w.f = func(_, below string, entry fs.DirEntry) error {
		name := path.Join(rel, below)
		if _, out := p.skip.match(name, entry.IsDir()); out {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return p.one(name)
	}
	return w.walk(ctx, full, "", 0, nil)
}

// one packs one entry; what has vanished meanwhile, and what is neither file,
// directory nor link, is left out.
func (p *packer) one(rel string) error {
	full := filepath.Join(p.base, rel)
	info, err := os.Lstat(full)
	if err != nil || rel == "." {
		return nil
	}
	link := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(full); err != nil {
			return nil
		}
	case info.IsDir(), info.Mode().IsRegular():
	default:
		return nil
	}
	head, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	head.Name = rel
	if info.IsDir() {
		head.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return p.tw.WriteHeader(head)
	}
	file, err := os.OpenFile(full, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	if err := p.tw.WriteHeader(head); err != nil {
		return err
	}
	n, err := io.Copy(p.tw, io.LimitReader(file, head.Size))
	if err != nil {
		return err
	}
	_, err = io.CopyN(p.tw, zeros{}, head.Size-n)
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
