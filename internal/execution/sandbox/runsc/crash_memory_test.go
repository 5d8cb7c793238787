package runsc_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
)

const longToken = "the-token-of-this-sandbox"

// steps of a freeze with memory, by what can be seen on the disk at each.
var steps = []struct {
	name string
	at   func(dir, into string) bool
}{
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
func whole(t *testing.T, h *host, d *runsc.Driver, hd sandbox.Handle, s sandbox.Status, into string, n int) {
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
	if again, err = d.Create(t.Context(), spec); err != nil {
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
					whole(t, h, d, hd, s, into, n)
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
