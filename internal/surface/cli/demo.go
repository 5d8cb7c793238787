package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newDemo() *cobra.Command {
	var o DemoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a whole session on a bundled repository",
		Long: `Build the environment of a small bundled shop, give an agent a real fault of it,
and show everything: start, work, proof, change. The model is a script, so no key
is needed; with --model and a provider configured, a real one does the work. It
needs root, like the daemon. --json ends with one object, on one line.`,
		Example: `  sudo drydock demo
  sudo drydock demo --model claude-sonnet-4-5
  sudo drydock demo --json | jq .verdict`,
		Args: noArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error { return a.demo(ctx, o) }),
	}
	cmd.Flags().StringVar(&o.Model, "model", "", "model to ask (default: the script)")
	cmd.Flags().BoolVar(&o.Fresh, "fresh", false, "build the environment without the cache")
	return cmd
}

// DemoResult is the last thing demo --json prints.
type DemoResult struct {
	Session core.Session      `json:"session"`
	Change  *core.Change      `json:"change,omitempty"`
	Verdict string            `json:"verdict"`
	Checks  []core.CheckData  `json:"checks"`
	Phases  map[string]int64  `json:"phases"` // milliseconds
	Cost    core.Cost         `json:"cost"`
	Fixed   int               `json:"fixed"`
	Kept    int               `json:"kept"`
	Broken  int               `json:"broken"`
	Files   map[string]string `json:"pictures"` // name to path
}

func (a *app) demo(ctx context.Context, o DemoOptions) (err error) {
	if a.env.Demo == nil {
		return a.without("a demo")
	}
	o.State, o.Stderr = first(a.state, a.env.Getenv("DRYDOCK_STATE")), a.env.Stderr
	host, err := a.env.Demo(ctx, o)
	if err != nil {
		return err
	}
	if host.Close != nil {
		defer func() { err = errors.Join(err, host.Close()) }()
	}
	c, err := client.New(client.Options{URL: host.URL, Token: host.Token})
	if err != nil {
		return err
	}
	defer c.Close()
	t := &demoTimes{phases: map[string]int64{}, files: map[string]string{}}
	if err := a.demoBuild(ctx, c, host, o, t); err != nil {
		return err
	}
	out, err := a.demoSession(ctx, c, host, t)
	if err != nil {
		return err
	}
	t.saveProof(ctx, c, host.Pictures)
	if a.json {
		if err := a.line(t.result(out)); err != nil {
			return err
		}
	} else if err := a.demoSummary(ctx, c, t, out, host); err != nil {
		return err
	}
	if host.Wait && !a.json && a.terminal(a.env.Stdout) {
		<-ctx.Done()
	}
	return promptExit(out.Prompt.State)
}

// demoTimes collects what the summary tells.
type demoTimes struct {
	phases   map[string]int64
	order    []string
	files    map[string]string
	checks   []core.CheckData
	verdict  core.VerdictData
	evidence core.EvidenceID
	restore  time.Duration
}

func (t *demoTimes) phase(name string, d time.Duration) {
	if _, ok := t.phases[name]; !ok {
		t.order = append(t.order, name)
	}
	t.phases[name] += d.Milliseconds()
}

func (t *demoTimes) see(ev core.Event) {
	switch ev.Kind {
	case core.EventPhase:
		d := render.Decode[core.Phase](ev)
		if d.Duration > 0 {
			t.phase(d.Name, d.Duration)
		}
	case core.EventNodeStarted:
		if t.restore > 0 && t.phases["restore"] == 0 { // nobody timed it closer
			t.phase("restore", t.restore)
		}
	case core.EventNodeFinished:
		d := render.Decode[core.NodeData](ev)
		t.phase(first(d.Node, d.Title), d.Duration)
	case core.EventSandbox:
		d := render.Decode[core.SandboxData](ev)
		if d.State == core.SandboxRunning && d.Duration > 0 && t.restore == 0 {
			t.restore = d.Duration
		}
	case core.EventCheck:
		t.checks = append(t.checks, render.Decode[core.CheckData](ev))
	case core.EventVerdict:
		t.verdict = render.Decode[core.VerdictData](ev)
		t.evidence = t.verdict.Evidence
	}
}

// saveProof puts the pictures of the evidence (each page before, after, and
// what differs) beside those that the agent took. The demo does not fail for
// want of a picture.
func (t *demoTimes) saveProof(ctx context.Context, c *client.Client, dir string) {
	if t.evidence == "" || dir == "" {
		return
	}
	ev, err := c.Evidence(ctx, t.evidence)
	if err != nil {
		return
	}
	for _, f := range readManifest(ev.Manifest).artifacts {
		if f.MediaType != "image/png" {
			continue
		}
		path := filepath.Join(dir, "proof-"+f.fileName())
		if copyTo(path, 0o644, func(w io.Writer) error { return c.EvidenceFile(ctx, t.evidence, f.Digest, w) }) == nil {
			t.files["proof "+f.Name] = path
		}
	}
}

func (t *demoTimes) result(o Outcome) DemoResult {
	r := DemoResult{
		Session: o.Session, Change: o.Change, Verdict: first(t.verdict.Verdict, o.Verdict), Checks: t.checks,
		Phases: t.phases, Cost: o.Session.Cost, Fixed: t.verdict.Fixed, Kept: t.verdict.Kept, Broken: t.verdict.Broken, Files: t.files,
	}
	if r.Checks == nil {
		r.Checks = []core.CheckData{}
	}
	return r
}

