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

// counter is a process that counts on, holds a file that has no name any more,
// and says both when asked.
const counter = `n=0; echo "kept in a deleted file" >gone; exec 3<gone; rm gone
while :; do n=$((n+1)); echo $n >count.new; mv count.new count; sleep 0.05; if [ -e ask ] && [ ! -e answer ]; then cat <&3 >answer.new; mv answer.new answer; fi; done`

// counts waits until the counter has counted further than from.
func counts(t *testing.T, h sandbox.Handle, from int) (n int) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		res := try(t, h, "cat count; sleep 0.05")
		if _, err := fmt.Sscan(string(res.Stdout), &n); err == nil && n > from {
			return n
		}
	}
	t.Fatalf("the process of sandbox %s does not go on from %d", h.ID, from)
	return 0
}

func testClones(t *testing.T, r *Rig) {
	if !r.Driver.Capabilities().Memory {
		t.Skip("no memory images")
	}
	h := r.create(t, nil)
	shell(t, h, "echo parent >who")
	background(t, h, counter)
	counts(t, h, 0)
	frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f"), Memory: true})
	if err != nil || frozen.Image == nil {
		t.Fatalf("froze %+v, error %v", frozen, err)
	}
	again, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f"), Memory: true})
	if err != nil || again.Image == nil || again.Image.Dir != frozen.Image.Dir {
		t.Errorf("freezing again gives %+v, error %v", again, err)
	}
	if s := r.wait(t, h.ID); s.State != core.SandboxFrozen {
		t.Errorf("after a freeze the status is %+v", s)
	}
	if err := r.Driver.Destroy(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	const n = 3
	clones := make([]sandbox.Handle, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			spec := r.spec()
			spec.Layers, spec.Image = []string{frozen.Upper, r.Base}, frozen.Image
			spec.Token = fmt.Sprintf("the-token-of-clone-%d", i)
			if err := r.Driver.Fits(t.Context(), spec); err != nil {
				t.Error(err)
			}
			var err error
			if clones[i], err = r.Driver.Create(t.Context(), spec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, c := range clones {
		if got := shell(t, c, fmt.Sprintf("cat who; echo %d >who", i)); got != "parent" {
			t.Errorf("clone %d finds %q", i, got)
		}
		if err := r.Driver.Open(t.Context(), c.ID); err != nil {
			t.Error(err)
		}
	}
	for i, c := range clones {
		if got := shell(t, c, "cat who"); got != fmt.Sprint(i) {
			t.Errorf("clone %d sees the files of %s", i, got)
		}
		// Each answers to its own token alone.
		other := guest.NewTCPClient(c.Guest, clones[(i+1)%n].Token)
		if _, err := other.Health(t.Context()); err == nil {
			t.Errorf("clone %d answers to the token of another", i)
		}
		other.Close()
		image := guest.NewTCPClient(c.Guest, frozen.Image.Token)
		if _, err := image.Health(t.Context()); err == nil {
			t.Errorf("clone %d answers to the token of the image", i)
		}
		image.Close()
		if !r.Forgets {
			from := counts(t, c, 0)
			shell(t, c, "touch ask; for i in $(seq 100); do [ -e answer ] && break; sleep 0.05; done")
			if got := shell(t, c, "cat answer"); got != "kept in a deleted file" {
				t.Errorf("the deleted file of clone %d says %q", i, got)
			}
			counts(t, c, from)
		}
	}
}

// testResumeFull freezes a sandbox that uses most of what it may: what ran before
// and what goes on do not fit into the limit together.
func testResumeFull(t *testing.T, r *Rig) {
	r.needLimits(t)
	if !r.Driver.Capabilities().Fork {
		t.Skip("cannot go on")
	}
	h := r.create(t, func(s *sandbox.Spec) { s.Limits.Memory = 384 << 20 })
	background(t, h, "(head -c 220M /dev/zero; touch filled; sleep 600) | tail -c 220M")
	background(t, h, counter)
	shell(t, h, "for i in $(seq 300); do [ -e filled ] && break; sleep 0.1; done; [ -e filled ]")
	n := counts(t, h, 0)
	for round := range 2 {
		_, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, fmt.Sprint("f", round)), Memory: true, Resume: true})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if s, err := r.Driver.Status(t.Context(), h.ID); err != nil || s.State != core.SandboxRunning || s.Memory < 220<<20 {
			t.Fatalf("after round %d the status is %+v, error %v", round, s, err)
		}
		n = counts(t, h, n)
	}
}

