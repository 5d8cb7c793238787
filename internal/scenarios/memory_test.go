package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/daemon"
	"drydock/internal/execution/sandbox"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
	"drydock/internal/testkit"
)

// lively is the tiny repository with a service that counts, so that one sees
// whether its process went on or began anew.
func lively(t *testing.T) string {
	t.Helper()
	return tinyRepo(t, func(files map[string]string) {
		files["drydock.yaml"] = tinyRecipe + `services:
  count: {run: "cd /; n=0; while :; do n=$((n+1)); echo $n >/tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.1; done", ready: "test -s /tmp/count"}
`
	})
}

// peek runs a command of a person in the sandbox of a session.
func peek(ctx context.Context, c *client.Client, id core.SessionID, shell string) (string, error) {
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	end, err := c.Exec(ctx, id, client.Exec{ExecRequest: api.ExecRequest{Argv: []string{"sh", "-c", shell}}, Out: &out, Err: &out})
	if err == nil && end.ExitCode != 0 {
		err = fmt.Errorf("%q ended as %+v", shell, end)
	}
	return strings.TrimSpace(out.String()), err
}

func mustPeek(t *testing.T, c *client.Client, id core.SessionID, shell string) string {
	t.Helper()
	out, err := peek(t.Context(), c, id, shell)
	if err != nil {
		t.Fatalf("%s: %q, %v", shell, out, err)
	}
	return out
}

// boxes are the sandboxes that a daemon has at work.
func boxes(t *testing.T, d *testkit.Daemon) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(d.State, "*", "sandboxes", "sbx_*"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(d.State, "sandboxes", "sbx_*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(dirs, more...)
}

// eventually waits for what happens by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not so after two minutes: %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// told is the log of a session so far.
func told(t *testing.T, c *client.Client, id core.SessionID) (out []core.Event) {
	t.Helper()
	s, err := c.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for e, err := range c.SessionEvents(ctx, s.ID, 0) {
		if err != nil {
			break
		}
		if e.Seq > 0 {
			out = append(out, e)
		}
	}
	return out
}

// TestSuspendedSession lets a session fall asleep, and then everybody wants
// something of it at once.
func TestSuspendedSession(t *testing.T) {
	d := testkit.Start(t, testkit.Options{
		Script: scripts(mendHello(kept), mend("bye", "farewell", "bye", "By, $1", "Bye, $1", remembers)), MaxSessions: 8,
		Change: func(o *daemon.Options) { o.IdleAfter = 2 * time.Second },
	})
	env := d.BuildEnvironment(t, lively(t))
	first := d.Run(t, env, "Mend the greeting")
	proven(t, first, "ana", 1)
	id, c := first.Session.ID, d.Client(t, "ana")
	asleep := func() { t.Helper(); eventually(t, "no sandbox is left", func() bool { return len(boxes(t, d)) == 0 }) }
	asleep()
	if s := testkit.Of[core.SandboxData](t, told(t, c, id), core.EventSandbox); s[len(s)-1].Cause != "suspended" {
		t.Errorf("it fell asleep as %+v", s[len(s)-1])
	}
	// A look wakes it, where it was: the service counts on.
	before := number(t, mustPeek(t, c, id, "cat /tmp/count"))
	asleep()
	after := number(t, mustPeek(t, c, id, "cat notes.tmp >&2; cat /tmp/count | tail -n 1"))
	if after <= before {
		t.Errorf("the service counted %d, and after a sleep %d", before, after)
	}
	asleep()

	// Everybody at once.
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if out, err := peek(t.Context(), c, id, "cat notes.tmp"); err != nil || out != "remembered" {
				t.Errorf("look %d: %q, %v", i, out, err)
			}
		})
	}
	var forked api.Forked
	wg.Go(func() {
		var err error
		if forked, err = c.Fork(t.Context(), id, api.ForkSession{Count: 2}); err != nil {
			t.Errorf("fork: %v", err)
		}
	})
	second := d.Prompt(t, "ben", id, "Mend the farewell")
	wg.Wait()
	proven(t, second, "ben", 1)
	if len(forked.Children) != 2 {
		t.Fatalf("forked %+v", forked)
	}
	for _, child := range forked.Children {
		if child.Error != "" || child.From != "memory" {
			t.Errorf("a child came from %q: %s", child.From, child.Error)
		}
		if out, err := peek(t.Context(), c, child.Session.ID, "cat notes.tmp; echo child >mine.tmp"); err != nil || out != "remembered" {
			t.Errorf("a child says %q, %v", out, err)
		}
	}
	asleep()

	// A fork of a fork, while all of them sleep.
	child := forked.Children[0].Session.ID
	again, err := c.Fork(t.Context(), child, api.ForkSession{})
	if err != nil || len(again.Children) != 1 || again.Children[0].Error != "" {
		t.Fatalf("a fork of a fork is %+v, %v", again, err)
	}
	grandchild := again.Children[0].Session.ID
	if out := mustPeek(t, c, grandchild, "cat notes.tmp mine.tmp"); out != "remembered\nchild" {
		t.Errorf("the fork of a fork says %q", out)
	}
	// One that idles is archived: its sandbox goes.
	if err := c.Archive(t.Context(), grandchild); err != nil {
		t.Fatal(err)
	}
	asleep()
	if _, err := peek(t.Context(), c, grandchild, "true"); err == nil {
		t.Error("an archived session has been woken")
	}
	// A stop of one that idles takes nothing from it.
	mustPeek(t, c, child, "true")
	if err := c.Stop(t.Context(), child, "enough"); err != nil && !core.Is(err, core.Conflict) {
		t.Errorf("stop of an idle session: %v", err)
	}
	if out := mustPeek(t, c, child, "cat mine.tmp"); out != "child" {
		t.Errorf("after a stop it says %q", out)
	}

	// The daemon starts again, with some awake and some asleep.
	mustPeek(t, c, id, "echo late >late.tmp")
	d.Restart(t)
	c = d.Client(t, "ana")
	for who, want := range map[core.SessionID]string{id: "late", child: "child"} {
		if out := mustPeek(t, c, who, "cat late.tmp mine.tmp 2>/dev/null || true"); out != want {
			t.Errorf("after a restart session %s says %q, want %q", who, out, want)
		}
	}
	asleep()
}