func (a *app) demoBuild(ctx context.Context, c *client.Client, host DemoHost, o DemoOptions, t *demoTimes) error {
	start := a.env.Now()
	b, err := c.CreateBuild(ctx, api.CreateBuild{Source: host.Source, Name: host.Name, Fresh: o.Fresh})
	if err != nil {
		return err
	}
	b, err = a.watchBuild(ctx, c, b)
	if err != nil {
		return err
	}
	if b.State != core.BuildDone {
		return exit{core.ExitFailed}
	}
	for _, p := range b.Phases {
		t.phase("build "+p.Name, p.Duration)
	}
	t.phase("build", a.env.Now().Sub(start))
	return a.quietly("\n")
}

// quietly prints unless the output is for programs.
func (a *app) quietly(text string) error {
	if a.json {
		return nil
	}
	return a.printf("%s", text)
}

// demoSession runs the task as a person of its own, so that whoever watches
// may approve the change: nobody approves the work of their own prompt.
func (a *app) demoSession(ctx context.Context, c *client.Client, host DemoHost, t *demoTimes) (Outcome, error) {
	made, err := c.CreateToken(ctx, api.CreateToken{Handle: "demo", Name: "Demo", Email: "demo@example.com", Label: "drydock demo"})
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = c.RevokeToken(context.WithoutCancel(ctx), made.Token.ID) }() // best effort: it was for this session alone
	asker, err := client.New(client.Options{URL: host.URL, Token: made.Secret})
	if err != nil {
		return Outcome{}, err
	}
	defer asker.Close()
	created, err := asker.CreateSession(ctx, api.CreateSession{Environment: host.Name, Prompt: host.Task, Model: host.Model})
	if err != nil {
		return Outcome{}, err
	}
	o := a.renderOptions(true)
	o.Environment, o.Flags = host.Name, host.Flags
	o.Picture = func(p core.PictureData) string {
		if host.Pictures == "" {
			return ""
		}
		path := savePicture(ctx, c, host.Pictures, p)
		if path != "" {
			t.files[p.Name] = path
		}
		return path
	}
	r := render.NewSession(o)
	r.Header(created.Session)
	ends := promptEnds(created.Prompt.ID)
	err = a.pump(ctx, func(ctx context.Context, yield func(core.Event, error) bool) {
		for ev, err := range c.SessionEvents(ctx, created.Session.ID, 0) {
			if !yield(ev, err) {
				return
			}
		}
	}, seen{r, t.see}, ends)
	r.Close()
	if errors.Is(err, context.Canceled) {
		return Outcome{}, a.left(err, "Left; the session goes on.\n  follow it   drydock session log -f %s %s\n", created.Session.ID, host.Flags)
	}
	if err != nil {
		return Outcome{}, err
	}
	return outcomeOf(ctx, c, created.Session.ID, created.Prompt.ID)
}

// seen is a view that somebody else looks at too.
type seen struct {
	*render.Session
	see func(core.Event)
}

func (s seen) Event(ev core.Event) {
	s.see(ev)
	s.Session.Event(ev)
}

func (a *app) demoSummary(ctx context.Context, c *client.Client, t *demoTimes, o Outcome, host DemoHost) error {
	st := a.style(a.env.Stdout)
	var b strings.Builder
	b.WriteString("\n" + st.Bold("Where the time went") + "\n")
	for _, name := range t.order {
		b.WriteString("  " + render.Pad(render.Words(name), 24) + "  " + render.Duration(time.Duration(t.phases[name])*time.Millisecond) + "\n")
	}
	if len(t.files) > 0 {
		b.WriteString("\n" + st.Bold("Pictures") + "  " + filepath.Dir(anyOf(t.files)) + "\n")
	}
	if t.evidence != "" {
		b.WriteString(st.Bold("Evidence") + "  " + render.Line(string(t.evidence)) + "\n")
	}
	if o.Session.Usage.Calls > 0 {
		b.WriteString(st.Bold("Cost") + "      " + render.Cost(o.Session.Cost) + "\n")
	}
	b.WriteString(a.demoPage(ctx, c, o, host))
	if host.Note != "" {
		b.WriteString("\n" + strings.Join(render.Wrap(host.Note, a.width(a.env.Stdout)), "\n") + "\n")
	}
	return a.printf("%s", b.String())
}

// demoPage says where to look at all of it: without a code there is nothing to
// look at, and then nothing is said.
func (a *app) demoPage(ctx context.Context, c *client.Client, o Outcome, host DemoHost) string {
	code, err := c.LoginCode(ctx)
	if err != nil {
		return ""
	}
	st := a.style(a.env.Stdout)
	at := first(code.URL, c.URL())
	text := "\n" + st.Bold("Page") + "      " + at + "/s/" + string(o.Session.ID) + "\n"
	if o.Session.Change != "" {
		text += "          " + at + "/changes/" + string(o.Session.Change) + "\n"
	}
	return text + "          sign in with " + st.Bold(spelled(code.Code)) + " (once, within 5 minutes; drydock web " + host.Flags + " makes another)\n"
}

func anyOf(m map[string]string) string {
	for _, v := range m {
		return v
	}
	return ""
}
