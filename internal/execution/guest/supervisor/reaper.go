package supervisor

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reaper starts processes and collects their exit status; nobody else in this
// program may wait for children.
type reaper interface {
	start(argv0 string, argv []string, attr *syscall.ProcAttr) (pid int, exit <-chan syscall.WaitStatus, err error)
}

// initReaper is for PID 1: it collects every child, its own and adopted ones.
type initReaper struct {
	mu       sync.Mutex // held over a start, so that no exit is seen before its channel exists
	children map[int]chan syscall.WaitStatus
}

func (r *initReaper) start(argv0 string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(argv0, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	exit := make(chan syscall.WaitStatus, 1)
	r.children[pid] = exit
	return pid, exit, nil
}

// run collects until ctx ends.
func (r *initReaper) run(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for {
		r.collect()
		select {
		case <-signals:
		case <-ctx.Done():
			r.collect()
			return
		}
	}
}

func (r *initReaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if exit, ok := r.children[pid]; ok {
			delete(r.children, pid)
			exit <- status
		}
	}
}

// childReaper is for a supervisor inside another program, whose other
// children are not its business.
type childReaper struct{ wg sync.WaitGroup }

func (r *childReaper) start(argv0 string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	pid, err := syscall.ForkExec(argv0, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	exit := make(chan syscall.WaitStatus, 1)
	r.wg.Go(func() {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		exit <- status
	})
	return pid, exit, nil
}
