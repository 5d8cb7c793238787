package session

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Bounds of what people send.
const (
	MaxText     = 256 << 10 // bytes of a prompt
	MaxTitle    = 200       // runes
	MaxClientID = 200       // bytes
	MaxQueue    = 200       // queued prompts of one session
	maxWord     = 200       // bytes of a name: branch, model, ...
)

// Create makes a session with its first prompt. Session, prompt and their
// events are one transaction; nothing has been started when it returns, and
// nothing can be lost any more. The same author with the same client id gets
// the session made before.
func (s *Service) Create(ctx context.Context, req core.NewSession) (session core.Session, prompt core.Prompt, err error) {
	if err := checkSession(&req); err != nil {
		return session, prompt, err
	}
	env, err := s.db.Environment(ctx, req.Environment)
	if core.Is(err, core.NotFound) {
		return session, prompt, core.E("session.create", core.NotFound, nil, "environment %s does not exist", req.Environment).
			WithHint("see `drydock env list`, or make it with `drydock env build`")
	}
	if err != nil {
		return session, prompt, err
	}
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		if req.Prompt.ClientID != "" {
			session, prompt, err = earlier(ctx, tx, req)
			if err == nil || !core.Is(err, core.NotFound) {
				return err
			}
		}
		if env.Snapshot == "" {
			return noBuild(env)
		}
		session = s.fresh(env, req)
		if err := tx.CreateSession(ctx, session, req.Prompt.ClientID); err != nil {
			return err
		}
		err := s.tell(ctx, tx, session.ID, "", session.Owner.Handle, core.EventSessionCreated,
			core.StateData{To: string(session.State), Reason: session.Reason})
		if err != nil {
			return err
		}
		prompt, _, err = s.enqueue(ctx, tx, session.ID, req.Prompt)
		return err
	})
	if err != nil {
		return core.Session{}, core.Prompt{}, err
	}
	if req.Draft != "" && s.drafted != nil {
		s.drafted(session.ID, req.Draft)
	}
	s.wake()
	return session, prompt, nil
}

func noBuild(env core.Environment) error {
	return core.E("session.create", core.Conflict, nil, "environment %s has no good build yet", env.Name).
		WithHint("build it with `drydock env build %s`", env.Source)
}

func (s *Service) fresh(env core.Environment, req core.NewSession) core.Session {
	at := time.Now().UTC()
	or := func(v, def string) string {
		if v == "" {
			return def
		}
		return v
	}
	budget := req.Budget
	if budget.Money == 0 {
		budget.Money = s.opts.Budget.Money
	}
	if budget.WallClock == 0 {
		budget.WallClock = s.opts.Budget.WallClock
	}
	return core.Session{
		ID: core.NewSessionID(), Environment: env.ID, Title: or(req.Title, firstLine(req.Prompt.Text, 80)),
		State: core.SessionQueued, Reason: waitsForRunner, Owner: req.Prompt.Author,
		Blueprint: or(req.Blueprint, s.opts.Blueprint), Agent: or(req.Agent, s.opts.Agent), Model: or(req.Model, s.opts.Model),
		Base: or(req.Base, env.DefaultBranch), Budget: budget, Created: at, Updated: at,
	}
}

// earlier finds what a client made before under the same identifier.
func earlier(ctx context.Context, tx *store.Tx, req core.NewSession) (core.Session, core.Prompt, error) {
	session, err := tx.SessionByClientID(ctx, req.Prompt.Author.Handle, req.Prompt.ClientID)
	if err != nil {
		return session, core.Prompt{}, err
	}
	prompt, err := tx.PromptByClientID(ctx, session.ID, req.Prompt.ClientID)
	if err != nil {
		return session, prompt, core.E("session.create", core.Internal, err, "first prompt of session %s", session.ID)
	}
	return session, prompt, nil
}

// Prompt queues one more prompt. A held queue goes on, and an idle session
// waits for a runner again. A second call with the same client id returns the
// prompt of the first.
func (s *Service) Prompt(ctx context.Context, id core.SessionID, req core.NewPrompt) (prompt core.Prompt, err error) {
	if err := checkPrompt(&req); err != nil {
		return prompt, err
	}
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		prompt, err = s.promptIn(ctx, tx, id, req)
		return err
	})
	if err != nil {
		return core.Prompt{}, err
	}
	s.wake()
	return prompt, nil
}

// PromptIn is Prompt inside the caller's transaction; wake is to be called when
// it is stored.
func (s *Service) PromptIn(ctx context.Context, tx *store.Tx, id core.SessionID, req core.NewPrompt) (prompt core.Prompt, wake func(), err error) {
	if err := checkPrompt(&req); err != nil {
		return prompt, nil, err
	}
	prompt, err = s.promptIn(ctx, tx, id, req)
	return prompt, s.wake, err
}

