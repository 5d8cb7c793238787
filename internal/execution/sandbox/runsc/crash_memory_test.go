package runsc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
)

const longToken = "the-token-of-this-sandbox"

// step of a freeze with memory, by what can be seen on the disk.
type step struct {
	name string
	at   func(dir, into string) bool
}

var steps = []step{
	{"at once", func(string, string) bool { return true }},
	{"token recorded", func(dir, _ string) bool { return recordSays(dir, func(f frozenRecord) bool { return f.Token != "" }) }},
	{"checkpoint begun", func(_, into string) bool { return there(into, "image.new/checkpoint.img") }},
	{"pages begun", func(_, into string) bool { return there(into, "image.new/pages.img") }},
	{"image complete", func(_, into string) bool { return there(into, "image") }},
	{"image recorded", func(dir, _ string) bool {
		return recordSays(dir, func(f frozenRecord) bool { return f.Image != nil })
	}},
	{"files moved", func(_, into string) bool { return there(into, "upper") }},
	{"new files", func(dir, into string) bool { return there(into, "upper") && there(dir, "upper") }},
	{"restore begun", func(dir, into string) bool { return there(into, "upper") && there(dir, "bundle/pid") }},
	{"written since", func(dir, into string) bool { return there(into, "upper") && there(dir, "upper/workspace/count") }},
	{"done", func(string, string) bool { return false }},
}

type frozenRecord struct {
	Token string          `json:"token"`
	Image json.RawMessage `json:"image"`
}

