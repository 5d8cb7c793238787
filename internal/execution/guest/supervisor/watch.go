package supervisor

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/execution/guest"
)

// pump moves one output into its ring until its last writer is gone.
type pump struct {
	file *os.File
	ring *ring
	read atomic.Int64
	done chan struct{}
}

func (u *pump) run() {
	defer close(u.done)
	defer u.ring.CloseWrite()
	defer u.file.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := u.file.Read(buf)
		if n > 0 {
			_, _ = u.ring.Write(buf[:n])
			u.read.Add(int64(n))
		}
		if err != nil { // EOF of a pipe, EIO of a terminal
			return
		}
	}
}

// pending is what lies unread in the pipe.
func (u *pump) pending() int64 {
	n := 0
	conn, err := u.file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return int64(n)
}

// drain waits until what the process itself wrote is in the ring. A
// grandchild that still holds the pipe does not keep it waiting: what lies in
// the pipe when the process has ended is all of the process's output.
func (u *pump) drain(quit <-chan struct{}) {
	const chunk = 32 << 10 // one read may be under way that neither count shows
	target := u.read.Load() + u.pending()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for turn := range 500 {
		select {
		case <-u.done:
			return
		case <-quit:
			return
		case <-tick.C:
		}
		read := u.read.Load()
		if read >= target+chunk || turn >= 10 && read >= target && u.pending() == 0 {
			return
		}
	}
}

// watch owns every goroutine of one process.
func (s *Supervisor) watch(p *process, fds *streams, exit <-chan syscall.WaitStatus, input []byte) {
	pumps := []*pump{{file: fds.out, ring: p.out, done: make(chan struct{})}}
	if fds.errs != nil {
		pumps = append(pumps, &pump{file: fds.errs, ring: p.errs, done: make(chan struct{})})
	}
	for _, u := range pumps {
		s.wg.Go(u.run)
	}
	if len(input) > 0 {
		s.wg.Go(func() {
			p.inMu.Lock()
			defer p.inMu.Unlock()
			_, _ = p.stdin.Write(input)
			if !p.cmd.Stdin {
				p.closeInput()
			}
		})
	}
	s.wg.Go(func() {
		if p.cmd.Timeout > 0 {
			s.wg.Go(func() { s.limit(p) })
		}
		status := <-exit
		finished := time.Now().UTC()
		for _, u := range pumps {
			u.drain(s.quit)
		}
		p.mu.Lock()
		p.info.Running = false
		p.info.Finished = finished
		p.info.ExitCode, p.info.Signal = exitOf(status)
		p.mu.Unlock()
		close(p.done)
		if p.master == nil && p.stdin != nil {
			_ = p.stdin.Close() // wakes a writer; must not wait for its lock
		}
		s.reg.finished(p)
	})
	s.wg.Go(func() {
		// Readers that outlive everything end with the supervisor.
		select {
		case <-s.quit:
		case <-pumps[0].done:
			if len(pumps) > 1 {
				select {
				case <-s.quit:
				case <-pumps[1].done:
				}
			}
		}
		for _, u := range pumps {
			_ = u.file.Close()
		}
	})
}

// limit ends a process that runs too long.
func (s *Supervisor) limit(p *process) {
	timer := time.NewTimer(p.cmd.Timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-s.quit:
		return
	case <-timer.C:
	}
	p.mu.Lock()
	p.info.TimedOut = p.info.Running
	p.mu.Unlock()
	p.stop(graceOf(p.cmd.Grace), s.quit)
}

func graceOf(d time.Duration) time.Duration {
	if d <= 0 {
		return defaultGrace
	}
	return min(d, time.Minute)
}

func exitOf(status syscall.WaitStatus) (code int, signal string) {
	if status.Signaled() {
		return 128 + int(status.Signal()), strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
	}
	return status.ExitStatus(), ""
}

// closeInput ends standard input: a pipe is closed, a terminal gets its
// end-of-file character.
func (p *process) closeInput() {
	switch {
	case p.stdin == nil:
	case p.master != nil:
		_, _ = p.stdin.Write([]byte{4})
	default:
		_ = p.stdin.Close()
	}
}

// killSession ends what is left of a session: a shell on a terminal puts jobs
// into groups of their own.
func killSession(sid int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 1 || pid == sid {
			continue
		}
		if sessionOf(pid) == sid {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// sessionOf reads field 6 of /proc/PID/stat; the name before it may hold
// anything, so it is skipped from the right.
func sessionOf(pid int) int {
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return -1
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return -1
	}
	line := string(raw)
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 4 {
		return -1
	}
	sid, err := strconv.Atoi(fields[3])
	if err != nil {
		return -1
	}
	return sid
}

// collect is what Run returns of one stream: all of it, or its beginning and
// its end with a line between that says how much is left out.
func collect(r *ring, limit int) (out []byte, cut bool) {
	first, end, _ := r.Bounds()
	if first == 0 && end <= int64(limit) {
		return readRange(r, 0, int(end)), false
	}
	head := r.Head(min(limit/4, headBytes))
	tail := readRange(r, max(first, end-int64(limit-len(head))), limit-len(head))
	missing := end - int64(len(head)) - int64(len(tail))
	if missing <= 0 { // the two overlap
		return append(head, tail[min(int64(len(tail)), -missing):]...), false
	}
	note := "\n[... " + strconv.FormatInt(missing, 10) + " bytes left out ...]\n"
	return append(append(head, note...), tail...), true
}

func readRange(r *ring, from int64, n int) []byte {
	buf := make([]byte, n)
	got := 0
	for got < n {
		k, at, err := r.ReadAt(buf[got:], from+int64(got))
		if k == 0 || err != nil {
			break
		}
		if at != from+int64(got) { // the ring moved on meanwhile: start over from there
			copy(buf, buf[got:got+k])
			from, got = at, 0
		}
		got += k
	}
	return buf[:got]
}

func limitOf(cmd guest.Command) int {
	if cmd.Limit <= 0 {
		return 1 << 20
	}
	return min(cmd.Limit, guest.MaxLimit)
}
