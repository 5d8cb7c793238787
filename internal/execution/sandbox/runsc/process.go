package runsc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// process names a process of this boot beyond doubt: a number alone may belong
// to another process later.
type process struct {
	Pid   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"` // clock ticks since boot
	Boot  string `json:"boot,omitempty"`
}

func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// identify completes what a pid file says.
func identify(pid int) (process, error) {
	start, err := startTime(pid)
	if err != nil {
		return process{}, err
	}
	return process{Pid: pid, Start: start, Boot: bootID()}, nil
}

const parentField, startField = 4, 22 // of /proc/PID/stat, as its manual counts

func startTime(pid int) (uint64, error) {
	fields, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, unix.ESRCH
	}
	return strconv.ParseUint(fields[startField-3], 10, 64)
}

// statOf reads the fields of /proc/PID/stat from the third on.
func statOf(pid int) ([]string, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	// The name, in brackets, may contain anything; fields count after it.
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return nil, errors.New("malformed /proc stat")
	}
	fields := strings.Fields(string(data[i+1:]))
	if len(fields) <= startField-3 {
		return nil, errors.New("malformed /proc stat")
	}
	return fields, nil
}

// eldest leaves out those whose parent is among them too.
func eldest(pids []int) []int {
	known := map[int]bool{}
	for _, pid := range pids {
		known[pid] = true
	}
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool {
		fields, err := statOf(pid)
		if err != nil {
			return true // gone
		}
		parent, err := strconv.Atoi(fields[parentField-3])
		return err == nil && known[parent]
	})
}

// open returns a descriptor that becomes readable when the process ends, or
// nil if it is gone already.
func (p process) open() *os.File {
	if p.Pid <= 0 || p.Boot != bootID() {
		return nil
	}
	fd, err := unix.PidfdOpen(p.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	// Checked after opening: from here on the descriptor cannot change owner.
	if start, err := startTime(p.Pid); err != nil || start != p.Start {
		f.Close()
		return nil
	}
	return f
}

// alive says whether the process is there.
func (p process) alive() bool {
	f := p.open()
	if f == nil {
		return false
	}
	f.Close()
	return true
}

// waitExit blocks until the process of pidfd ended; false means that the file
// was closed or its deadline came first.
func waitExit(pidfd *os.File) bool {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	err = raw.Read(func(fd uintptr) bool {
		ended = exited(int(fd))
		return ended
	})
	return err == nil && ended
}

func exited(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}

// signal sends it one, if it is still there.
func (p process) signal(sig unix.Signal) {
	f := p.open()
	if f == nil {
		return
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
}

// kill ends the process and waits until it is gone.
func (p process) kill(ctx context.Context) error {
	f := p.open()
	if f == nil {
		return nil
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(killTimeout)
	}
	_ = f.SetReadDeadline(deadline)
	if !waitExit(f) {
		return core.E("runsc.kill", core.Unavailable, nil, "process %d does not end", p.Pid)
	}
	return nil
}

const killTimeout = 10 * time.Second

// exitStatus asks the kernel how the process of pidfd ended, which it tells to
// others than the parent since Linux 6.15.
func exitStatus(pidfd *os.File) (unix.WaitStatus, bool) {
	type pidfdInfo struct {
		mask     uint64
		cgroup   uint64
		ids      [11]uint32
		exitCode int32
	}
	const infoExit = 1 << 3
	const getInfo = 3<<30 | unsafe.Sizeof(pidfdInfo{})<<16 | 0xFF<<8 | 11
	info := pidfdInfo{mask: infoExit}
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return 0, false
	}
	var errno unix.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, getInfo, uintptr(unsafe.Pointer(&info)))
	})
	if err != nil || errno != 0 || info.mask&infoExit == 0 {
		return 0, false
	}
	return unix.WaitStatus(info.exitCode), true
}

// leftovers finds processes of runsc that belong to a sandbox, by their
// command line. It is the net below the record and the control group: a
// daemon may have died between starting runsc and writing down its number.
func (d *Driver) leftovers(id core.SandboxID) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(id)) || !bytes.Contains(line, []byte("--root="+d.runscRoot+"\x00")) {
			continue
		}
		if p, err := identify(pid); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// isTool says that a process of runsc is one of the commands that the driver
// waits for, not the sandbox itself or its file server.
func (p process) isTool() bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/cmdline")
	if err != nil {
		return false
	}
	for word := range bytes.SplitSeq(line, []byte{0}) {
		switch string(word) {
		case "boot", "gofer":
			return false
		case "run", "restore", "checkpoint":
			return true
		}
	}
	return false
}

// ignoreEOF is for reading what may be empty.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
