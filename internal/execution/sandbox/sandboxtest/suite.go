// Package sandboxtest is the contract of sandbox.Driver as tests, for every
// driver to run, and small helpers for tests that need a root file system or a
// network for a sandbox.
//
//	func TestContract(t *testing.T) { sandboxtest.Run(t, newRig) }
package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
)

// Rig is a driver to test and its surroundings.
type Rig struct {
	Driver sandbox.Driver
	Base   string // a root file system; see Root
	Dir    string // an empty directory on the driver's file system
	// Reopen is the restart of the daemon: the first driver is abandoned (not
	// asked to clean up) and another one opened over the same state.
	Reopen func(t *testing.T) sandbox.Driver
	// Forgets says that memory images of this driver hold no processes.
	Forgets bool
	// Kill ends a sandbox from outside, behind the driver's back.
	Kill func(t *testing.T, id core.SandboxID)
}

// Run runs the whole contract. Every test gets a fresh rig.
func Run(t *testing.T, rig func(t *testing.T) *Rig) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *Rig)
	}{
		{"create runs commands", testCreate},
		{"create refuses nonsense", testInvalid},
		{"one ID is created once", testDouble},
		{"many at once", testMany},
		{"unknown sandboxes", testUnknown},
		{"dial", testDial},
		{"death is noticed and files survive", testDeath},
		{"freeze and go on", testFreeze},
		{"freeze is repeatable", testFreezeAgain},
		{"memory image and clones", testClones},
		{"rest", testRest},
		{"rest while the daemon dies", testRestRecover},
		{"rest often", testRestOften},
		{"freeze and go on in place", testResume},
		{"freeze and go on near the memory limit", testResumeFull},
		{"damaged and foreign memory images", testUnfit},
		{"assign and open", testAssign},
		{"destroy is repeatable", testDestroy},
		{"recover the living", testRecover},
		{"recover the dead", testRecoverDead},
		{"cancel in the middle", testCancel},
		{"memory limit", testMemoryLimit},
		{"limit on processes", testPidsLimit},
		{"disk limit", testDiskLimit},
		{"disk limit over several sandboxes", testDiskLimitOfAll},
		{"disk limit of what goes on", testDiskLimitGoesOn},
		{"lifetime limit", testLifetime},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rig(t)
			c.test(t, r)
			r.empty(t)
		})
	}
}

// empty destroys what is left and checks that nothing is.
func (r *Rig) empty(t *testing.T) {
	t.Helper()
	ids, err := r.Driver.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := r.Driver.Destroy(t.Context(), id); err != nil {
			t.Errorf("destroy %s: %v", id, err)
		}
	}
	if ids, err = r.Driver.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left after destroying all: %v, error %v", ids, err)
	}
}

func (r *Rig) spec() sandbox.Spec {
	return sandbox.Spec{
		ID: core.NewSandboxID(), Purpose: "session", Owner: "ses_test", Layers: []string{r.Base}, Hostname: "box",
		Token: "the-token-of-a-test", Limits: core.Limits{CPU: 2, Memory: 512 << 20, Pids: 512},
	}
}

