package supervisor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// slowReaper holds every start back, after the place of the process was taken
// and before anybody knows of it.
type slowReaper struct {
	reaper
	entered chan struct{}
	pids    chan int
	open    chan struct{}
}

func (r *slowReaper) start(argv0 string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	r.entered <- struct{}{}
	<-r.open
	pid, exit, err := r.reaper.start(argv0, argv, attr)
	r.pids <- pid
	return pid, exit, err
}

func slow(t *testing.T) (*Supervisor, *slowReaper) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "workspace"), 0o755); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	s, err := New(Options{Root: root, Token: testToken, Listen: ln})
	if err != nil {
		t.Fatal(err)
	}
	r := &slowReaper{reaper: s.reaper, entered: make(chan struct{}), pids: make(chan int, 1), open: make(chan struct{})}
	s.reaper = r
	return s, r
}

func (s *Supervisor) isStopping() bool {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	return s.reg.closed
}

// A start that is under way when everything ends is ended as well: it must not
// keep the supervisor for as long as its process likes to run.
func TestStartDuringShutdown(t *testing.T) {
	for name, inList := range map[string]bool{"command": listed, "readiness test": hidden} {
		t.Run(name, func(t *testing.T) {
			s, r := slow(t)
			ctx, stop := context.WithCancel(t.Context())
			served, started := make(chan error, 1), make(chan error, 1)
			go func() { served <- s.Serve(ctx) }()
			go func() {
				_, err := s.launch(guest.Command{Argv: []string{"sleep", "1000"}}, inList)
				started <- err
			}()
			<-r.entered
			stop()
			for deadline := time.Now().Add(10 * time.Second); !s.isStopping(); {
				if time.Now().After(deadline) {
					t.Fatal("it does not stop")
				}
			}
			close(r.open)
			pid := <-r.pids
			if err := <-started; !core.Is(err, core.Unavailable) {
				t.Errorf("the start ends with %v", err)
			}
			select {
			case err := <-served:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the supervisor waits for the process")
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
			if err := syscall.Kill(pid, 0); err == nil {
				t.Errorf("process %d lives on", pid)
			}
		})
	}
}

// A start that takes longer than the end of everything ends its process
// itself.
func TestStartAfterShutdown(t *testing.T) {
	s, r := slow(t)
	started := make(chan error, 1)
	go func() {
		_, err := s.launch(guest.Command{Argv: []string{"sleep", "1000"}}, listed)
		started <- err
	}()
	<-r.entered
	s.reg.close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s.stopAll(over, stopAllGrace) // gives up at once
	close(r.open)
	pid := <-r.pids
	if err := <-started; !core.Is(err, core.Unavailable) {
		t.Errorf("the start ends with %v", err)
	}
	s.wg.Wait()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d lives on", pid)
	}
}

// A process that ends before it is known does not stay known as a running one.
func TestEndBeforeKnown(t *testing.T) {
	r := newRegistry()
	id, err := r.reserve("instance")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{info: guest.Process{ID: id}, done: make(chan struct{}), out: newRing(1<<10, nil)}
	close(p.done)
	r.finished(p)
	if !r.add(p, listed) {
		t.Error("an open registry says that it is closed")
	}
	if got := r.alive(); len(got) > 0 {
		t.Errorf("%d processes run", len(got))
	}
	if running, known, _ := r.stats(); running != 0 || known != 1 {
		t.Errorf("%d running, %d known", running, known)
	}
}