func testResume(t *testing.T, r *Rig) {
	if !r.Driver.Capabilities().Fork {
		t.Skip("cannot go on")
	}
	h := r.create(t, nil)
	shell(t, h, "echo before >a")
	background(t, h, counter)
	n := counts(t, h, 0)
	var layers []string
	for round := range 3 {
		opts := sandbox.FreezeOptions{Into: filepath.Join(r.Dir, fmt.Sprint("f", round)), Memory: true, Resume: true}
		frozen, err := r.Driver.Freeze(t.Context(), h.ID, opts)
		if err != nil || frozen.Image == nil {
			t.Fatalf("froze %+v, error %v", frozen, err)
		}
		if again, err := r.Driver.Freeze(t.Context(), h.ID, opts); err != nil || again.Upper != frozen.Upper {
			t.Errorf("freezing again gives %+v, error %v", again, err)
		}
		if s, err := r.Driver.Status(t.Context(), h.ID); err != nil || s.State != core.SandboxRunning {
			t.Fatalf("after round %d the status is %+v, error %v", round, s, err)
		}
		layers = append([]string{frozen.Upper}, layers...)
		if !r.Forgets {
			n = counts(t, h, n)
		}
		if got := shell(t, h, fmt.Sprintf("cat a; echo %d >>a", round)); !strings.HasPrefix(got, "before") {
			t.Errorf("after round %d the file says %q", round, got)
		}
	}
	if got := shell(t, h, "cat a"); got != "before\n0\n1\n2" {
		t.Errorf("in the end the file says %q", got)
	}
	// What was frozen is what was there at that moment.
	spec := r.spec()
	spec.Layers = append(slices.Clone(layers), r.Base)
	copied, err := r.Driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := shell(t, copied, "cat a"); got != "before\n0\n1" {
		t.Errorf("the snapshot says %q", got)
	}
	r.Kill(t, h.ID)
	if s := r.wait(t, h.ID); s.State != core.SandboxDead {
		t.Errorf("after its death it is %+v", s)
	}
	_, err = r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "dead"), Memory: true, Resume: true})
	wantKind(t, "going on when dead", err, core.Conflict)
	last, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "last"), Memory: true})
	if err != nil || last.Image != nil {
		t.Errorf("a freeze of the dead gives %+v, error %v", last, err)
	}
}

func testUnfit(t *testing.T, r *Rig) {
	if !r.Driver.Capabilities().Memory {
		t.Skip("no memory images")
	}
	h := r.create(t, nil)
	frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f"), Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*sandbox.Image){
		"another runtime":      func(i *sandbox.Image) { i.Fit.Runtime = "sha256:" + strings.Repeat("0", 64) },
		"no digest":            func(i *sandbox.Image) { i.Fit.Runtime = "../../etc/passwd" },
		"another drydock-init": func(i *sandbox.Image) { i.Fit.Init = "sha256:" + strings.Repeat("0", 64) },
		"another shape":        func(i *sandbox.Image) { i.Fit.Shape = "sha256:0" },
		"another network":      func(i *sandbox.Image) { i.Fit.Network = "host" },
		"a missing image":      func(i *sandbox.Image) { i.Dir = filepath.Join(r.Dir, "nowhere") },
	} {
		image := *frozen.Image
		change(&image)
		spec := r.spec()
		spec.Layers, spec.Image = []string{frozen.Upper, r.Base}, &image
		if err := r.Driver.Fits(t.Context(), spec); core.KindOf(err) != core.Conflict && core.KindOf(err) != core.NotFound {
			t.Errorf("%s fits: %v", name, err)
		}
		if _, err := r.Driver.Create(t.Context(), spec); err == nil {
			t.Errorf("%s was restored", name)
		}
	}
	if r.Forgets {
		return
	}
	// Damage that nobody has noticed before: an error, and nothing is left.
	entries, err := os.ReadDir(frozen.Image.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(frozen.Image.Dir, e.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(whole)/3)); err != nil {
			t.Fatal(err)
		}
		spec := r.spec()
		spec.Layers, spec.Image = []string{frozen.Upper, r.Base}, frozen.Image
		if _, err := r.Driver.Create(t.Context(), spec); err == nil {
			t.Errorf("an image with %s cut was restored", e.Name())
			_ = r.Driver.Destroy(t.Context(), spec.ID)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := r.Driver.List(t.Context()); err != nil || !slices.Equal(ids, []core.SandboxID{h.ID}) {
		t.Errorf("failed restores leave %v, error %v", ids, err)
	}
	r.create(t, func(s *sandbox.Spec) { s.Layers, s.Image = []string{frozen.Upper, r.Base}, frozen.Image })
}