func (s *Service) promptIn(ctx context.Context, tx *store.Tx, id core.SessionID, req core.NewPrompt) (core.Prompt, error) {
	session, err := tx.Session(ctx, id)
	if err != nil {
		return core.Prompt{}, err
	}
	prompt, added, err := s.enqueue(ctx, tx, id, req)
	if err != nil || !added {
		return prompt, err
	}
	if session.State == core.SessionArchived {
		return prompt, core.E("session.prompt", core.Conflict, nil, "session %s is archived", id).WithHint("start a new session with `drydock run`")
	}
	return prompt, s.goOn(ctx, tx, session, req.Author, "")
}

// enqueue adds a prompt to a queue and tells of it, unless a client sends it
// again.
func (s *Service) enqueue(ctx context.Context, tx *store.Tx, id core.SessionID, req core.NewPrompt) (core.Prompt, bool, error) {
	queue, err := tx.QueuedPrompts(ctx, id)
	if err != nil {
		return core.Prompt{}, false, err
	}
	p, added, err := tx.AddPrompt(ctx, core.Prompt{
		ID: core.NewPromptID(), Session: id, ClientID: req.ClientID, Author: req.Author, Text: req.Text, Source: req.Source,
		State: core.PromptQueued, Created: time.Now().UTC(),
	})
	switch {
	case err != nil:
		return p, false, err
	case !added && p.Author.Handle != req.Author.Handle:
		return p, false, core.E("session.prompt", core.Conflict, nil, "client id %q was used for prompt %s of %s", req.ClientID, p.ID, p.Author.Handle)
	case !added:
		return p, false, nil
	case len(queue) >= MaxQueue:
		return p, false, core.E("session.prompt", core.Exhausted, nil, "session %s has %d queued prompts already", id, len(queue)).
			WithHint("wait, or remove some of them")
	}
	return p, true, s.tell(ctx, tx, id, "", req.Author.Handle, core.EventPromptQueued,
		core.PromptData{Prompt: p.ID, Author: p.Author, Text: p.Text, State: p.State})
}

// goOn ends a hold, and queues a session that has nothing to do.
func (s *Service) goOn(ctx context.Context, tx *store.Tx, session core.Session, by core.Author, reason string) error {
	state, why := session.State, session.Reason
	if state == core.SessionIdle || state == core.SessionFailed {
		state, why = core.SessionQueued, waitsForRunner
	}
	if session.Held && state != core.SessionStopping {
		why = because("the queue goes on, "+nameOf(by)+" said so", reason)
	}
	_, err := s.setSession(ctx, tx, session.ID, by.Handle, state, why, func(s *core.Session) { s.Held = false })
	return err
}

// EditPrompt changes the text of a prompt that has not started.
func (s *Service) EditPrompt(ctx context.Context, id core.PromptID, by core.Author, text string) (p core.Prompt, err error) {
	if err := checkText(text); err != nil {
		return p, err
	}
	err = s.queued(ctx, id, "edited", func(tx *store.Tx, old core.Prompt) error {
		if p, err = tx.UpdatePrompt(ctx, id, func(p *core.Prompt) error { p.Text = text; return nil }); err != nil {
			return err
		}
		return s.tell(ctx, tx, p.Session, "", by.Handle, core.EventPromptState,
			core.PromptData{Prompt: id, Author: p.Author, Text: text, State: p.State, Reason: "edited by " + nameOf(by)})
	})
	return p, err
}

// MovePrompt puts a queued prompt at a place, from 1, among the queued ones.
func (s *Service) MovePrompt(ctx context.Context, id core.PromptID, by core.Author, place int) (p core.Prompt, err error) {
	err = s.queued(ctx, id, "moved", func(tx *store.Tx, old core.Prompt) error {
		if p, err = tx.MovePrompt(ctx, id, place); err != nil {
			return err
		}
		return s.tell(ctx, tx, p.Session, "", by.Handle, core.EventPromptState,
			core.PromptData{Prompt: id, Author: p.Author, State: p.State, Reason: "moved by " + nameOf(by)})
	})
	return p, err
}

// RemovePrompt withdraws a prompt that has not started. A session that has
// nothing else to do is idle then.
func (s *Service) RemovePrompt(ctx context.Context, id core.PromptID, by core.Author) (p core.Prompt, err error) {
	err = s.queued(ctx, id, "removed", func(tx *store.Tx, old core.Prompt) error {
		p, err = s.setPrompt(ctx, tx, id, by.Handle, core.PromptRemoved, "removed by "+nameOf(by), func(p *core.Prompt) { p.Finished = time.Now().UTC() })
		if err != nil {
			return err
		}
		session, err := tx.Session(ctx, p.Session)
		if err != nil {
			return err
		}
		queue, err := tx.QueuedPrompts(ctx, p.Session)
		if err != nil || len(queue) > 0 {
			return err
		}
		if session.State == core.SessionQueued {
			if _, err := tx.RunningPrompt(ctx, p.Session); core.Is(err, core.NotFound) {
				_, err := s.setSession(ctx, tx, session.ID, by.Handle, core.SessionIdle, "no prompt waits", nil)
				return err
			}
		}
		if session.State == core.SessionIdle && session.Held {
			_, err = s.setSession(ctx, tx, session.ID, by.Handle, core.SessionIdle, "no prompt waits", func(s *core.Session) { s.Held = false })
		}
		return err
	})
	return p, err
}

