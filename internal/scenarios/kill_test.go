package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
	"drydock/internal/testkit"
)

// counted are commands that would be noticed if they ran twice.
const counted = `      - calls:
          - {tool: run, input: {command: "echo one >> count.tmp; sleep 0.3"}}
          - {tool: run, input: {command: "echo two >> count.tmp"}}
          - {tool: write, input: {path: kept.txt, content: "written before the kill\n"}}
      - calls: [{tool: run, input: {command: "echo three >> count.tmp; sleep 0.3; tr '\\n' ' ' < count.tmp"}}]
      - expect: [{tool: run, regex: "^one two three $"}]
        say: Each command ran once.
`

// killsOfOne is how often the daemon is killed in one session; the points of
// one session lie far apart.
const killsOfOne = 3

// TestKillEverywhere kills the daemon at every step of a session, as one
// undisturbed session names them.
func TestKillEverywhere(t *testing.T) {
	p := serve(t, scripts(mendHello(counted)), "running: {sessions: 1, sandboxes: 4, builds: 1}\n")
	c := p.client(t, "")
	env := testkit.Build(t, c, tinyRepo(t, nil), "tiny")
	ana := testkit.NewPerson(t, c, "ana")

	begun := time.Now()
	calm := p.session(t, ana, env, nil)
	took := time.Since(begun)
	points := steps(calm)
	t.Logf("a session of %d events, %d steps, took %s", len(calm), len(points), took.Round(time.Millisecond))
	rounds := (len(points) + killsOfOne - 1) / killsOfOne
	for i := range rounds {
		var mine []string
		for j := i; j < len(points); j += rounds {
			mine = append(mine, points[j])
		}
		t.Run(strings.Join(mine, ","), func(t *testing.T) { p.session(t, ana, env, mine) })
	}
}

// steps names the moments of a session: each node's start and end, each call
// of the agent, and what is shown of the outside. The end is no step: nothing
// is left to lose.
func steps(events []core.Event) []string {
	var out []string
	seen := map[string]int{}
	for _, e := range events {
		p := point(e)
		seen[p]++
		switch e.Kind {
		case core.EventSessionCreated, core.EventRunStarted, core.EventNodeStarted, core.EventNodeFinished, core.EventToolStarted,
			core.EventToolFinished, core.EventCommit, core.EventVerdict, core.EventChange, core.EventSandbox:
			out = append(out, fmt.Sprintf("%s#%d", p, seen[p]))
		case core.EventCheck:
			if seen[p] == 1 {
				out = append(out, p+"#1")
			}
		}
	}
	return out
}

func point(e core.Event) string {
	if e.Node == "" {
		return string(e.Kind)
	}
	return string(e.Kind) + "@" + e.Node
}

// session runs one prompt to its end while the daemon is killed and started
// again at some points, and looks at everything that must hold.
func (p *program) session(t *testing.T, token string, env core.Environment, points []string) []core.Event {
	t.Helper()
	c := p.client(t, token)
	made, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: "Mend the greeting"})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Session.ID
	var seen []core.Event
	for {
		at := p.watch(t, c, id, made.Prompt.ID, &seen, points)
		if at == "" {
			break
		}
		points = slices.DeleteFunc(slices.Clone(points), func(s string) bool { return s == at })
		p.kill(t)
		p.start(t)
		p.unchanged(t, c, id, seen)
	}
	if len(points) > 0 {
		t.Logf("the session ended without passing %v", points)
	}
	got := testkit.Result(t, c, id, made.Prompt.ID, seen)
	if got.Run.Verdict != "proven" || got.Prompt.State != core.PromptDone {
		t.Fatalf("prompt %+v\nrun %+v\n%s", got.Prompt, got.Run, testkit.Story(seen))
	}
	p.once(t, c, env, got)
	silence(t, seen)
	return seen
}

