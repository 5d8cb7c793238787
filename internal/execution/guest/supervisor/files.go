package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

func (s *Supervisor) fileRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/file", s.readFile)
	mux.HandleFunc("PUT /v1/file", s.writeFile)
	mux.HandleFunc("POST /v1/stat", call(s, func(_ context.Context, in guest.PathRequest) (guest.FileInfo, error) {
		return s.stat(in.Path)
	}))
	mux.HandleFunc("POST /v1/list", call(s, func(ctx context.Context, in guest.PathRequest) ([]guest.FileInfo, error) {
		res, err := s.walk(ctx, guest.WalkOptions{Dir: in.Path, Depth: 1})
		return res.Files, err
	}))
	mux.HandleFunc("POST /v1/walk", call(s, s.walk))
	mux.HandleFunc("POST /v1/remove", call(s, func(_ context.Context, in guest.PathRequest) (empty, error) {
		return empty{}, s.remove(in)
	}))
	mux.HandleFunc("POST /v1/mkdir", call(s, func(_ context.Context, in guest.PathRequest) (empty, error) {
		return empty{}, s.mkdir(in)
	}))
	mux.HandleFunc("POST /v1/rename", call(s, func(_ context.Context, in guest.PathRequest) (empty, error) {
		return empty{}, s.rename(in)
	}))
	mux.HandleFunc("POST /v1/symlink", call(s, func(_ context.Context, in guest.PathRequest) (empty, error) {
		return empty{}, s.symlink(in)
	}))
	mux.HandleFunc("PUT /v1/tar", s.tarIn)
	mux.HandleFunc("POST /v1/tar", s.tarOut)
	mux.HandleFunc("POST /v1/search", call(s, s.search))
}

const infoHeader = "Drydock-File"

func describe(path string, info fs.FileInfo, target string) guest.FileInfo {
	return guest.FileInfo{Path: path, Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime().UTC(), Target: target}
}

func (s *Supervisor) stat(path string) (guest.FileInfo, error) {
	const op = "guest.stat"
	real, err := s.tree.path(op, path)
	if err != nil {
		return guest.FileInfo{}, err
	}
	info, err := os.Lstat(real)
	if err != nil {
		return guest.FileInfo{}, fileErr(op, err, path)
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		target, _ = os.Readlink(real)
	}
	return describe(filepath.Clean(path), info, target), nil
}

// readFile sends bytes [offset, offset+limit) of a regular file; its size is
// in a header, so that the reader knows whether there is more.
func (s *Supervisor) readFile(w http.ResponseWriter, r *http.Request) {
	const op = "guest.read"
	path := r.URL.Query().Get("path")
	offset, err1 := intOf(r, "offset", 0, math.MaxInt64)
	limit, err2 := intOf(r, "limit", guest.MaxRead, guest.MaxRead)
	real, err3 := s.tree.target(op, path)
	if err := errors.Join(err1, err2, err3); err != nil {
		s.fail(w, core.E(op, core.Invalid, err, ""))
		return
	}
	// Without O_NONBLOCK a named pipe would hold the request for ever.
	file, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		s.fail(w, fileErr(op, err, path))
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		s.fail(w, fileErr(op, err, path))
		return
	}
	if !info.Mode().IsRegular() {
		s.fail(w, core.E(op, core.Invalid, nil, "%s is not a regular file (%s)", path, info.Mode().Type()))
		return
	}
	raw, _ := json.Marshal(describe(filepath.Clean(path), info, ""))
	w.Header().Set(infoHeader, string(raw))
	w.Header().Set("Content-Type", "application/octet-stream")
	if info.Size() > 0 { // files below /proc say 0 and hold something
		w.Header().Set("Content-Length", strconv.FormatInt(max(0, min(limit, info.Size()-offset)), 10))
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		s.fail(w, fileErr(op, err, path))
		return
	}
	n, err := io.Copy(w, io.LimitReader(file, min(limit, max(limit, 0))))
	if err != nil {
		s.log.Debug("read cut short", "path", path, "bytes", n, "err", err)
	}
}

