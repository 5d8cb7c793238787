package surfacetest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

type tokens struct{ w *World }

func (s tokens) Authenticate(_ context.Context, secret string) (core.Author, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	t, ok := s.w.tokens[secret]
	if !ok || !t.Token.Revoked.IsZero() {
		return core.Author{}, core.E("token", core.Unauthorized, nil, "unknown token").WithHint("drydock token create makes one")
	}
	return s.w.users[t.Token.User], nil
}

func (s tokens) CreateToken(_ context.Context, _ core.Author, req api.CreateToken) (api.CreatedToken, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if _, ok := s.w.users[req.Handle]; !ok {
		s.w.users[req.Handle] = core.Author{Handle: req.Handle, Name: req.Name, Email: req.Email}
	}
	id := s.w.id("tok_")
	made := api.CreatedToken{Token: api.Token{ID: core.TokenID(id), User: req.Handle, Label: req.Label, Created: s.w.now}, Secret: "secret-of-" + id}
	s.w.tokens[made.Secret] = made
	return made, nil
}

func (s tokens) ListTokens(_ context.Context, _ core.Author, p core.Page) ([]api.Token, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	byID := map[core.TokenID]api.Token{}
	for _, t := range s.w.tokens {
		byID[t.Token.ID] = t.Token
	}
	var all []api.Token
	for n := 1; n <= s.w.ids["tok_"]; n++ {
		all = append(all, byID[core.TokenID(fmt.Sprintf("tok_%018d", n))])
	}
	return page(all, p)
}

func (s tokens) RevokeToken(_ context.Context, _ core.Author, id core.TokenID) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for secret, t := range s.w.tokens {
		if t.Token.ID == id {
			t.Token.Revoked = s.w.now
			s.w.tokens[secret] = t
			return nil
		}
	}
	return core.E("token.revoke", core.NotFound, nil, "token %s does not exist", id)
}

type sessions struct{ w *World }

func (s sessions) Create(_ context.Context, req core.NewSession) (core.Session, core.Prompt, error) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	env, err := w.env(req.Environment)
	if err != nil {
		return core.Session{}, core.Prompt{}, err
	}
	if id, ok := w.clientIDs[req.Prompt.ClientID]; ok && req.Prompt.ClientID != "" {
		p, _ := find(w.prompts, "prompt", "", func(p core.Prompt) bool { return p.ID == id })
		ses, _ := w.session(p.Session)
		return *ses, *p, nil
	}
	title, _, _ := strings.Cut(req.Prompt.Text, "\n")
	if req.Title != "" {
		title = req.Title
	}
	or := func(v, d string) string {
		if v == "" {
			return d
		}
		return v
	}
	ses := core.Session{
		ID: core.SessionID(w.id("ses_")), Environment: env.ID, Title: title, State: core.SessionQueued, Owner: req.Prompt.Author,
		Blueprint: or(req.Blueprint, "code-change"), Agent: or(req.Agent, "builtin"), Model: or(req.Model, "scripted/shop"),
		Base: or(req.Base, "main"), Budget: req.Budget, Created: w.now, Updated: w.now,
	}
	w.sessions = append(w.sessions, ses)
	w.emit(string(ses.ID), 0, core.NewEvent(core.EventSessionCreated, core.StateData{To: "queued"}))
	p := w.queue(ses.ID, req.Prompt)
	return ses, p, nil
}

// queue adds a prompt and, when nothing runs, starts it.
func (w *World) queue(id core.SessionID, req core.NewPrompt) core.Prompt {
	p := core.Prompt{
		ID: core.PromptID(w.id("prm_")), Session: id, ClientID: req.ClientID, Author: req.Author, Text: req.Text,
		Source: req.Source, State: core.PromptQueued, Position: int64(len(w.prompts) + 1), Created: w.now,
	}
	if req.ClientID != "" {
		w.clientIDs[req.ClientID] = p.ID
	}
	w.prompts = append(w.prompts, p)
	w.emit(string(id), 0, core.NewEvent(core.EventPromptQueued, core.PromptData{Prompt: p.ID, Author: p.Author, Text: p.Text, State: p.State}))
	w.startNext(id)
	return p
}

func (w *World) startNext(id core.SessionID) {
	if w.ctx.Err() != nil {
		return
	}
	for i := range w.prompts {
		if w.prompts[i].Session == id && w.prompts[i].State == core.PromptRunning {
			return
		}
	}
	for i := range w.prompts {
		p := &w.prompts[i]
		if p.Session != id || p.State != core.PromptQueued {
			continue
		}
		p.State = core.PromptRunning
		run := core.Run{ID: core.RunID(w.id("run_")), Session: id, Prompt: p.ID, Blueprint: "code-change", State: core.RunRunning, Created: w.now}
		p.Run = run.ID
		w.runs = append(w.runs, run)
		ctx, stop := context.WithCancelCause(w.ctx)
		w.stops[id] = stop
		r := &Run{w: w, Ctx: ctx, Session: id, Prompt: *p, Run: run.ID}
		w.agents.Go(func() {
			defer stop(nil)
			w.Script(w, r)
		})
		return
	}
}