// silence names the longest pause of a log, for whoever wonders where the time
// went.
func silence(t *testing.T, events []core.Event) {
	t.Helper()
	most, at := time.Duration(0), 1
	for i := 1; i < len(events); i++ {
		if d := events[i].Time.Sub(events[i-1].Time); d > most {
			most, at = d, i
		}
	}
	t.Logf("longest pause: %s between %s and %s", most.Round(time.Millisecond), point(events[at-1]), point(events[at]))
}

// watch follows the session until one of the points, whose name it returns, or
// until the prompt has ended.
func (p *program) watch(t *testing.T, c *client.Client, id core.SessionID, prompt core.PromptID, seen *[]core.Event, points []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	count := map[string]int{}
	for _, e := range *seen {
		count[point(e)]++
	}
	for e, err := range c.SessionEvents(ctx, id, int64(len(*seen))) {
		if err != nil {
			t.Fatalf("%v\n%s", err, testkit.Story(*seen))
		}
		if e.Seq == 0 {
			continue
		}
		if e.Seq != int64(len(*seen))+1 {
			t.Fatalf("event %d came after %d", e.Seq, len(*seen))
		}
		*seen = append(*seen, e)
		count[point(e)]++
		if name := fmt.Sprintf("%s#%d", point(e), count[point(e)]); slices.Contains(points, name) {
			return name
		}
		if e.Kind == core.EventPromptState {
			if d := testkit.Data[core.PromptData](t, e); d.Prompt == prompt && core.PromptTable.Final(d.State) {
				return ""
			}
		}
	}
	t.Fatalf("the log ended\n%s", testkit.Story(*seen))
	return ""
}

// unchanged reads the whole log again and compares what was seen before.
func (p *program) unchanged(t *testing.T, c *client.Client, id core.SessionID, seen []core.Event) {
	t.Helper()
	page, err := c.SessionLog(t.Context(), id, 0, len(seen))
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) < len(seen) {
		t.Fatalf("%d of %d events are left after a kill", len(page.Items), len(seen))
	}
	for i, e := range seen {
		now := page.Items[i]
		if now.Seq != e.Seq || now.Kind != e.Kind || !now.Time.Equal(e.Time) || !bytes.Equal(now.Data, e.Data) {
			t.Fatalf("event %d was %s %s, is %s %s", e.Seq, e.Kind, e.Data, now.Kind, now.Data)
		}
	}
}

// once checks that nothing of a session's outside happened twice.
func (p *program) once(t *testing.T, c *client.Client, env core.Environment, got testkit.Outcome) {
	t.Helper()
	runs, err := c.Runs(t.Context(), got.Session.ID)
	if err != nil || len(runs) != 1 {
		t.Errorf("%d runs for one prompt: %v", len(runs), err)
	}
	changes, err := c.Changes(t.Context(), client.ChangeQuery{Session: string(got.Session.ID)}, core.Page{})
	if err != nil || len(changes.Items) != 1 {
		t.Errorf("%d changes for one session: %v", len(changes.Items), err)
	}
	repo := filepath.Join(p.state, "forge", env.Name+".git")
	if n := testkit.Git(t, repo, "rev-list", "--count", "main.."+got.Session.Branch); n != "1" {
		t.Errorf("%s commits on %s, want 1", n, got.Session.Branch)
	}
	if text := testkit.Git(t, repo, "show", got.Session.Branch+":kept.txt"); text != "written before the kill" {
		t.Errorf("kept.txt holds %q", text)
	}
	if detail, err := c.Change(t.Context(), string(got.Session.Change)); err != nil || len(detail.Comments) > 0 || len(detail.Commits) != 1 {
		t.Errorf("change %+v: %v", detail, err)
	}
	kinds := map[core.EventKind]int{}
	for _, e := range got.Events {
		kinds[e.Kind]++
	}
	for _, kind := range []core.EventKind{core.EventSessionCreated, core.EventPromptQueued, core.EventRunStarted, core.EventCommit, core.EventChange, core.EventRunFinished} {
		if kinds[kind] != 1 {
			t.Errorf("%d events %s, want 1\n%s", kinds[kind], kind, testkit.Story(got.Events))
		}
	}
}
