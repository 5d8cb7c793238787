package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

const (
	maxOpensTime = 4 * time.Hour
	maxWhy       = 5 // reasons told

	// Everything that happens to a file counts, not only IN_OPEN: a descriptor
	// from before the watch shows itself by IN_ACCESS or IN_CLOSE, a rename or a
	// new name by IN_MOVE_SELF or IN_ATTRIB.
	opensMask = unix.IN_ALL_EVENTS
)

// opens owns the watches of files. A watch is what inotify tells of the files,
// together with a comparison of what their paths name at the start and at the
// end.
//
// Noticed, on Linux and in gVisor: every open of the file by whatever name,
// also to execute it; reads through descriptors from before the watch. Not
// noticed by inotify, and so a reason not to be complete: a descriptor or a
// mapping of the file that a process has at the start (a mapping is read
// without a call); a file with several names; a symbolic link, whose content
// readlink(2) reads in silence. gVisor raises no IN_ATTRIB for link(2) on the
// root file system: the number of names is compared, and the new name leads to
// the same watch.
//
// Never noticed: stat(2), and the listing of a directory; content that was
// read before the watch and kept in a cache, a copy or the memory of a process;
// the same content from elsewhere, such as the objects of git; what is mapped
// of a descriptor that lay in a socket while the watch started.
type opens struct {
	limit time.Duration // of one watch

	mu     sync.Mutex
	closed bool
	list   []*openWatch // by start
}

// openWatch is one watch. Its goroutine owns files, byWD and why; result may be
// read when done is closed.
type openWatch struct {
	id     guest.OpensID
	files  []openFile
	byWD   map[int][]int // descriptors of inotify to places in files
	notify *os.File
	why    []string
	asked  atomic.Bool // to end, by who began it
	done   chan struct{}
	result guest.Opens
}

type openFile struct {
	given, real string
	before      fileMark
	opened      bool
}

// fileMark is what shows that a path names another file, or that somebody
// changed it.
type fileMark struct {
	dev, ino, nlink uint64
	mode            uint32
	size            int64
	mtime, ctime    syscall.Timespec
}

func markOf(real string) (fileMark, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(real, &st); err != nil {
		return fileMark{}, err
	}
	return fileMark{
		dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), mode: st.Mode, size: st.Size, mtime: st.Mtim, ctime: st.Ctim,
	}, nil
}

func (s *Supervisor) opensRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/opens", call(s, func(_ context.Context, in guest.OpensRequest) (guest.OpensRef, error) {
		return s.watchOpens(in)
	}))
	mux.HandleFunc("POST /v1/opens/stop", call(s, s.stopOpens))
}

// checkOpens looks at the form of a request alone.
func checkOpens(in guest.OpensRequest) error {
	const op = "guest.opens"
	if len(in.Paths) == 0 || len(in.Paths) > guest.MaxOpens {
		return core.E(op, core.Invalid, nil, "%d paths to watch, it must be 1 to %d", len(in.Paths), guest.MaxOpens)
	}
	for _, p := range in.Paths {
		if _, err := (tree{root: "/"}).abs(op, p); err != nil {
			return err
		}
	}
	return nil
}

// watchOpens starts a watch; when it returns, nothing goes unnoticed any more.
func (s *Supervisor) watchOpens(in guest.OpensRequest) (guest.OpensRef, error) {
	const op = "guest.opens"
	if err := checkOpens(in); err != nil {
		return guest.OpensRef{}, err
	}
	s.opens.mu.Lock()
	defer s.opens.mu.Unlock()
	if err := s.opens.room(); err != nil {
		return guest.OpensRef{}, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return guest.OpensRef{}, core.E(op, core.Exhausted, err, "no watch of files is to be had")
	}
	w := &openWatch{
		id: guest.OpensID(strings.ToLower(rand.Text())), byWD: map[int][]int{},
		notify: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}),
	}
	for _, p := range in.Paths {
		if err := w.add(s.tree, fd, p); err != nil {
			_ = w.notify.Close()
			return guest.OpensRef{}, err
		}
	}
	w.lookAround(s.ours())
	// The deadline is the limit, and what stops the goroutine before it.
	if err := w.notify.SetReadDeadline(time.Now().Add(s.opens.limit)); err != nil {
		_ = w.notify.Close()
		return guest.OpensRef{}, core.E(op, core.Internal, err, "a watch of files cannot be waited for")
	}
	s.opens.list = append(s.opens.list, w)
	s.wg.Go(w.run)
	return guest.OpensRef{ID: w.id}, nil
}

// room makes a place for one more, that of a finished watch if need be.
func (o *opens) room() error {
	const op = "guest.opens"
	if o.closed {
		return core.E(op, core.Unavailable, nil, "the sandbox is ending")
	}
	if len(o.list) < guest.MaxWatches {
		return nil
	}
	for i, w := range o.list {
		select {
		case <-w.done:
			o.list = slices.Delete(o.list, i, i+1)
			return nil
		default:
		}
	}
	return core.E(op, core.Exhausted, nil, "%d watches of files run already", guest.MaxWatches)
}

// close ends every watch; there will be no new one.
func (o *opens) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, w := range o.list {
		w.stop()
	}
}

func (w *openWatch) stop() { _ = w.notify.SetReadDeadline(time.Unix(1, 0)) }