func (w *World) session(id core.SessionID) (*core.Session, error) {
	return find(w.sessions, "session", string(id), func(s core.Session) bool { return s.ID == id })
}

func (s sessions) Get(_ context.Context, id core.SessionID) (core.Session, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	ses, err := s.w.session(id)
	if err != nil {
		return core.Session{}, err
	}
	return s.w.viewed(*ses), nil
}

func (s sessions) List(_ context.Context, f core.SessionFilter, p core.Page) ([]core.Session, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var all []core.Session
	for _, ses := range reversed(s.w.sessions) {
		if (f.State == "" || f.State == ses.State) && (f.Environment == "" || f.Environment == ses.Environment) &&
			(f.Owner == "" || f.Owner == ses.Owner.Handle) && strings.Contains(ses.Title, f.Text) &&
			(f.Archived || ses.State != core.SessionArchived) {
			all = append(all, s.w.viewed(ses))
		}
	}
	return page(all, p)
}

func (s sessions) Prompts(_ context.Context, id core.SessionID) ([]core.Prompt, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if _, err := s.w.session(id); err != nil {
		return nil, err
	}
	var out []core.Prompt
	for _, p := range s.w.prompts {
		if p.Session == id {
			out = append(out, p)
		}
	}
	return out, nil
}

func (s sessions) Runs(_ context.Context, id core.SessionID) ([]core.Run, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var out []core.Run
	for _, r := range s.w.runs {
		if r.Session == id {
			out = append(out, r)
		}
	}
	return out, nil
}

func (s sessions) Attempts(_ context.Context, id core.RunID) ([]core.Attempt, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var out []core.Attempt
	for _, a := range s.w.attempts {
		if a.Run == id {
			out = append(out, a)
		}
	}
	return out, nil
}

func (s sessions) Prompt(_ context.Context, id core.SessionID, req core.NewPrompt) (core.Prompt, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	ses, err := s.w.session(id)
	if err != nil {
		return core.Prompt{}, err
	}
	if ses.State == core.SessionArchived {
		return core.Prompt{}, core.E("session.prompt", core.Conflict, nil, "session %s is archived", id)
	}
	if have, ok := s.w.clientIDs[req.ClientID]; ok && req.ClientID != "" {
		p, _ := find(s.w.prompts, "prompt", "", func(p core.Prompt) bool { return p.ID == have })
		return *p, nil
	}
	return s.w.queue(id, req), nil
}

func (s sessions) queued(id core.SessionID, prompt core.PromptID) (*core.Prompt, error) {
	p, err := find(s.w.prompts, "prompt", string(prompt), func(p core.Prompt) bool { return p.ID == prompt && p.Session == id })
	if err == nil && p.State != core.PromptQueued {
		err = core.E("prompt", core.Conflict, nil, "prompt %s is %s, not queued", prompt, p.State)
	}
	return p, err
}

func (s sessions) EditPrompt(_ context.Context, id core.SessionID, prompt core.PromptID, text string, _ core.Author) (core.Prompt, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	p, err := s.queued(id, prompt)
	if err != nil {
		return core.Prompt{}, err
	}
	p.Text = text
	return *p, nil
}

func (s sessions) RemovePrompt(_ context.Context, id core.SessionID, prompt core.PromptID, _ core.Author) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	p, err := s.queued(id, prompt)
	if err != nil {
		return err
	}
	p.State = core.PromptRemoved
	s.w.emit(string(id), 0, core.NewEvent(core.EventPromptState, core.PromptData{Prompt: p.ID, State: p.State}))
	return nil
}

func (s sessions) MovePrompt(_ context.Context, id core.SessionID, prompt core.PromptID, position int, _ core.Author) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	p, err := s.queued(id, prompt)
	if err == nil {
		p.Position = int64(position)
	}
	return err
}

func (s sessions) PromptNow(_ context.Context, id core.SessionID, prompt core.PromptID, by core.Author) (core.Session, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if _, err := s.queued(id, prompt); err != nil {
		return core.Session{}, err
	}
	if stop := s.w.stops[id]; stop != nil {
		stop(fmt.Errorf("stopped by %s, for another prompt", by.Handle))
	}
	ses, err := s.w.session(id)
	if err != nil {
		return core.Session{}, err
	}
	return s.w.viewed(*ses), nil
}

