package session

import (
	"context"
	"fmt"
	"strings"

	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/store"
)

// platform is the actor of what nobody asked for by name.
const platform = "platform"

// setSession moves a session to a state, and tells of it in the same
// transaction if the state or the reason is new. change may set other fields.
func setSession(ctx context.Context, tx *store.Tx, log *event.Log, id core.SessionID, actor string,
	to core.SessionState, reason string, change func(*core.Session),
) (core.Session, error) {
	var from core.SessionState
	told := false
	session, err := tx.UpdateSession(ctx, id, func(s *core.Session) error {
		from, told = s.State, s.State == to && s.Reason == reason
		s.State, s.Reason = to, reason
		if to != core.SessionWaiting {
			s.Wait = ""
		}
		if change != nil {
			change(s)
		}
		return nil
	})
	if err != nil || told {
		return session, err
	}
	e := core.NewEvent(core.EventSessionState, core.StateData{From: string(from), To: string(to), Reason: reason})
	e.Actor = actor
	_, err = log.AppendTx(ctx, tx, string(id), e)
	return session, err
}

func (s *Service) setSession(ctx context.Context, tx *store.Tx, id core.SessionID, actor string,
	to core.SessionState, reason string, change func(*core.Session),
) (core.Session, error) {
	return setSession(ctx, tx, s.log, id, actor, to, reason, change)
}

// setPrompt moves a prompt to a state and tells of it.
func (s *Service) setPrompt(ctx context.Context, tx *store.Tx, id core.PromptID, actor string,
	to core.PromptState, reason string, change func(*core.Prompt),
) (core.Prompt, error) {
	p, err := tx.UpdatePrompt(ctx, id, func(p *core.Prompt) error {
		p.State = to
		if change != nil {
			change(p)
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	return p, s.tell(ctx, tx, p.Session, p.Run, actor, core.EventPromptState,
		core.PromptData{Prompt: p.ID, Author: p.Author, State: to, Reason: reason})
}

// tell appends an event in the caller's transaction.
func (s *Service) tell(ctx context.Context, tx *store.Tx, id core.SessionID, run core.RunID, actor string, kind core.EventKind, data any) error {
	e := core.NewEvent(kind, data)
	e.Run, e.Actor = run, actor
	_, err := s.log.AppendTx(ctx, tx, string(id), e)
	return err
}

// nameOf is how an author is shown in a sentence.
func nameOf(a core.Author) string {
	if a.Name != "" {
		return a.Name
	}
	return a.Handle
}

// because joins a sentence and an optional reason.
func because(sentence, reason string) string {
	if reason = strings.TrimSpace(reason); reason == "" {
		return sentence
	}
	return sentence + ": " + reason
}

func prompts(n int) string {
	if n == 1 {
		return "1 prompt"
	}
	return fmt.Sprintf("%d prompts", n)
}

// firstLine is the first non-empty line of a text, cut to n runes.
func firstLine(text string, n int) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			if r := []rune(line); len(r) > n {
				short := string(r[:n-3])
				if i := strings.LastIndexByte(short, ' '); i > len(short)/2 {
					short = strings.TrimRight(short[:i], " .,;:")
				}
				return short + "..."
			}
			return line
		}
	}
	return ""
}
