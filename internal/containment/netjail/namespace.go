package netjail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// nsfsMagic is the file system type of a mounted namespace.
const nsfsMagic = 0x6e736673

// inNamespace runs fn on a thread of its own inside the network namespace fd.
// The thread is never given back to the scheduler: it ends with the goroutine,
// so no other code can ever run in the wrong namespace.
func inNamespace(fd int, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		done <- fn()
	}()
	return <-done
}

// makeNamespace makes a network namespace, pins it at path and returns it open.
// setup runs inside before anybody else can see it.
func makeNamespace(path string, setup func() error) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("make a network namespace: %w", err)
			return
		}
		if err := setup(); err != nil {
			done <- err
			return
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			done <- fmt.Errorf("pin the network namespace at %s: %w", path, err)
			return
		}
		done <- nil
	}()
	if err := <-done; err != nil {
		_ = removeNamespace(path)
		return nil, err
	}
	return os.Open(path)
}

// openNamespace opens a pinned namespace; fs.ErrNotExist if there is none, also
// when only the bare file is left.
func openNamespace(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		_ = f.Close()
		return nil, err
	}
	if int64(st.Type) != nsfsMagic {
		_ = f.Close()
		return nil, fmt.Errorf("%s is not a namespace: %w", path, fs.ErrNotExist)
	}
	return f, nil
}

// removeNamespace lets go of a pinned namespace. It is safe to repeat.
func removeNamespace(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH)
		if err == nil {
			continue // pinned more than once after a crash in between
		}
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		return fmt.Errorf("unpin the network namespace %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// setSysctls writes net.* settings of the namespace the thread is in.
func setSysctls(pairs [][2]string) error {
	for _, p := range pairs {
		err := os.WriteFile("/proc/sys/net/"+p[0], []byte(p[1]), 0)
		if errors.Is(err, fs.ErrNotExist) && len(p[0]) > 4 && p[0][:5] == "ipv6/" {
			continue // a kernel without IPv6 needs no switching off
		}
		if err != nil {
			return err
		}
	}
	return nil
}