func (s sessions) Stop(_ context.Context, id core.SessionID, by core.Author, reason string) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	ses, err := s.w.session(id)
	if err != nil {
		return err
	}
	stop := s.w.stops[id]
	if stop == nil {
		return core.E("session.stop", core.Conflict, nil, "session %s is %s: nothing runs", id, ses.State)
	}
	stop(fmt.Errorf("stopped by %s: %s", by.Handle, reason))
	return nil
}

func (s sessions) Continue(_ context.Context, id core.SessionID, by core.Author) (core.Prompt, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if _, err := s.w.session(id); err != nil {
		return core.Prompt{}, err
	}
	return s.w.queue(id, core.NewPrompt{Author: by, Text: "Go on.", Source: "continue"}), nil
}

func (s sessions) Archive(_ context.Context, id core.SessionID, _ core.Author) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	ses, err := s.w.session(id)
	if err != nil {
		return err
	}
	if !core.SessionTable.Allows(ses.State, core.SessionArchived) {
		return core.E("session.archive", core.Conflict, nil, "session %s is %s", id, ses.State).WithHint("stop it first")
	}
	ses.State = core.SessionArchived
	return nil
}

func (s sessions) RaiseBudget(_ context.Context, id core.SessionID, _ core.Author, b core.Budget) (core.Session, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	ses, err := s.w.session(id)
	if err != nil {
		return core.Session{}, err
	}
	ses.Budget = b
	return *ses, nil
}

func (s sessions) Diff(ctx context.Context, id core.SessionID) (string, error) {
	if _, err := s.Get(ctx, id); err != nil {
		return "", err
	}
	return Patch, nil
}

func (s sessions) ReadFile(_ context.Context, _ core.SessionID, path string, _ int64) ([]byte, error) {
	if path != "cart/total.go" {
		return nil, core.E("file.read", core.NotFound, nil, "file %s does not exist", path)
	}
	return []byte("package cart\n"), nil
}

func (s sessions) ListFiles(context.Context, core.SessionID, string) ([]api.FileInfo, error) {
	return []api.FileInfo{{Path: "cart/total.go", Size: 13, Mode: 0o644, ModTime: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}}, nil
}

// Exec runs words that the tests know.
func (s sessions) Exec(ctx context.Context, id core.SessionID, _ core.Author, req api.ExecRequest) (server.Process, error) {
	if _, err := s.Get(ctx, id); err != nil {
		return nil, err
	}
	p := &process{ctx: ctx, req: req, input: make(chan []byte, 16), control: make(chan string, 16)}
	return p, nil
}

type process struct {
	ctx     context.Context //nolint:containedctx // stands for the life of a process
	req     api.ExecRequest
	input   chan []byte
	control chan string
	code    int
}

func (p *process) Output(ctx context.Context) iter.Seq2[server.Chunk, error] {
	return func(yield func(server.Chunk, error) bool) {
		say := func(format string, args ...any) bool {
			return yield(server.Chunk{Stream: api.StreamOutput, Data: fmt.Appendf(nil, format, args...)}, nil)
		}
		name := "shell"
		if len(p.req.Argv) > 0 {
			name = p.req.Argv[0]
		}
		switch name {
		case "echo":
			say("%s\n", strings.Join(p.req.Argv[1:], " "))
		case "false":
			yield(server.Chunk{Stream: api.StreamError, Data: []byte("it is false\n")}, nil)
			p.code = 7
		case "big":
			for range 40 {
				if !say("%s", strings.Repeat("x", 10_000)) {
					return
				}
			}
		default: // cat and the shell: give back what comes
			if p.req.PTY != nil {
				say("%dx%d\r\n", p.req.PTY.Cols, p.req.PTY.Rows)
			}
			for p.req.Stdin || p.req.PTY != nil {
				select {
				case b := <-p.input:
					if !say("%s", b) {
						return
					}
				case c := <-p.control:
					if c == "eof" || c == "INT" {
						for len(p.input) > 0 {
							say("%s", <-p.input)
						}
						return
					}
					say("%s\r\n", c)
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

func (p *process) Input(ctx context.Context, b []byte) error {
	select {
	case p.input <- append([]byte(nil), b...):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) send(word string) error {
	select {
	case p.control <- word:
	case <-p.ctx.Done():
	}
	return nil
}

// CloseInput waits until what was put in has been taken.
func (p *process) CloseInput(context.Context) error { return p.send("eof") }

func (p *process) Resize(_ context.Context, s api.Size) error {
	return p.send(fmt.Sprintf("%dx%d", s.Cols, s.Rows))
}
func (p *process) Signal(_ context.Context, name string) error { return p.send(name) }
func (p *process) Wait(context.Context) (int, string, error)   { return p.code, "", nil }
