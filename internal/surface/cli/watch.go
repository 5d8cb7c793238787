package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

type watchOptions struct {
	pictures  string // directory to save them in
	full      bool
	after     int64
	fromStart bool // print who and what first
}

// Outcome is what --json prints at the end of a prompt that was waited for.
type Outcome struct {
	Session core.Session `json:"session"`
	Prompt  core.Prompt  `json:"prompt"`
	Run     *core.Run    `json:"run,omitempty"`
	Change  *core.Change `json:"change,omitempty"`
	Verdict string       `json:"verdict,omitempty"`
}

// watchPrompt shows a session until one of its prompts has ended, and turns
// the end into an exit code.
func (a *app) watchPrompt(ctx context.Context, c *client.Client, s core.Session, p core.Prompt, w watchOptions) error {
	err := a.follow(ctx, c, s, w, promptEnds(p.ID))
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return a.left(err, "Left; the session goes on.\n  follow it   drydock session log -f %s\n  stop it     drydock session stop %s\n", s.ID, s.ID)
		}
		return err
	}
	o, err := outcomeOf(ctx, c, s.ID, p.ID)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.document(o); err != nil {
			return err
		}
	}
	return promptExit(o.Prompt.State)
}

// promptExit is the exit code of a prompt that has ended.
func promptExit(state core.PromptState) error {
	switch state {
	case core.PromptDone:
		return nil
	case core.PromptHandedOver:
		return exit{core.ExitHandedOver}
	}
	return exit{core.ExitFailed}
}

// promptEnds is true at the event that ends a prompt.
func promptEnds(id core.PromptID) func(core.Event) bool {
	return func(ev core.Event) bool {
		if ev.Kind != core.EventPromptState {
			return false
		}
		d := render.Decode[core.PromptData](ev)
		return d.Prompt == id && core.PromptTable.Final(d.State)
	}
}

func outcomeOf(ctx context.Context, c *client.Client, id core.SessionID, prompt core.PromptID) (Outcome, error) {
	var o Outcome
	var err error
	if o.Session, err = c.Session(ctx, id); err != nil {
		return o, err
	}
	prompts, err := c.Prompts(ctx, id)
	if err != nil {
		return o, err
	}
	for _, p := range prompts {
		if p.ID == prompt {
			o.Prompt = p
		}
	}
	runs, err := c.Runs(ctx, id)
	if err != nil {
		return o, err
	}
	for _, r := range runs {
		if r.Prompt == prompt {
			r.Data = nil // what nodes tell one another is of no use here
			o.Run, o.Verdict = &r, r.Verdict
		}
	}
	if o.Session.Change != "" {
		if d, err := c.Change(ctx, string(o.Session.Change)); err == nil {
			o.Change = &d.Change
		}
	}
	return o, nil
}

type feed struct {
	ev  core.Event
	err error
}

// follow shows events until done is true of one, and a moment longer for what
// belongs to the same end.
func (a *app) follow(ctx context.Context, c *client.Client, s core.Session, w watchOptions, done func(core.Event) bool) error {
	r := a.sessionRenderer(ctx, c, s, w, true)
	defer r.Close()
	return a.pump(ctx, func(ctx context.Context, yield func(core.Event, error) bool) {
		for ev, err := range c.SessionEvents(ctx, s.ID, w.after) {
			if !yield(ev, err) {
				return
			}
		}
	}, r, done)
}

// view is what a stream of events is shown by.
type view interface {
	Event(ev core.Event)
	Tick()
	Err() error
}

// linger is how long a stream goes on after its end for what belongs to it.
const linger = 400 * time.Millisecond

// pump moves events into a view and ticks it. Its one goroutine reads the
// stream and ends with it.
func (a *app) pump(ctx context.Context, read func(context.Context, func(core.Event, error) bool), v view, done func(core.Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan feed, 64)
	go func() {
		defer close(events)
		read(ctx, func(ev core.Event, err error) bool {
			select {
			case events <- feed{ev, err}:
				return err == nil
			case <-ctx.Done():
				return false
			}
		})
	}()
	defer func() {
		cancel()
		for range events { // wait for the reader
		}
	}()
	tick := time.NewTicker(120 * time.Millisecond)
	defer tick.Stop()
	var end <-chan time.Time
	for {
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return core.E("cli.follow", core.Canceled, ctx.Err(), "left")
		case <-tick.C:
			v.Tick()
		case f, open := <-events:
			if !open {
				if end != nil {
					return nil
				}
				return core.E("cli.follow", core.Canceled, context.Cause(ctx), "left")
			}
			if f.err != nil {
				return f.err
			}
			v.Event(f.ev)
			if err := v.Err(); err != nil {
				return written(err)
			}
			switch {
			case end == nil && done(f.ev):
				end = time.After(linger)
			case end != nil && f.ev.Kind == core.EventSessionState:
				return nil
			}
		}
	}
}

// sessionRenderer makes the view of a session.
func (a *app) sessionRenderer(ctx context.Context, c *client.Client, s core.Session, w watchOptions, live bool) *render.Session {
	o := a.renderOptions(live)
	o.Full = w.full
	name := string(s.Environment)
	if e, err := c.Environment(ctx, string(s.Environment)); err == nil {
		name = e.Name
	}
	o.Environment = name
	if w.pictures != "" {
		o.Picture = func(p core.PictureData) string { return savePicture(ctx, c, w.pictures, p) }
	}
	r := render.NewSession(o)
	if w.fromStart {
		r.Header(s)
	}
	return r
}

// renderOptions: with --json the show goes nowhere, the document is the result.
func (a *app) renderOptions(live bool) render.Options {
	out := a.env.Stdout
	if a.json {
		out = io.Discard
	}
	return render.Options{
		Out: out, Width: a.width(a.env.Stdout), Style: a.style(a.env.Stdout), Now: a.env.Now,
		Terminal: live && !a.json && a.terminal(a.env.Stdout) && a.env.Getenv("TERM") != "dumb", Live: live,
	}
}

// savePicture returns where the picture lies, or "" when it could not be had.
func savePicture(ctx context.Context, c *client.Client, dir string, p core.PictureData) string {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return ""
	}
	path := filepath.Join(dir, render.FileName(p.Name)+"-"+render.Short(p.Digest)+".png")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := copyTo(path, 0o644, func(w io.Writer) error { return c.Blob(ctx, p.Digest, w) }); err != nil {
		return ""
	}
	return path
}

// showBuild shows the events of a build until it ends.
func (a *app) showBuild(ctx context.Context, c *client.Client, b core.Build) error {
	o := a.renderOptions(true)
	if e, err := c.Environment(ctx, string(b.Environment)); err == nil {
		o.Environment = e.Name
	}
	r := render.NewBuild(o)
	defer r.Close()
	return a.pump(ctx, func(ctx context.Context, yield func(core.Event, error) bool) {
		for ev, err := range c.BuildEvents(ctx, b.ID, 0) {
			if !yield(ev, err) {
				return
			}
		}
	}, r, func(ev core.Event) bool {
		return ev.Kind == core.EventBuildState && core.BuildTable.Final(render.Decode[core.BuildData](ev).State)
	})
}