func there(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func recordSays(dir string, what func(frozenRecord) bool) bool {
	var rec struct {
		Freeze *frozenRecord `json:"freeze"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "sandbox.json"))
	return err == nil && json.Unmarshal(data, &rec) == nil && rec.Freeze != nil && what(*rec.Freeze)
}

// counterScript counts on in a file, forever.
const counterScript = "n=0; while :; do n=$((n+1)); echo $n >/workspace/count.new; mv /workspace/count.new /workspace/count; sleep 0.02; done"

// counting starts a sandbox in which a process counts, and files are.
func counting(t *testing.T, h *host, d *runsc.Driver) sandbox.Handle {
	t.Helper()
	hd, err := d.Create(t.Context(), sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{h.base}, Token: longToken, Limits: core.Limits{Memory: 512 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	c := guest.NewTCPClient(hd.Guest, hd.Token)
	defer c.Close()
	if _, err := c.Start(t.Context(), guest.Command{Argv: []string{"sh", "-c", counterScript}}); err != nil {
		t.Fatal(err)
	}
	shell(t, hd, "echo precious >/workspace/kept; while ! [ -s /workspace/count ]; do :; done")
	return hd
}

// count reads the counter in layers, from outside.
func count(layers ...string) (n int) {
	for _, l := range layers {
		data, err := os.ReadFile(filepath.Join(l, "workspace/count"))
		if err == nil {
			_, _ = fmt.Sscan(string(data), &n)
			return n
		}
	}
	return 0
}

// goesOn checks that a running sandbox answers and counts on from n.
func goesOn(t *testing.T, hd sandbox.Handle, n int) {
	t.Helper()
	got := shell(t, hd, fmt.Sprintf("cat /workspace/kept; for i in $(seq 200); do [ $(cat /workspace/count) -gt %d ] && echo on && break; sleep 0.05; done", n))
	if got != "precious\non" {
		t.Errorf("it goes on with %q", got)
	}
}

// whole checks that a dead sandbox can be frozen and has all its files.
func whole(t *testing.T, h *host, d *runsc.Driver, hd sandbox.Handle, s sandbox.Status, into string, n int, doubtful bool) {
	t.Helper()
	if s.Frozen != "" && s.Frozen != into {
		t.Errorf("it is frozen into %s", s.Frozen)
	}
	if s.Frozen == "" {
		into += "-dead"
	}
	frozen, err := d.Freeze(t.Context(), hd.ID, sandbox.FreezeOptions{Into: into})
	if err != nil {
		t.Fatalf("its files are not given: %v", err)
	}
	if frozen.Image == nil && (there(into, "image") || there(into, "image.new")) {
		t.Errorf("half an image is left in %s", into)
	}
	layers := []string{frozen.Upper, h.base}
	if s.Resumed != "" {
		layers = []string{frozen.Upper, filepath.Join(s.Resumed, "upper"), h.base}
	}
	if got := count(layers...); got < n {
		t.Errorf("its files say %d, before they said %d", got, n)
	}
	spec := sandbox.Spec{ID: core.NewSandboxID(), Layers: layers, Token: longToken, Limits: core.Limits{Memory: 512 << 20}}
	again, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := shell(t, again, "cat /workspace/kept"); got != "precious" {
		t.Errorf("its file says %q", got)
	}
	if err := d.Destroy(t.Context(), again.ID); err != nil {
		t.Error(err)
	}
	if frozen.Image == nil {
		return
	}
	spec.ID, spec.Image = core.NewSandboxID(), frozen.Image
	if again, err = d.Create(t.Context(), spec); err != nil && doubtful {
		// Something of the sandbox had died already when its memory was written.
		t.Logf("an image that nobody can restore: %v", err)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	goesOn(t, again, n)
	if err := d.Destroy(t.Context(), again.ID); err != nil {
		t.Error(err)
	}
}

// The daemon is killed at every step of a freeze with memory: afterwards the
// sandbox runs on where it was, or is dead and its files are complete.
func TestDaemonKilledDuringMemory(t *testing.T) {
	for _, resume := range []bool{false, true} {
		name := "suspend"
		if resume {
			name = "go on"
		}
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if err := os.MkdirAll(filepath.Join(h.opts.StateDir, "frozen"), 0o700); err != nil {
				t.Fatal(err)
			}
			for i, step := range steps {
				d := h.driver(t)
				hd := counting(t, h, d)
				dir := filepath.Join(h.opts.StateDir, "sandboxes", string(hd.ID))
				into := filepath.Join(h.opts.StateDir, "frozen", fmt.Sprint(i))
				at, err := h.network.Attach(t.Context(), hd.ID, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				old, err := os.Stat(filepath.Join(dir, "bundle/pid"))
				if err != nil {
					t.Fatal(err)
				}
				in := map[string]any{"Options": h.opts, "At": at, "Spec": sandbox.Spec{ID: hd.ID}, "Freeze": sandbox.FreezeOptions{Into: into, Memory: true, Resume: resume}}
				killedWhen(t, in, func(begun bool) bool {
					if step.name == "restore begun" {
						now, err := os.Stat(filepath.Join(dir, "bundle/pid"))
						return begun && err == nil && !os.SameFile(old, now) && there(into, "upper")
					}
					return begun && step.at(dir, into)
				})
				if strings.HasPrefix(step.name, "restore") || strings.HasPrefix(step.name, "written") {
					// A daemon may be down for long: what runs meanwhile is not undone.
					<-time.After(700 * time.Millisecond)
				}
				n := count(filepath.Join(dir, "upper"), filepath.Join(into, "upper"))
				began := time.Now()
				d = h.driver(t)
				s, err := d.Recover(t.Context(), sandbox.Handle{ID: hd.ID})
				if err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				t.Logf("%s: %s, %q, frozen %q, resumed %q, after %s at %d", step.name, s.State, s.Detail, s.Frozen, s.Resumed, time.Since(began).Round(time.Millisecond), n)
				switch s.State {
				case core.SandboxRunning:
					if s.Frozen != "" {
						t.Errorf("%s: it runs and is frozen into %s", step.name, s.Frozen)
					}
					goesOn(t, hd, n)
					// And again: it has to be as whole as before.
					next := into + "-next"
					frozen, err := d.Freeze(t.Context(), hd.ID, sandbox.FreezeOptions{Into: next, Memory: true, Resume: true})
					if err != nil || frozen.Image == nil {
						t.Errorf("%s: the next freeze gives %+v, error %v", step.name, frozen, err)
					}
					goesOn(t, hd, n)
				default:
					whole(t, h, d, hd, s, into, n, false)
				}
				if err := d.Destroy(t.Context(), hd.ID); err != nil {
					t.Errorf("%s: %v", step.name, err)
				}
				if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
					t.Errorf("%s: left %v, error %v", step.name, ids, err)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// imageOf freezes a counting sandbox with its memory.
func imageOf(t *testing.T, h *host, d *runsc.Driver, into string) (sandbox.Frozen, int) {
	t.Helper()
	hd := counting(t, h, d)
	frozen, err := d.Freeze(t.Context(), hd.ID, sandbox.FreezeOptions{Into: into, Memory: true})
	if err != nil || frozen.Image == nil {
		t.Fatalf("froze %+v, error %v", frozen, err)
	}
	if err := d.Destroy(t.Context(), hd.ID); err != nil {
		t.Fatal(err)
	}
	return frozen, count(frozen.Upper)
}

func TestDaemonKilledDuringRestore(t *testing.T) {
	h := newHost(t)
	frozenDir := filepath.Join(h.opts.StateDir, "frozen")
	if err := os.MkdirAll(frozenDir, 0o700); err != nil {
		t.Fatal(err)
	}
	frozen, n := imageOf(t, h, h.driver(t), filepath.Join(frozenDir, "f"))
	for _, ms := range []int{0, 10, 30, 60, 90, 120, 160, 5000} {
		spec := sandbox.Spec{
			ID: core.NewSandboxID(), Layers: []string{frozen.Upper, h.base}, Token: "the-token-of-a-clone",
			Limits: core.Limits{Memory: 512 << 20}, Image: frozen.Image,
		}
		at, err := h.network.Attach(t.Context(), spec.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		killed(t, map[string]any{"Options": h.opts, "At": at, "Spec": spec}, time.Duration(ms)*time.Millisecond)
		d := h.driver(t)
		hd := sandbox.Handle{ID: spec.ID, Token: spec.Token, Guest: netip.AddrPortFrom(at.Address, sandbox.GuestPort)}
		s, err := d.Recover(t.Context(), hd)
		t.Logf("after %d ms: %s %s, error %v", ms, s.State, s.Detail, err)
		switch {
		case core.Is(err, core.NotFound):
		case err != nil:
			t.Errorf("after %d ms: %v", ms, err)
		case s.State == core.SandboxRunning:
			goesOn(t, hd, n)
		case s.State != core.SandboxDead || ms == 5000:
			t.Errorf("after %d ms it is %+v", ms, s)
		}
		if err := d.Destroy(t.Context(), spec.ID); err != nil {
			t.Errorf("after %d ms: %v", ms, err)
		}
		if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("after %d ms there is left: %v, error %v", ms, ids, err)
		}
	}
}

func TestDaemonKilledDuringAssign(t *testing.T) {
	h := newHost(t)
	for _, us := range []int{0, 200, 1000, 5_000_000} {
		d := h.driver(t)
		hd := counting(t, h, d)
		at, err := h.network.Attach(t.Context(), hd.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		killed(t, map[string]any{"Options": h.opts, "At": at, "Spec": sandbox.Spec{ID: hd.ID}, "Owner": "ses_other"}, time.Duration(us)*time.Microsecond)
		d = h.driver(t)
		if s, err := d.Recover(t.Context(), hd); err != nil || s.State != core.SandboxRunning {
			t.Errorf("after %d us it is %+v, error %v", us, s, err)
		}
		goesOn(t, hd, 0)
		if err := d.Destroy(t.Context(), hd.ID); err != nil {
			t.Error(err)
		}
	}
}

// processes of a sandbox, by the word on their command line.
func processes(t *testing.T, h *host, id core.SandboxID, word string) (out []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		line, err := os.ReadFile(path)
		words := strings.Split(string(line), "\x00")
		if err != nil || !slices.Contains(words, word) || !slices.Contains(words, "--root="+filepath.Join(h.opts.StateDir, "runsc")) || !slices.Contains(words, string(id)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}

// killAt kills processes of a sandbox as soon as when says so and there are
// some; stop says how many it has killed.
func killAt(t *testing.T, h *host, id core.SandboxID, word string, when func() bool) (stop func() int) {
	t.Helper()
	quit, over := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for n == 0 {
			select {
			case <-quit:
				over <- n
				return
			case <-time.After(100 * time.Microsecond):
			}
			if when() {
				for _, pid := range processes(t, h, id, word) {
					if unix.Kill(pid, unix.SIGKILL) == nil {
						n++
					}
				}
			}
		}
		over <- n
	}()
	return func() int { close(quit); return <-over }
}

// Something kills the runtime, its file server or the tool in the middle of a
// freeze: what comes of it is an image, or an error and complete files.
func TestRuntimeKilledDuringFreeze(t *testing.T) {
	h := newHost(t)
	frozenDir := filepath.Join(h.opts.StateDir, "frozen")
	if err := os.MkdirAll(frozenDir, 0o700); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, resume := range []bool{false, true} {
		for _, victim := range []string{"boot", "gofer", "checkpoint", "restore"} {
			for _, moment := range []string{"checkpoint begun", "pages begun", "files moved", "written since"} {
				if (victim == "restore" || moment == "files moved" || moment == "written since") && !resume ||
					victim == "restore" && moment != "files moved" || victim == "checkpoint" && (moment == "files moved" || moment == "written since") {
					continue
				}
				n++
				d := h.driver(t)
				hd := counting(t, h, d)
				dir := filepath.Join(h.opts.StateDir, "sandboxes", string(hd.ID))
				into := filepath.Join(frozenDir, fmt.Sprint(n))
				at := steps[slices.IndexFunc(steps, func(s step) bool { return s.name == moment })].at
				stop := killAt(t, h, hd.ID, victim, func() bool { return at(dir, into) })
				began := time.Now()
				frozen, err := d.Freeze(t.Context(), hd.ID, sandbox.FreezeOptions{Into: into, Memory: true, Resume: resume})
				killed, took := stop(), time.Since(began)
				s, statusErr := d.Status(t.Context(), hd.ID)
				name := fmt.Sprintf("resume %t, %s at %s", resume, victim, moment)
				t.Logf("%s: killed %d in %s: image %t, lost %q, error %v; %s (%s) frozen %q resumed %q", name, killed, took.Round(time.Millisecond),
					frozen.Image != nil, frozen.Lost, err, s.State, s.Detail, s.Frozen, s.Resumed)
				if statusErr != nil {
					t.Fatal(statusErr)
				}
				if resume && err == nil && killed > 0 && s.State == core.SandboxRunning && victim != "restore" {
					// It was killed right after: the driver notices.
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					s, _ = d.Wait(ctx, hd.ID)
					cancel()
				}
				switch {
				case s.State == core.SandboxRunning || s.State == "":
					goesOn(t, hd, 0)
				case s.State == core.SandboxDead && err == nil && !resume:
					t.Errorf("%s: no error, and dead", name)
				default:
					whole(t, h, d, hd, s, into, 1, victim == "gofer")
				}
				if !resume && err == nil && frozen.Image == nil && frozen.Lost == "" {
					t.Errorf("%s: nobody says why there is no image", name)
				}
				if err := d.Destroy(t.Context(), hd.ID); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
					t.Errorf("%s: left %v, error %v", name, ids, err)
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}