func (r *Rig) create(t *testing.T, change func(*sandbox.Spec)) sandbox.Handle {
	t.Helper()
	spec := r.spec()
	if change != nil {
		change(&spec)
	}
	h, err := r.Driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// shell runs a script in /workspace and returns what it printed.
func shell(t *testing.T, h sandbox.Handle, script string) string {
	t.Helper()
	res := try(t, h, script)
	if res.ExitCode != 0 {
		t.Fatalf("%q ended with %d: %s%s", script, res.ExitCode, res.Stdout, res.Stderr)
	}
	return strings.TrimSpace(string(res.Stdout))
}

func try(t *testing.T, h sandbox.Handle, script string) guest.Result {
	t.Helper()
	c := guest.NewTCPClient(h.Guest, h.Token)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := c.Run(ctx, guest.Command{Argv: []string{"sh", "-c", script}, Dir: "/workspace"})
	if err != nil {
		t.Fatalf("%q: %v", script, err)
	}
	return res
}

// background runs a script that may take the sandbox with it.
func background(t *testing.T, h sandbox.Handle, script string) {
	t.Helper()
	c := guest.NewTCPClient(h.Guest, h.Token)
	defer c.Close()
	if _, err := c.Start(t.Context(), guest.Command{Argv: []string{"sh", "-c", script}, Dir: "/workspace"}); err != nil {
		t.Fatalf("%q: %v", script, err)
	}
}

func (r *Rig) wait(t *testing.T, id core.SandboxID) sandbox.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := r.Driver.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantKind(t *testing.T, what string, err error, kind core.Kind) {
	t.Helper()
	if !core.Is(err, kind) {
		t.Errorf("%s: error %v is %v, want %v", what, err, core.KindOf(err), kind)
	}
}

func testCreate(t *testing.T, r *Rig) {
	before := time.Now().Add(-time.Second)
	h := r.create(t, func(s *sandbox.Spec) { s.Env = []string{"COLOUR=blue"} })
	if h.Driver != r.Driver.Name() || h.Purpose != "session" || h.Owner != "ses_test" || h.Token == "" || h.Created.Before(before) {
		t.Errorf("handle %+v does not say what was asked for", h)
	}
	if got := shell(t, h, "echo hello >a; cat a; echo $COLOUR"); got != "hello\nblue" {
		t.Errorf("command printed %q", got)
	}
	s, err := r.Driver.Status(t.Context(), h.ID)
	if err != nil || s.State != core.SandboxRunning || s.Cause != sandbox.CauseNone {
		t.Errorf("status %+v, error %v", s, err)
	}
	if r.Driver.Capabilities().Limits && s.Memory <= 0 {
		t.Errorf("status says that %d bytes are in use", s.Memory)
	}
	ids, err := r.Driver.List(t.Context())
	if err != nil || !slices.Equal(ids, []core.SandboxID{h.ID}) {
		t.Errorf("list %v, error %v", ids, err)
	}
}

func testInvalid(t *testing.T, r *Rig) {
	for name, c := range map[string]struct {
		change func(*sandbox.Spec)
		kind   core.Kind
	}{
		"path as ID":    {func(s *sandbox.Spec) { s.ID = "sbx_../../../../etc" }, core.Invalid},
		"no layers":     {func(s *sandbox.Spec) { s.Layers = nil }, core.Invalid},
		"missing layer": {func(s *sandbox.Spec) { s.Layers = []string{filepath.Join(r.Dir, "nowhere")} }, core.NotFound},
		"no token":      {func(s *sandbox.Spec) { s.Token = "" }, core.Invalid},
	} {
		spec := r.spec()
		c.change(&spec)
		_, err := r.Driver.Create(t.Context(), spec)
		wantKind(t, name, err, c.kind)
	}
	if !r.Driver.Capabilities().Memory {
		spec := r.spec()
		spec.Image = &sandbox.Image{Dir: r.Dir}
		_, err := r.Driver.Create(t.Context(), spec)
		wantKind(t, "memory image", err, core.Conflict)
	}
}

func testDouble(t *testing.T, r *Rig) {
	spec := r.spec()
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() { _, errs[i] = r.Driver.Create(t.Context(), spec) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
			continue
		}
		wantKind(t, "second create", err, core.Conflict)
	}
	if made != 1 {
		t.Errorf("%d creates with one ID succeeded", made)
	}
	_, err := r.Driver.Create(t.Context(), spec)
	wantKind(t, "later create", err, core.Conflict)
	if s, err := r.Driver.Status(t.Context(), spec.ID); err != nil || s.State != core.SandboxRunning {
		t.Errorf("the first one is %+v, error %v", s, err)
	}
}