func testAssign(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	got, err := r.Driver.Assign(t.Context(), h.ID, sandbox.Assignment{Purpose: "session", Owner: "ses_other"})
	if err != nil || got.Owner != "ses_other" || got.Token != h.Token || got.Guest != h.Guest {
		t.Errorf("assigned %+v, error %v", got, err)
	}
	if err := r.Driver.Open(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
	if got := shell(t, h, "echo here"); got != "here" {
		t.Errorf("it says %q", got)
	}
	id := core.NewSandboxID()
	_, err = r.Driver.Assign(t.Context(), id, sandbox.Assignment{})
	wantKind(t, "assign of the unknown", err, core.NotFound)
	wantKind(t, "open of the unknown", r.Driver.Open(t.Context(), id), core.NotFound)
	r.Kill(t, h.ID)
	r.wait(t, h.ID)
	_, err = r.Driver.Assign(t.Context(), h.ID, sandbox.Assignment{})
	wantKind(t, "assign of the dead", err, core.Conflict)
}

// While a sandbox rests nothing in it happens; then it goes on as if no time had
// passed, for whoever has it.
func testRest(t *testing.T, r *Rig) {
	h := r.create(t, nil)
	if !r.Driver.Capabilities().Rest {
		if err := r.Driver.Rest(t.Context(), h.ID); !core.Is(err, core.Unavailable) {
			t.Errorf("a driver that cannot: %v", err)
		}
		shell(t, h, "true")
		return
	}
	background(t, h, counter)
	counts(t, h, 0)
	rest := func() {
		t.Helper()
		for range 2 { // a second call changes nothing
			if err := r.Driver.Rest(t.Context(), h.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	rest()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	client := guest.NewTCPClient(h.Guest, h.Token)
	defer client.Close()
	if _, err := client.Health(ctx); err == nil {
		t.Error("a sandbox that rests answers")
	}
	cancel()
	if s, err := r.Driver.Status(t.Context(), h.ID); err != nil || s.State != core.SandboxRunning || s.Memory == 0 && r.Driver.Capabilities().Limits {
		t.Errorf("while it rests the status is %+v, error %v", s, err)
	}
	for range 2 {
		if err := r.Driver.Wake(t.Context(), h.ID); err != nil {
			t.Fatal(err)
		}
	}
	n := counts(t, h, 0)
	rest()
	h, err := r.Driver.Assign(t.Context(), h.ID, sandbox.Assignment{Purpose: "session", Owner: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	n = counts(t, h, n)
	rest()
	frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f"), Memory: true, Resume: true})
	if err != nil || frozen.Image == nil {
		t.Fatalf("froze %+v, error %v", frozen, err)
	}
	if !r.Forgets {
		counts(t, h, n)
	}
	shell(t, h, "true")
	rest()
	if err := r.Driver.Destroy(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Driver.Rest(t.Context(), h.ID); !core.Is(err, core.NotFound) {
		t.Errorf("a sandbox that is gone: %v", err)
	}
}

// The daemon dies while a sandbox rests. Whoever adopts it may not know that it
// does: it goes on, answers, and can be brought to rest again.
// testRestOften rests while programs start and end inside, which is when gVisor
// waits for its own processes.
func testRestOften(t *testing.T, r *Rig) {
	if !r.Driver.Capabilities().Rest {
		t.Skip("no rest")
	}
	h := r.create(t, nil)
	background(t, h, counter)
	n := counts(t, h, 0)
	for i := range 60 {
		if err := r.Driver.Rest(t.Context(), h.ID); err != nil {
			t.Fatalf("rest %d: %v", i, err)
		}
		if err := r.Driver.Wake(t.Context(), h.ID); err != nil {
			t.Fatalf("wake %d: %v", i, err)
		}
		n = counts(t, h, n)
	}
}

func testRestRecover(t *testing.T, r *Rig) {
	if !r.Driver.Capabilities().Rest {
		t.Skip("no rest")
	}
	h := r.create(t, nil)
	background(t, h, counter)
	n := counts(t, h, 0)
	if err := r.Driver.Rest(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	r.Driver = r.Reopen(t)
	if s, err := r.Driver.Recover(t.Context(), h); err != nil || s.State != core.SandboxRunning {
		t.Fatalf("recovered as %+v, error %v", s, err)
	}
	if got := shell(t, h, "echo awake"); got != "awake" {
		t.Errorf("the adopted sandbox says %q", got)
	}
	n = counts(t, h, n)
	if err := r.Driver.Rest(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Driver.Wake(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	counts(t, h, n)
}