// queued runs fn on a prompt that waits in its queue.
func (s *Service) queued(ctx context.Context, id core.PromptID, verb string, fn func(*store.Tx, core.Prompt) error) error {
	return s.db.Tx(ctx, func(tx *store.Tx) error {
		p, err := tx.Prompt(ctx, id)
		if err != nil {
			return err
		}
		if p.State != core.PromptQueued {
			return core.E("session.prompt", core.Conflict, nil, "prompt %s is %s: only a queued prompt can be %s", id, p.State, verb)
		}
		return fn(tx, p)
	})
}

// Resume lets a session go on: a held queue is no longer held; without a
// queue, a new prompt is added (its text is "Continue." unless req has one).
// It returns the prompt that runs next. A client's retry changes nothing.
func (s *Service) Resume(ctx context.Context, id core.SessionID, req core.NewPrompt) (prompt core.Prompt, err error) {
	say := req.Text
	if say == "" {
		req.Text = "Continue."
	}
	if err := checkPrompt(&req); err != nil {
		return prompt, err
	}
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		session, err := tx.Session(ctx, id)
		if err != nil {
			return err
		}
		if req.ClientID != "" {
			if prompt, err = tx.PromptByClientID(ctx, id, req.ClientID); err == nil || !core.Is(err, core.NotFound) {
				return err
			}
		}
		switch session.State {
		case core.SessionArchived:
			return core.E("session.resume", core.Conflict, nil, "session %s is archived", id).WithHint("start a new session with `drydock run`")
		case core.SessionWaiting:
			return core.E("session.resume", core.Conflict, nil, "session %s waits: %s", id, session.Reason).WithHint("answer the question, or raise the budget")
		}
		queue, err := tx.QueuedPrompts(ctx, id)
		if err != nil {
			return err
		}
		running, err := tx.RunningPrompt(ctx, id)
		if err != nil && !core.Is(err, core.NotFound) {
			return err
		}
		switch {
		case say == "" && len(queue) > 0:
			prompt = queue[0]
		case say == "" && running.ID != "" && session.State != core.SessionStopping:
			return core.E("session.resume", core.Conflict, nil, "session %s is %s: there is nothing to resume", id, session.State)
		default:
			var added bool
			if prompt, added, err = s.enqueue(ctx, tx, id, req); err != nil || !added {
				return err
			}
		}
		return s.goOn(ctx, tx, session, req.Author, "")
	})
	if err != nil {
		return core.Prompt{}, err
	}
	s.wake()
	return prompt, nil
}

// Archive makes a session read-only; queued prompts are removed.
func (s *Service) Archive(ctx context.Context, id core.SessionID, by core.Author) (core.Session, error) {
	return s.ArchiveFor(ctx, id, by, "")
}

// ArchiveFor is Archive with a reason.
func (s *Service) ArchiveFor(ctx context.Context, id core.SessionID, by core.Author, reason string) (session core.Session, err error) {
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		session, err = tx.Session(ctx, id)
		if err != nil || session.State == core.SessionArchived {
			return err
		}
		if !core.SessionTable.Allows(session.State, core.SessionArchived) {
			return core.E("session.archive", core.Conflict, nil, "session %s is %s and cannot be archived", id, session.State).
				WithHint("stop it first with `drydock session stop %s`", id)
		}
		if _, err := tx.RunningPrompt(ctx, id); !core.Is(err, core.NotFound) {
			if err != nil {
				return err
			}
			return core.E("session.archive", core.Conflict, nil, "session %s has a running prompt and cannot be archived", id).
				WithHint("stop it first with `drydock session stop %s`", id)
		}
		queue, err := tx.QueuedPrompts(ctx, id)
		if err != nil {
			return err
		}
		for _, p := range queue {
			_, err := s.setPrompt(ctx, tx, p.ID, by.Handle, core.PromptRemoved, "the session was archived", func(p *core.Prompt) { p.Finished = time.Now().UTC() })
			if err != nil {
				return err
			}
		}
		session, err = s.setSession(ctx, tx, id, by.Handle, core.SessionArchived, because("archived by "+nameOf(by), reason), func(s *core.Session) { s.Held = false })
		return err
	})
	return session, err
}

// MaxForks bounds how many sessions one request makes.
const MaxForks = 50

