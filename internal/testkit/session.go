package testkit

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

// Patience is how long a scenario waits for anything before it says what
// happened so far and fails.
const Patience = 8 * time.Minute

// Repo makes a git repository of some files, in one commit on main.
func Repo(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commitAll(t, dir)
	return dir
}

// RepoOf makes a git repository of a directory, in one commit on main.
func RepoOf(t testing.TB, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(from)))
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	commitAll(t, dir)
	return dir
}

func commitAll(t testing.TB, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "Begin"}} {
		Git(t, dir, args...)
	}
}

// Git runs git in a directory, apart from the settings of this machine.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Tester", "GIT_AUTHOR_EMAIL=tester@example.com", "GIT_COMMITTER_NAME=Tester", "GIT_COMMITTER_EMAIL=tester@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// BuildEnvironment builds a repository's environment and waits for it.
func (d *Daemon) BuildEnvironment(t testing.TB, repo string) core.Environment {
	t.Helper()
	return Build(t, d.Client(t, "operator"), repo, filepath.Base(repo))
}

// Build is BuildEnvironment on any daemon.
func Build(t testing.TB, c *client.Client, repo, name string) core.Environment {
	t.Helper()
	if strings.Trim(name, "0123456789") == "" {
		name = "repo" + name
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	b, err := c.CreateBuild(ctx, api.CreateBuild{Source: repo, Name: name})
	if err != nil {
		t.Fatalf("build %s: %v (%s)", name, err, core.HintOf(err))
	}
	var log strings.Builder
	for e, err := range c.BuildEvents(ctx, b.ID, 0) {
		if err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, log.String())
		}
		switch e.Kind {
		case core.EventLog:
			log.WriteString(Data[core.LogData](t, e).Text)
		case core.EventBuildState:
			switch s := Data[core.BuildData](t, e); s.State {
			case core.BuildFailed, core.BuildStopped:
				t.Fatalf("build %s: %s: %+v\n%s", name, s.State, s.Failure, log.String())
			case core.BuildDone:
				env, err := c.Environment(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				return env
			}
		}
	}
	t.Fatalf("build %s: its log ended", name)
	return core.Environment{}
}

// Outcome is what a prompt came to.
type Outcome struct {
	Session core.Session
	Prompt  core.Prompt
	Run     core.Run
	Change  core.Change // empty when there is none
	Events  []core.Event
}

// Run has "ana" start a session and waits for its prompt to end.
func (d *Daemon) Run(t testing.TB, env core.Environment, prompt string) Outcome {
	t.Helper()
	c := d.Client(t, "ana")
	made, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: prompt})
	if err != nil {
		t.Fatalf("create a session: %v (%s)", err, core.HintOf(err))
	}
	return Await(t, c, made.Session.ID, made.Prompt.ID)
}

// Prompt queues a follow-up as somebody and waits for it to end.
func (d *Daemon) Prompt(t testing.TB, handle string, id core.SessionID, text string) Outcome {
	t.Helper()
	c := d.Client(t, handle)
	p, err := c.Prompt(t.Context(), id, api.CreatePrompt{Text: text})
	if err != nil {
		t.Fatalf("prompt: %v (%s)", err, core.HintOf(err))
	}
	return Await(t, c, id, p.ID)
}

// Await follows a session until a prompt has ended.
func Await(t testing.TB, c *client.Client, id core.SessionID, prompt core.PromptID) Outcome {
	t.Helper()
	events := Follow(t, c, id, func(e core.Event) bool {
		if e.Kind != core.EventPromptState {
			return false
		}
		p := Data[core.PromptData](t, e)
		return p.Prompt == prompt && core.PromptTable.Final(p.State)
	})
	return Result(t, c, id, prompt, events)
}

// Result reads what a prompt that has ended came to.
func Result(t testing.TB, c *client.Client, id core.SessionID, prompt core.PromptID, events []core.Event) Outcome {
	t.Helper()
	o := Outcome{Events: events}
	var err error
	if o.Session, err = c.Session(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	prompts, err := c.Prompts(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts {
		if p.ID == prompt {
			o.Prompt = p
		}
	}
	runs, err := c.Runs(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Prompt == prompt {
			o.Run = r
		}
	}
	if o.Session.Change != "" {
		detail, err := c.Change(t.Context(), string(o.Session.Change))
		if err != nil {
			t.Fatal(err)
		}
		o.Change = detail.Change
	}
	return o
}

// Follow reads a session's events from the first one until one satisfies, and
// returns them all. Numbers must have no gap.
func Follow(t testing.TB, c *client.Client, id core.SessionID, until func(core.Event) bool) []core.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var out []core.Event
	for e, err := range c.SessionEvents(ctx, id, 0) {
		if err != nil {
			t.Fatalf("follow %s: %v\n%s", id, err, Story(out))
		}
		if e.Seq == 0 {
			continue // text as it is generated
		}
		if e.Seq != int64(len(out))+1 {
			t.Fatalf("event %d came after %d events", e.Seq, len(out))
		}
		out = append(out, e)
		if until(e) {
			return out
		}
	}
	t.Fatalf("the log of %s ended\n%s", id, Story(out))
	return nil
}

// Data reads what an event carries.
func Data[T any](t testing.TB, e core.Event) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		t.Fatalf("event %d (%s): %v", e.Seq, e.Kind, err)
	}
	return v
}

// Of picks the events of one kind.
func Of[T any](t testing.TB, events []core.Event, kind core.EventKind) []T {
	t.Helper()
	var out []T
	for _, e := range events {
		if e.Kind == kind {
			out = append(out, Data[T](t, e))
		}
	}
	return out
}

// Story tells events to whoever reads a failed test.
func Story(events []core.Event) string {
	var b strings.Builder
	for _, e := range events {
		data := string(e.Data)
		if len(data) > 1500 {
			data = data[:700] + " ... " + data[len(data)-700:]
		}
		b.WriteString(e.Time.Format("15:04:05.000") + " " + string(e.Kind) + " " + e.Node + " " + data + "\n")
	}
	return b.String()
}
