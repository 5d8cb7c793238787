package store

import (
	"context"
	"slices"
	"time"

	"drydock/internal/core"
)

var promptTable = table[core.Prompt]{
	name: "prompts", noun: "prompt",
	columns: "id, session, client_id, author, author_name, author_email, text, source, state, position, run, created, started, finished",
	fields: func(p *core.Prompt) []any {
		return []any{
			&p.ID, &p.Session, &p.ClientID, &p.Author.Handle, &p.Author.Name, &p.Author.Email, &p.Text, &p.Source,
			&p.State, &p.Position, &p.Run,
			stamp{&p.Created},
			stamp{&p.Started},
			stamp{&p.Finished},
		}
	},
}

// AddPrompt puts a prompt at the end of its session's queue and returns it
// with its position. If the session has a prompt with the same ClientID, that
// one is returned, nothing is written and added is false.
func (w Writer) AddPrompt(ctx context.Context, p core.Prompt) (stored core.Prompt, added bool, err error) {
	err = w.in(ctx, func(c conn) error {
		if p.ClientID != "" {
			old, err := Reader{c}.PromptByClientID(ctx, p.Session, p.ClientID)
			if err == nil {
				stored = old
				return nil
			}
			if !core.Is(err, core.NotFound) {
				return err
			}
		}
		err := c.row(ctx, `SELECT COALESCE(MAX(position), 0) + 1 FROM prompts WHERE session = ?`, p.Session).Scan(&p.Position)
		if err != nil {
			return c.d.explain(ctx, "store.prompt", err, promptTable.what(p.ID))
		}
		stored, added = p, true
		return promptTable.insert(ctx, c, &p)
	})
	if err != nil {
		return core.Prompt{}, false, err
	}
	return stored, added, nil
}