// Fork makes sessions that go on from a snapshot of another one: same work so
// far, each with a branch and a life of its own. They are idle; prompt, unless
// empty, is queued in each. All of them are made, or none.
func (s *Service) Fork(ctx context.Context, id core.SessionID, from core.SnapshotID, count int, prompt string, by core.Author) ([]core.Session, error) {
	const op = "session.fork"
	if count < 1 || count > MaxForks {
		return nil, core.E(op, core.Invalid, nil, "%d forks: it must be 1 to %d", count, MaxForks)
	}
	first := core.NewPrompt{Author: by, Text: prompt, Source: "fork"}
	if prompt != "" {
		if err := checkPrompt(&first); err != nil {
			return nil, err
		}
	}
	var out []core.Session
	err := s.db.Tx(ctx, func(tx *store.Tx) error {
		out = nil
		parent, err := tx.Session(ctx, id)
		if err != nil {
			return err
		}
		if parent.State == core.SessionArchived {
			return core.E(op, core.Conflict, nil, "session %s is archived", id)
		}
		for i := range count {
			child, err := s.fork(ctx, tx, parent, from, i+1, first)
			if err != nil {
				return err
			}
			out = append(out, child)
		}
		return nil
	})
	if err == nil && prompt != "" {
		s.wake()
	}
	return out, err
}

func (s *Service) fork(ctx context.Context, tx *store.Tx, parent core.Session, from core.SnapshotID, number int, first core.NewPrompt) (core.Session, error) {
	at := time.Now().UTC()
	child := core.Session{
		ID: core.NewSessionID(), Environment: parent.Environment, Title: clipTitle(fmt.Sprintf("%s (fork %d)", parent.Title, number)),
		State: core.SessionIdle, Reason: "forked from " + string(parent.ID), Owner: first.Author,
		Blueprint: parent.Blueprint, Agent: parent.Agent, Model: parent.Model, Base: parent.Base, BaseCommit: parent.BaseCommit,
		Head: parent.Head, Budget: parent.Budget, Snapshot: from, Created: at, Updated: at,
	}
	if err := tx.CreateSession(ctx, child, ""); err != nil {
		return child, err
	}
	err := s.tell(ctx, tx, child.ID, "", first.Author.Handle, core.EventSessionCreated,
		core.StateData{From: string(parent.ID), To: string(child.State), Reason: child.Reason})
	if err != nil || first.Text == "" {
		return child, err
	}
	if _, _, err := s.enqueue(ctx, tx, child.ID, first); err != nil {
		return child, err
	}
	return child, s.goOn(ctx, tx, child, first.Author, "")
}

func clipTitle(s string) string {
	if r := []rune(s); len(r) > MaxTitle {
		return string(r[:MaxTitle])
	}
	return s
}

func checkSession(req *core.NewSession) error {
	if err := checkPrompt(&req.Prompt); err != nil {
		return err
	}
	switch {
	case req.Environment == "":
		return core.E("session.create", core.Invalid, nil, "environment is missing").WithHint("name one of `drydock env list`")
	case utf8.RuneCountInString(req.Title) > MaxTitle || !utf8.ValidString(req.Title):
		return core.E("session.create", core.Invalid, nil, "title is longer than %d characters", MaxTitle)
	case req.Budget.Money < 0 || req.Budget.WallClock < 0:
		return core.E("session.create", core.Invalid, nil, "budget %v, %v is negative", req.Budget.Money, req.Budget.WallClock)
	}
	req.Title = firstLine(req.Title, MaxTitle)
	for name, v := range map[string]string{
		"environment": req.Environment, "blueprint": req.Blueprint, "agent": req.Agent, "model": req.Model, "base": req.Base,
	} {
		if len(v) > maxWord || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
			return core.E("session.create", core.Invalid, nil, "%s %.40q is not a name", name, v)
		}
	}
	return nil
}

func checkPrompt(req *core.NewPrompt) error {
	switch {
	case req.Author.Handle == "":
		return core.E("session.prompt", core.Unauthorized, nil, "prompt has no author")
	case len(req.ClientID) > MaxClientID || !utf8.ValidString(req.ClientID):
		return core.E("session.prompt", core.Invalid, nil, "client id is longer than %d bytes", MaxClientID)
	}
	if req.Source == "" {
		req.Source = "api"
	}
	return checkText(req.Text)
}

func checkText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return core.E("session.prompt", core.Invalid, nil, "prompt is empty")
	case len(text) > MaxText:
		return core.E("session.prompt", core.Invalid, nil, "prompt has %d bytes, more than %d", len(text), MaxText).
			WithHint("put long material into a file of the repository and name it")
	case !utf8.ValidString(text):
		return core.E("session.prompt", core.Invalid, nil, "prompt is not UTF-8")
	}
	return nil
}