func testMany(t *testing.T, r *Rig) {
	var wg sync.WaitGroup
	const n = 4
	handles := make([]sandbox.Handle, n)
	for i := range n {
		wg.Go(func() {
			spec := r.spec()
			h, err := r.Driver.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			handles[i] = h
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, h := range handles {
		shell(t, h, fmt.Sprintf("echo %d >mine", i))
	}
	for i, h := range handles {
		if got := shell(t, h, "cat mine"); got != fmt.Sprint(i) {
			t.Errorf("sandbox %d sees %q: files are shared", i, got)
		}
	}
	for _, h := range handles {
		wg.Go(func() {
			if err := r.Driver.Destroy(t.Context(), h.ID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func testUnknown(t *testing.T, r *Rig) {
	id := core.NewSandboxID()
	_, err := r.Driver.Status(t.Context(), id)
	wantKind(t, "status", err, core.NotFound)
	_, err = r.Driver.Wait(t.Context(), id)
	wantKind(t, "wait", err, core.NotFound)
	_, err = r.Driver.Dial(t.Context(), id, 80)
	wantKind(t, "dial", err, core.NotFound)
	_, err = r.Driver.Recover(t.Context(), sandbox.Handle{ID: id})
	wantKind(t, "recover", err, core.NotFound)
	_, err = r.Driver.Freeze(t.Context(), id, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "x")})
	wantKind(t, "freeze", err, core.NotFound)
	if err := r.Driver.Destroy(t.Context(), id); err != nil {
		t.Errorf("destroy of what is not there: %v", err)
	}
	wantKind(t, "destroy of a path", r.Driver.Destroy(t.Context(), "../../etc"), core.Invalid)
}

func testDial(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	conn, err := r.Driver.Dial(t.Context(), h.ID, sandbox.GuestPort)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("GET /v1/health HTTP/1.0\r\n\r\n"))
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 8)
	if n, err := conn.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.") {
		t.Errorf("the guest answers %q, error %v", buf[:n], err)
	}
	conn.Close()
	_, err = r.Driver.Dial(t.Context(), h.ID, 0)
	wantKind(t, "port 0", err, core.Invalid)
	_, err = r.Driver.Dial(t.Context(), h.ID, 1)
	wantKind(t, "a port on which nothing listens", err, core.Unavailable)
}

func testDeath(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	shell(t, h, "echo precious >kept; mkdir -p d/e; echo deep >d/e/f; mv base.txt moved.txt")
	r.Kill(t, h.ID)
	s := r.wait(t, h.ID)
	if s.State != core.SandboxDead || s.Cause == sandbox.CauseNone || s.Cause == sandbox.CauseStopped {
		t.Errorf("after a kill the status is %+v", s)
	}
	_, err := r.Driver.Dial(t.Context(), h.ID, sandbox.GuestPort)
	wantKind(t, "dial of the dead", err, core.Conflict)
	frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f")})
	if err != nil {
		t.Fatal(err)
	}
	again := r.create(t, func(s *sandbox.Spec) { s.Layers = []string{frozen.Upper, r.Base} })
	if got := shell(t, again, "cat kept d/e/f moved.txt; ls base.txt 2>/dev/null || echo gone"); got != "precious\ndeep\nbase\ngone" {
		t.Errorf("after death the files say %q", got)
	}
}

func testFreeze(t *testing.T, r *Rig) {
	layers := []string{r.Base}
	for i := range 3 {
		h := r.create(t, func(s *sandbox.Spec) { s.Layers = layers })
		if got := shell(t, h, "cat count 2>/dev/null || echo none"); (i == 0) != (got == "none") {
			t.Errorf("round %d starts with %q", i, got)
		}
		// A directory of a lower layer is renamed, and a file in it removed.
		shell(t, h, fmt.Sprintf("echo %d >>count; mv tree%d tree%d; rm tree%d/leaf%d", i, i, i+1, i+1, i))
		frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, fmt.Sprint("layer", i))})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := r.Driver.Status(t.Context(), h.ID); err != nil || s.State != core.SandboxFrozen || filepath.Dir(frozen.Upper) != s.Frozen {
			t.Errorf("after a freeze the status is %+v, error %v", s, err)
		}
		if err := r.Driver.Destroy(t.Context(), h.ID); err != nil {
			t.Fatal(err)
		}
		layers = append([]string{frozen.Upper}, layers...)
	}
	h := r.create(t, func(s *sandbox.Spec) { s.Layers = layers })
	if got := shell(t, h, "cat count; ls; ls tree3"); got != "0\n1\n2\nbase.txt\ncount\ntree3\nleaf3" {
		t.Errorf("after three rounds there is %q", got)
	}
}