// writeFile replaces a file atomically; its parents are made.
func (s *Supervisor) writeFile(w http.ResponseWriter, r *http.Request) {
	const op = "guest.write"
	path := r.URL.Query().Get("path")
	mode, err := intOf(r, "mode", 0, 0o7777)
	if err != nil {
		s.fail(w, err)
		return
	}
	var user *account // of what is new
	if name := r.URL.Query().Get("user"); name != "" {
		acc, err := s.tree.account(name)
		if err != nil {
			s.fail(w, err)
			return
		}
		user = &acc
	}
	real, err := s.tree.target(op, path)
	if err == nil && s.tree.isSlash() {
		// A link is followed, as by an editor: the file it points to changes.
		if final, evalErr := filepath.EvalSymlinks(real); evalErr == nil {
			real = final
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	if err := s.makeParentsAs(user, filepath.Dir(real)); err != nil {
		s.fail(w, fileErr(op, err, path))
		return
	}
	info, err := s.replaceFile(user, real, fs.FileMode(mode), r.Body)
	if err != nil {
		s.fail(w, fileErr(op, err, path))
		return
	}
	s.reply(w, describe(filepath.Clean(path), info, ""), nil)
}

// replaceFile writes beside the file and renames. Mode 0 keeps the mode of the
// file that is replaced, or means 0644; the owner is kept too, or is user, or
// where that is nil the owner of the directory.
func (s *Supervisor) replaceFile(user *account, real string, mode fs.FileMode, body io.Reader) (info fs.FileInfo, err error) {
	old, err := os.Stat(real)
	switch {
	case err == nil && old.IsDir():
		return nil, &fs.PathError{Op: "write", Path: real, Err: syscall.EISDIR}
	case err == nil && !old.Mode().IsRegular():
		return nil, &fs.PathError{Op: "write", Path: real, Err: syscall.EINVAL}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir := filepath.Dir(real)
	tmp, err := os.CreateTemp(dir, ".drydock-tmp-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = tmp.Close()
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = io.Copy(tmp, body); err != nil {
		return nil, err
	}
	if mode == 0 {
		mode = 0o644
		if old != nil {
			mode = old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
		}
	}
	if old != nil {
		chownLike(tmp.Chown, old)
	} else if err = give(tmp.Chown, user, dir); err != nil {
		return nil, err
	}
	if err = tmp.Chmod(mode); err != nil {
		return nil, err
	}
	if err = tmp.Close(); err != nil {
		return nil, err
	}
	if err = os.Rename(tmp.Name(), real); err != nil {
		return nil, err
	}
	return os.Lstat(real)
}

// chownLike gives a file the owner that like has, where that is possible.
func chownLike(chown func(uid, gid int) error, like fs.FileInfo) {
	if like == nil || os.Geteuid() != 0 {
		return
	}
	if st, ok := like.Sys().(*syscall.Stat_t); ok && (st.Uid != 0 || st.Gid != 0) {
		_ = chown(int(st.Uid), int(st.Gid))
	}
}

// give makes what is new in a directory the user's, or the owner's of the
// directory.
func give(chown func(uid, gid int) error, user *account, dir string) error {
	if user != nil && os.Geteuid() == 0 {
		return chown(int(user.uid), int(user.gid))
	}
	if above, err := os.Stat(dir); err == nil {
		chownLike(chown, above)
	}
	return nil
}

// makeParents is MkdirAll, where new directories take over the owner of the
// one above.
func (s *Supervisor) makeParents(dir string) error { return s.makeParentsAs(nil, dir) }

// makeParentsAs is makeParents, where new directories belong to a user.
func (s *Supervisor) makeParentsAs(user *account, dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
		return err
	}
	parent := filepath.Dir(dir)
	if err := s.makeParentsAs(user, parent); err != nil {
		return err
	}
	// By descriptor: who owns the directory above can put another one there
	// between the two steps.
	above, err := unix.Open(parent, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: parent, Err: err}
	}
	defer unix.Close(above)
	name := filepath.Base(dir)
	if err := unix.Mkdirat(above, name, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // by somebody else, just now
		}
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	return give(func(uid, gid int) error {
		return unix.Fchownat(above, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	}, user, parent)
}

func (s *Supervisor) mkdir(in guest.PathRequest) error {
	const op = "guest.mkdir"
	real, err := s.tree.target(op, in.Path)
	if err != nil {
		return err
	}
	if err := s.makeParents(real); err != nil {
		return fileErr(op, err, in.Path)
	}
	if in.Mode != 0 {
		if err := os.Chmod(real, in.Mode&(fs.ModePerm|fs.ModeSticky|fs.ModeSetgid)); err != nil {
			return fileErr(op, err, in.Path)
		}
	}
	return nil
}

// remove succeeds when there is nothing.
func (s *Supervisor) remove(in guest.PathRequest) error {
	const op = "guest.remove"
	real, err := s.tree.path(op, in.Path)
	if err != nil {
		return err
	}
	if real == s.tree.root {
		return core.E(op, core.Invalid, nil, "the root cannot be removed")
	}
	if in.Recursive {
		err = os.RemoveAll(real)
	} else {
		err = os.Remove(real)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileErr(op, err, in.Path)
	}
	return nil
}

func (s *Supervisor) rename(in guest.PathRequest) error {
	const op = "guest.rename"
	from, err := s.tree.path(op, in.Path)
	if err != nil {
		return err
	}
	to, err := s.tree.path(op, in.To)
	if err != nil {
		return err
	}
	if err := s.makeParents(filepath.Dir(to)); err != nil {
		return fileErr(op, err, in.To)
	}
	if err := os.Rename(from, to); err != nil {
		return fileErr(op, err, in.Path)
	}
	return nil
}

func (s *Supervisor) symlink(in guest.PathRequest) error {
	const op = "guest.symlink"
	real, err := s.tree.path(op, in.Path)
	if err != nil {
		return err
	}
	if in.To == "" || strings.IndexByte(in.To, 0) >= 0 {
		return core.E(op, core.Invalid, nil, "a link to nothing at %s", in.Path)
	}
	if err := s.makeParents(filepath.Dir(real)); err != nil {
		return fileErr(op, err, in.Path)
	}
	if err := os.Symlink(in.To, real); err != nil {
		return fileErr(op, err, in.Path)
	}
	return nil
}