func number(t *testing.T, s string) int {
	t.Helper()
	lines := strings.Split(s, "\n")
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		t.Fatalf("%q is no number", s)
	}
	return n
}

const slowly = `      - calls: [{tool: run, input: {command: "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.5; done; echo remembered > notes.tmp"}}]
`

// TestForkWhileItWorks forks a session in the middle of a tool call, more than
// once, and once nobody waits for the answer.
func TestForkWhileItWorks(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello(slowly)), MaxSessions: 4})
	env := d.BuildEnvironment(t, lively(t))
	c := d.Client(t, "ana")
	made, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: "Mend the greeting"})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Session.ID
	testkit.Follow(t, c, id, func(e core.Event) bool { return e.Kind == core.EventToolStarted })
	var children []api.ForkedSession
	for range 2 {
		forked, err := c.Fork(t.Context(), id, api.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, forked.Children...)
	}
	gone, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
	_, _ = c.Fork(gone, id, api.ForkSession{})
	leave()
	got := testkit.Await(t, c, id, made.Prompt.ID)
	proven(t, got, "ana", 1)
	for _, e := range testkit.Of[core.SandboxData](t, got.Events, core.EventSandbox) {
		if e.State == core.SandboxDead {
			t.Errorf("a fork has killed the sandbox: %+v", e)
		}
	}
	for _, e := range got.Events {
		if e.Kind == core.EventToolFinished && strings.Contains(string(e.Data), "line 1") && !strings.Contains(string(e.Data), "line 8") {
			t.Errorf("the tool call over which it was forked lacks output: %s", e.Data)
		}
	}
	for _, child := range children {
		if child.Error != "" || child.From != "memory" {
			t.Errorf("a child came from %q: %s", child.From, child.Error)
			continue
		}
		// What ran in the parent runs on in the child.
		eventually(t, "the child goes on", func() bool {
			out, err := peek(t.Context(), c, child.Session.ID, "cat notes.tmp")
			return err == nil && out == "remembered"
		})
	}
}

// TestLifetime: a sandbox close to the end of its lifetime is kept before, and
// people are told; the work goes on.
func TestLifetime(t *testing.T) {
	slow := strings.Replace(slowly, "sleep 0.5; done", "sleep 7; done", 1)
	d := testkit.Start(t, testkit.Options{
		Script: scripts(mendHello(slow)), MaxSessions: 4,
		Change: func(o *daemon.Options) { o.IdleAfter, o.Limits.Lifetime = 10*time.Second, 45*time.Second },
	})
	env := d.BuildEnvironment(t, lively(t))
	c := d.Client(t, "ana")
	made, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: "Mend the greeting"})
	if err != nil {
		t.Fatal(err)
	}
	events := testkit.Follow(t, c, made.Session.ID, func(e core.Event) bool {
		return e.Kind == core.EventWarning && testkit.Data[core.WarningData](t, e).Code == "lifetime_ends"
	})
	w := testkit.Data[core.WarningData](t, events[len(events)-1])
	if !strings.Contains(w.Message, "snp_") {
		t.Errorf("people are told %q", w.Message)
	}
	got := testkit.Await(t, c, made.Session.ID, made.Prompt.ID)
	died := slices.ContainsFunc(testkit.Of[core.SandboxData](t, got.Events, core.EventSandbox), func(s core.SandboxData) bool {
		return s.Cause == string(sandbox.CauseLifetime)
	})
	if got.Prompt.State != core.PromptDone || !died {
		t.Errorf("prompt %+v, died of it: %v\n%s", got.Prompt, died, testkit.Story(got.Events))
	}
}