func testFreezeAgain(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	into := filepath.Join(r.Dir, "f")
	if err := os.Mkdir(filepath.Join(r.Dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "taken")})
	wantKind(t, "freeze into what exists", err, core.Conflict)
	if s, err := r.Driver.Status(t.Context(), h.ID); err != nil || s.State != core.SandboxRunning {
		t.Errorf("after a refused freeze the status is %+v, error %v", s, err)
	}
	if !r.Driver.Capabilities().Memory {
		_, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: into, Memory: true})
		wantKind(t, "freeze of memory", err, core.Unavailable)
	}
	first, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: into})
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: into})
	if err != nil || second != first {
		t.Errorf("freezing again gives %+v, error %v, not %+v", second, err, first)
	}
	_, err = r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "other")})
	wantKind(t, "freeze into another place", err, core.Conflict)
	if err := r.Driver.Destroy(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first.Upper); err != nil {
		t.Errorf("destroy took the frozen files away: %v", err)
	}
}

func testDestroy(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	waited := make(chan sandbox.Status, 1)
	go func() {
		s, _ := r.Driver.Wait(context.WithoutCancel(t.Context()), h.ID)
		waited <- s
	}()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := r.Driver.Destroy(t.Context(), h.ID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := r.Driver.Destroy(t.Context(), h.ID); err != nil {
		t.Errorf("destroying again: %v", err)
	}
	select {
	case <-waited:
	case <-time.After(10 * time.Second):
		t.Error("Wait does not return after Destroy")
	}
	_, err := r.Driver.Status(t.Context(), h.ID)
	wantKind(t, "status of the destroyed", err, core.NotFound)
}

func testRecover(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	shell(t, h, "echo before >a")
	r.Driver = r.Reopen(t)
	ids, err := r.Driver.List(t.Context())
	if err != nil || !slices.Equal(ids, []core.SandboxID{h.ID}) {
		t.Fatalf("after a restart the list is %v, error %v", ids, err)
	}
	_, err = r.Driver.Status(t.Context(), h.ID)
	wantKind(t, "status before recovery", err, core.NotFound)
	_, err = r.Driver.Create(t.Context(), sandbox.Spec{ID: h.ID, Layers: []string{r.Base}, Token: "x"})
	wantKind(t, "create over what is left", err, core.Conflict)
	for range 2 {
		s, err := r.Driver.Recover(t.Context(), h)
		if err != nil || s.State != core.SandboxRunning {
			t.Fatalf("recovered as %+v, error %v", s, err)
		}
	}
	if got := shell(t, h, "cat a"); got != "before" {
		t.Errorf("the recovered sandbox says %q", got)
	}
	r.Kill(t, h.ID)
	if s := r.wait(t, h.ID); s.State != core.SandboxDead {
		t.Errorf("a recovered sandbox that was killed is %+v", s)
	}
}

func testRecoverDead(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	other := r.create(t, nil)
	shell(t, h, "echo before >a")
	r.Driver = r.Reopen(t)
	r.Kill(t, h.ID)
	s, err := r.Driver.Recover(t.Context(), h)
	if err != nil || s.State != core.SandboxDead || s.Cause == sandbox.CauseNone {
		t.Fatalf("recovered as %+v, error %v", s, err)
	}
	if s := r.wait(t, h.ID); s.State != core.SandboxDead {
		t.Errorf("waiting for the dead gives %+v", s)
	}
	frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f")})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(frozen.Upper, "workspace/a")); err != nil || string(data) != "before\n" {
		t.Errorf("the frozen file says %q, error %v", data, err)
	}
	// An orphan is destroyed without being recovered.
	if err := r.Driver.Destroy(t.Context(), other.ID); err != nil {
		t.Error(err)
	}
	// And the frozen one is still frozen after the next restart.
	r.Driver = r.Reopen(t)
	if s, err := r.Driver.Recover(t.Context(), h); err != nil || s.State != core.SandboxFrozen {
		t.Errorf("recovered as %+v, error %v", s, err)
	}
	again, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f")})
	if err != nil || again != frozen {
		t.Errorf("freezing again gives %+v, error %v", again, err)
	}
}

func testCancel(t *testing.T, r *Rig) {
	for _, delay := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 140 * time.Millisecond} {
		spec := r.spec()
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		_, err := r.Driver.Create(ctx, spec)
		cancel()
		if err == nil {
			if err := r.Driver.Destroy(t.Context(), spec.ID); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if k := core.KindOf(err); k != core.Unavailable && k != core.Canceled {
			t.Errorf("cancelled after %s: error %v is %v", delay, err, k)
		}
		if ids, err := r.Driver.List(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("cancelled after %s: left are %v, error %v", delay, ids, err)
		}
	}
}