// stopOpens ends a watch and tells what it saw. It may be repeated while the
// place of the watch is not needed for another.
func (s *Supervisor) stopOpens(ctx context.Context, in guest.OpensRef) (guest.Opens, error) {
	s.opens.mu.Lock()
	i := slices.IndexFunc(s.opens.list, func(w *openWatch) bool { return w.id == in.ID })
	if i < 0 {
		s.opens.mu.Unlock()
		return guest.Opens{}, core.E("guest.opens", core.NotFound, nil, "watch %q does not exist", clip(string(in.ID), 40))
	}
	w := s.opens.list[i]
	s.opens.mu.Unlock()
	w.asked.Store(true)
	w.stop()
	select {
	case <-w.done:
		return w.result, nil
	case <-ctx.Done():
		return guest.Opens{}, ctx.Err()
	}
}

// add puts one path under watch.
func (w *openWatch) add(t tree, fd int, path string) error {
	const op = "guest.opens"
	real, err := t.path(op, path)
	if err != nil {
		return err
	}
	before, err := markOf(real)
	if err != nil {
		return fileErr(op, err, path)
	}
	i := len(w.files)
	f := openFile{given: path, real: real, before: before}
	switch before.mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		if before.nlink > 1 {
			w.doubt("%s has %d names", path, before.nlink)
		}
	case syscall.S_IFLNK:
		w.doubt("%s is a symbolic link, which can be read without a trace", path)
		// It may point to nothing, or to itself.
		if target, err := t.target(op, path); err == nil {
			if err := watchErr(w.watch(fd, target, opensMask, i), path); core.Is(err, core.Exhausted) {
				return err
			}
		}
	default:
		return core.E(op, core.Invalid, nil, "%s is no file", path)
	}
	if err := watchErr(w.watch(fd, real, opensMask|unix.IN_DONT_FOLLOW, i), path); err != nil {
		return err
	}
	// Was the watch put on the file that was looked at?
	after, err := markOf(real)
	f.opened = err != nil || after != before
	w.files = append(w.files, f)
	return nil
}

func (w *openWatch) watch(fd int, real string, mask uint32, i int) error {
	wd, err := unix.InotifyAddWatch(fd, real, mask)
	if err == nil && !slices.Contains(w.byWD[wd], i) {
		w.byWD[wd] = append(w.byWD[wd], i)
	}
	return err
}

func watchErr(err error, path string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
		return core.E("guest.opens", core.Exhausted, err, "no more watches of files: %s", path)
	}
	return fileErr("guest.opens", err, path)
}

// doubt is a reason why something may go unnoticed.
func (w *openWatch) doubt(format string, args ...any) {
	if len(w.why) <= maxWhy {
		w.why = append(w.why, clip(fmt.Sprintf(format, args...), 300))
	}
}

// run reads events until it is stopped or the limit is reached.
func (w *openWatch) run() {
	defer close(w.done)
	defer w.notify.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := w.notify.Read(buf)
		if n > 0 {
			w.events(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			w.doubt("events of files cannot be read: %v", err)
			break
		}
	}
	if !w.asked.Load() {
		w.doubt("the watch ended by itself")
	}
	w.drain(buf)
	w.finish()
}

// drain takes what is in the queue. Whoever opened a file before the stop has
// its event there: it is put in by the call itself.
func (w *openWatch) drain(buf []byte) {
	conn, err := w.notify.SyscallConn()
	if err != nil {
		w.doubt("events of files cannot be read: %v", err)
		return
	}
	err = conn.Control(func(fd uintptr) {
		for {
			n, err := unix.Read(int(fd), buf)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return
			case err != nil || n <= 0:
				w.doubt("events of files cannot be read: %d bytes, %v", n, err)
				return
			}
			w.events(buf[:n])
		}
	})
	if err != nil {
		w.doubt("events of files cannot be read: %v", err)
	}
}

// events takes a buffer of whole records: descriptor, mask, cookie and length
// of a name in four bytes each, then the name.
func (w *openWatch) events(buf []byte) {
	for len(buf) > 0 {
		if len(buf) < unix.SizeofInotifyEvent {
			w.doubt("an event of %d bytes", len(buf))
			return
		}
		wd := int(int32(binary.NativeEndian.Uint32(buf)))
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := unix.SizeofInotifyEvent + uint64(binary.NativeEndian.Uint32(buf[12:]))
		if size > uint64(len(buf)) {
			w.doubt("an event of %d bytes in a buffer of %d", size, len(buf))
			return
		}
		buf = buf[size:]
		w.event(wd, mask)
	}
}

func (w *openWatch) event(wd int, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.doubt("there were more events than the kernel keeps")
		return
	}
	places, ok := w.byWD[wd]
	if !ok {
		w.doubt("an event of an unknown file")
		return
	}
	if mask&unix.IN_UNMOUNT != 0 {
		w.doubt("a file system was unmounted")
	}
	fresh := false
	for _, i := range places {
		fresh = fresh || !w.files[i].opened
		w.files[i].opened = true
	}
	if fresh && mask&unix.IN_IGNORED == 0 {
		w.forget(wd)
	}
}

// forget keeps files that are read all the time from filling the queue.
func (w *openWatch) forget(wd int) {
	if conn, err := w.notify.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
	}
}

// finish compares the files with what they were and makes the result.
func (w *openWatch) finish() {
	out := guest.Opens{Opened: []string{}}
	for _, f := range w.files {
		if !f.opened {
			now, err := markOf(f.real)
			f.opened = err != nil || now != f.before
		}
		if f.opened {
			out.Opened = append(out.Opened, f.given)
		}
	}
	out.Complete = len(w.why) == 0
	if len(w.why) > maxWhy {
		w.why[maxWhy] = "and more"
	}
	out.Why = strings.Join(w.why, "; ")
	w.result = out
	w.files, w.byWD = nil, nil
}
