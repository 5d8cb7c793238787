package scenarios

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/testkit"
)

// instants of a snapshot with memory, by what is on the disk: dir is its own.
var instants = map[string]func(dir string) bool{
	"memory":    func(dir string) bool { return isThere(dir, "image.new") },
	"image":     func(dir string) bool { return isThere(dir, "image") },
	"files":     func(dir string) bool { return isThere(dir, "upper") },
	"committed": func(dir string) bool { return isThere(dir+".json", "") },
}

func isThere(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// snapshots are the directories of all.
func (p *program) snapshots(t *testing.T) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(p.state, "layers", "snp_??????????????????"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// killAt kills the daemon at an instant of the next snapshot that is taken.
func (p *program) killAt(t *testing.T, instant func(string) bool, before []string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		for _, dir := range p.snapshots(t) {
			if !slices.Contains(before, dir) && instant(dir) {
				p.kill(t)
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no snapshot comes so far")
		}
		<-time.After(200 * time.Microsecond)
	}
}

// TestKillWhileFallingAsleep kills the daemon while it suspends a session, and
// while it forks one: files are there, the service counts on where the memory
// was whole, and there is one sandbox at most.
func TestKillWhileFallingAsleep(t *testing.T) {
	p := serve(t, scripts(mendHello(kept)), "running: {sessions: 4, sandboxes: 8, builds: 1, idle: 3s, warm: {min: 0, max: 0}}\n")
	c := p.client(t, "")
	env := testkit.Build(t, c, lively(t), "tiny")
	token := testkit.NewPerson(t, c, "ana")
	c = p.client(t, token)
	made, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: "Mend the greeting"})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Session.ID
	before := p.snapshots(t)
	testkit.Await(t, c, id, made.Prompt.ID)
	n := 0
	for _, fork := range []bool{false, true} {
		for _, name := range []string{"memory", "image", "files", "committed"} {
			n++
			t.Logf("fork %t, killed at %q", fork, name)
			mustPeek(t, c, id, fmt.Sprintf("echo %d >>rounds.tmp", n))
			if fork {
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan struct{})
				go func() { defer close(over); _, _ = c.Fork(ctx, id, api.ForkSession{}) }()
				p.killAt(t, instants[name], before)
				cancel()
				<-over
			} else {
				p.killAt(t, instants[name], before)
			}
			p.start(t)
			c = p.client(t, token)
			if out := mustPeek(t, c, id, "cat notes.tmp; tail -n 1 rounds.tmp; wc -l <rounds.tmp"); out != fmt.Sprintf("remembered\n%d\n%d", n, n) {
				t.Errorf("fork %t, killed at %q: it says %q", fork, name, out)
			}
			if out := mustPeek(t, c, id, "a=$(cat /tmp/count); sleep 0.5; [ $(cat /tmp/count) -gt $a ] && echo on"); out != "on" {
				t.Errorf("fork %t, killed at %q: the service stands still: %q", fork, name, out)
			}
			owners := map[string]int{}
			list, err := p.client(t, "").Sandboxes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, box := range list {
				if box.State != core.SandboxGone {
					owners[string(box.Session)]++
				}
			}
			if owners[string(id)] > 1 {
				t.Errorf("fork %t, killed at %q: the session has %d sandboxes", fork, name, owners[string(id)])
			}
			before = p.snapshots(t)
		}
	}
}