// Prompt finds one.
func (r Reader) Prompt(ctx context.Context, id core.PromptID) (core.Prompt, error) {
	return promptTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// PromptByClientID finds the prompt of a session that a client named itself.
func (r Reader) PromptByClientID(ctx context.Context, session core.SessionID, clientID string) (core.Prompt, error) {
	return promptTable.get(ctx, r.q, "with client id "+clientID, "WHERE session = ? AND client_id = ? AND client_id <> ''", session, clientID)
}

// Prompts lists a session's prompts in the order of its queue.
func (r Reader) Prompts(ctx context.Context, session core.SessionID) ([]core.Prompt, error) {
	return promptTable.list(ctx, r.q, "WHERE session = ? ORDER BY position, id", session)
}

// QueuedPrompts lists those that still wait, first first.
func (r Reader) QueuedPrompts(ctx context.Context, session core.SessionID) ([]core.Prompt, error) {
	return promptTable.list(ctx, r.q, "WHERE session = ? AND state = ? ORDER BY position, id", session, core.PromptQueued)
}

// RunningPrompt is a session's running prompt, or NotFound.
func (r Reader) RunningPrompt(ctx context.Context, session core.SessionID) (core.Prompt, error) {
	return promptTable.get(ctx, r.q, "that runs in session "+string(session), "WHERE session = ? AND state = ?", session, core.PromptRunning)
}

// UpdatePrompt changes one; its state moves along core.PromptTable only. A
// second running prompt in one session is a Conflict.
func (w Writer) UpdatePrompt(ctx context.Context, id core.PromptID, change func(*core.Prompt) error) (p core.Prompt, err error) {
	err = w.in(ctx, func(c conn) error {
		p, err = promptTable.update(ctx, c, id, func(p *core.Prompt) error {
			from := p.State
			if err := change(p); err != nil {
				return err
			}
			if err := move("prompt", id, core.PromptTable, from, p.State); err != nil {
				return err
			}
			if from == core.PromptRunning || p.State != core.PromptRunning {
				return nil
			}
			if other, err := (Reader{c}).RunningPrompt(ctx, p.Session); err == nil { // the index would refuse it with less to say
				return core.E("store.prompt", core.Conflict, nil, "prompt %s cannot run: prompt %s of session %s is running", id, other.ID, p.Session)
			}
			return nil
		})
		return err
	})
	return p, err
}

// MovePrompt puts a queued prompt at a place, counted from 1, among the queued
// ones of its session. A place beyond the end is the end.
func (w Writer) MovePrompt(ctx context.Context, id core.PromptID, place int) (p core.Prompt, err error) {
	err = w.in(ctx, func(c conn) error {
		r := Reader{c}
		if p, err = r.Prompt(ctx, id); err != nil {
			return err
		}
		if p.State != core.PromptQueued {
			return core.E("store.prompt", core.Conflict, nil, "prompt %s is %s: only a queued prompt can be moved", id, p.State)
		}
		queue, err := r.QueuedPrompts(ctx, p.Session)
		if err != nil {
			return err
		}
		slots := make([]int64, 0, len(queue))
		order := make([]core.Prompt, 0, len(queue))
		for _, q := range queue {
			slots = append(slots, q.Position)
			if q.ID != id {
				order = append(order, q)
			}
		}
		at := min(max(place-1, 0), len(order))
		order = append(order[:at], append([]core.Prompt{p}, order[at:]...)...)
		for i, q := range order {
			if _, err := c.exec(ctx, `UPDATE prompts SET position = ? WHERE id = ?`, slots[i], q.ID); err != nil {
				return c.d.explain(ctx, "store.prompt", err, promptTable.what(q.ID))
			}
		}
		p, err = r.Prompt(ctx, id)
		return err
	})
	return p, err
}

// LeaseOfSession names the lease whose holder may run a session's prompts.
func LeaseOfSession(id core.SessionID) string { return "session:" + string(id) }

// Waiting is a prompt that a runner may take now, without its text.
type Waiting struct {
	ID          core.PromptID
	Session     core.SessionID
	Environment core.EnvironmentID
	Author      core.Author
	State       core.PromptState // running: its runner died, or what it waited for is there
	Created     time.Time
}

var waitingTable = table[Waiting]{
	name: "prompts", noun: "prompt",
	columns: "p.id, p.session, " + environmentOf + ", p.author, p.author_name, p.state, p.created",
	fields: func(w *Waiting) []any {
		return []any{&w.ID, &w.Session, &w.Environment, &w.Author.Handle, &w.Author.Name, &w.State, stamp{&w.Created}}
	},
}

const environmentOf = "(SELECT e.environment FROM sessions e WHERE e.id = p.session)"

// MaxWaiting is how many waiting prompts are looked at; further ones move up.
const MaxWaiting = 1000

// ClaimablePrompts lists what a runner may take now. A prompt is there if
// nobody holds its session's lease (a lease that owner left behind counts as
// nobody's unless its session is in busy) and
//   - it is running and its session does not wait for a person: its runner
//     died, or what it waited for is there; or
//   - it is the first of the queue of a session in state queued, without a
//     running prompt, that is not held.
//
// Left-behind work comes first, then the oldest of each author in each
// environment, the second of each, and so on: where there are more than MaxWaiting, nobody is hidden by
// somebody else's many. Whose turn it is, the caller decides.
func (r Reader) ClaimablePrompts(ctx context.Context, owner string, busy []core.SessionID, at time.Time) ([]Waiting, error) {
	args := append(claimableArgs(owner, at), core.PromptRunning, MaxWaiting+len(busy))
	list, err := waitingTable.list(ctx, r.q, claimable+` ORDER BY CASE WHEN p.state = ? THEN 0 ELSE 1 END,
		ROW_NUMBER() OVER (PARTITION BY p.author, `+environmentOf+` ORDER BY p.created, p.id), p.created, p.id LIMIT ?`, args...)
	return slices.DeleteFunc(list, func(w Waiting) bool { return slices.Contains(busy, w.Session) }), err
}

// Load is how many prompts of one author run in one environment.
type Load struct {
	Author      string
	Environment core.EnvironmentID
	Running     int
}

var loadTable = table[Load]{
	name: "prompts", noun: "prompt", columns: "p.author, s.environment, COUNT(*)",
	fields: func(l *Load) []any { return []any{&l.Author, &l.Environment, &l.Running} },
}

// Loads counts what runs. A run that waits for a person does not count.
func (r Reader) Loads(ctx context.Context) ([]Load, error) {
	return loadTable.list(ctx, r.q, `AS p JOIN sessions s ON s.id = p.session WHERE p.state = ? AND s.state IN (?, ?, ?)
		GROUP BY p.author, s.environment ORDER BY p.author, s.environment`,
		core.PromptRunning, core.SessionStarting, core.SessionRunning, core.SessionStopping)
}

type served struct {
	author string
	at     time.Time
}

var servedTable = table[served]{
	name: "prompts", noun: "prompt", columns: "author, MAX(started)",
	fields: func(s *served) []any { return []any{&s.author, stamp{&s.at}} },
}

// Served says when a prompt of each author who has one queued was last begun;
// the zero time is never.
func (r Reader) Served(ctx context.Context) (map[string]time.Time, error) {
	list, err := servedTable.list(ctx, r.q, `WHERE author IN (SELECT author FROM prompts WHERE state = ?) GROUP BY author`, core.PromptQueued)
	out := make(map[string]time.Time, len(list))
	for _, s := range list {
		out[s.author] = s.at
	}
	return out, err
}

// ClaimablePrompt is one of ClaimablePrompts, or NotFound: to look again, in
// the transaction that claims.
func (r Reader) ClaimablePrompt(ctx context.Context, id core.PromptID, owner string, at time.Time) (core.Prompt, error) {
	return promptTable.get(ctx, r.q, string(id)+" that is claimable", claimable+` AND p.id = ?`, append(claimableArgs(owner, at), id)...)
}

const claimable = `AS p WHERE p.state IN (?, ?) AND (
			p.state = ? OR EXISTS (
				SELECT 1 FROM sessions s WHERE s.id = p.session AND s.state = ? AND NOT s.held
				AND NOT EXISTS (SELECT 1 FROM prompts o WHERE o.session = p.session AND o.state = ?)
				AND p.id = (SELECT q.id FROM prompts q WHERE q.session = p.session AND q.state = ? ORDER BY q.position, q.id LIMIT 1)))
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = p.session AND s.state = ?)
		AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = 'session:' || p.session AND l.expires > ? AND l.owner <> ?)`

func claimableArgs(owner string, at time.Time) []any {
	return []any{
		core.PromptQueued, core.PromptRunning, core.PromptRunning, core.SessionQueued, core.PromptRunning, core.PromptQueued,
		core.SessionWaiting, nanos(at), owner,
	}
}
