package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/store"
)

const (
	overlap = time.Minute // looked at again: clocks differ
	maxTold = 50_000
)

// Watch looks at the forge until ctx ends: at once, every Interval, and when
// Wake is called.
func (s *Service) Watch(ctx context.Context) {
	if err := s.Recover(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("unfinished effects cannot be settled", "err", err)
	}
	tick := time.NewTicker(s.opts.Interval)
	defer tick.Stop()
	for {
		if err := s.Sync(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("forge cannot be watched", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// Wake makes Watch look now, for example after a push over HTTP.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Sync hands on what people did since the last look.
func (s *Service) Sync(ctx context.Context) error {
	began := s.opts.Now()
	s.mu.Lock()
	since := s.since
	if len(s.told) > maxTold {
		clear(s.told)
	}
	s.mu.Unlock()
	list, err := s.forge.Poll(ctx, since)
	errs := []error{err}
	for _, a := range list {
		errs = append(errs, s.tell(ctx, a))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.mu.Lock()
	s.since = began.Add(-overlap)
	s.mu.Unlock()
	return nil
}

// tell hands on one activity. It may be called twice; keys see to the rest.
func (s *Service) tell(ctx context.Context, a forge.Activity) error {
	s.mu.Lock()
	known := s.told[a.Key]
	s.mu.Unlock()
	if known {
		return nil
	}
	var err error
	switch a.Kind {
	case forge.Commented:
		err = s.tellComment(ctx, a)
	case forge.Pushed:
		if err = s.record(ctx, a.Change, a.Key, "pushed", a.By); err == nil {
			// Only when it is in the log is the head taken as known.
			_, err = s.forge.UpdateChange(ctx, a.Change.ID, forge.ChangeUpdate{Head: &a.Head})
			if core.Is(err, core.Conflict) {
				err = nil // merged or closed meanwhile
			}
		}
	case forge.Merged:
		err = s.record(ctx, a.Change, mergedKey(a.Change.ID), "merged", a.By)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.told[a.Key] = true
	s.mu.Unlock()
	return nil
}

func (s *Service) tellComment(ctx context.Context, a forge.Activity) error {
	c := a.Comment
	if a.Change.Session == "" || c.Author.Handle == s.opts.Agent {
		return nil
	}
	prompt := c.Prompt
	if text, ok := Addressed(s.opts.Agent, c.Body); ok && prompt == "" {
		id, err := s.sessions.Prompt(ctx, a.Change.Session, core.NewPrompt{
			Author: c.Author, Text: promptText(a.Change, *c, text), ClientID: "comment:" + string(c.ID), Source: "comment:" + string(c.ID),
		})
		switch {
		case err == nil:
			prompt = id
			if err := s.forge.LinkComment(ctx, c.ID, id); err != nil {
				return err
			}
		case unknown(err):
			return err
		default: // the session takes no prompts: the comment is an event like any other
			s.log.Warn("comment becomes no prompt", "comment", c.ID, "err", err)
		}
	}
	e := core.NewEvent(core.EventComment, core.CommentData{Change: a.Change.ID, Comment: c.ID, Author: c.Author, Body: c.Body, Path: c.Path, Line: c.Line, Prompt: prompt})
	e.Actor = c.Author.Handle
	return s.sessions.Record(ctx, a.Change.Session, a.Key, e)
}

// Addressed says whether a comment speaks to the agent: a line outside quotes
// and code that begins with "@agent". The text is the comment without that
// address.
func Addressed(agent, body string) (text string, ok bool) {
	lines := strings.Split(body, "\n")
	fence := ""
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if mark := fenceOf(trimmed); mark != "" && (fence == "" || mark == fence) {
			if fence == "" {
				fence = mark
			} else {
				fence = ""
			}
			continue
		}
		if fence != "" || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") {
			continue
		}
		rest, found := cutMention(agent, trimmed)
		if !found {
			continue
		}
		ok = true
		lines[i] = rest
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), ok
}

func fenceOf(line string) string {
	for _, mark := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, mark) {
			return mark
		}
	}
	return ""
}

func cutMention(agent, line string) (rest string, found bool) {
	if len(line) < len(agent)+1 || line[0] != '@' || !strings.EqualFold(line[1:len(agent)+1], agent) {
		return line, false
	}
	rest = line[len(agent)+1:]
	if rest != "" && !strings.ContainsAny(rest[:1], " \t,:;.!?") {
		return line, false // @drydock-other is somebody else
	}
	return strings.TrimLeft(rest, " \t,:;"), true
}

// promptText says what the comment is about, then what it says.
func promptText(change core.Change, c core.Comment, text string) string {
	where := fmt.Sprintf("Review comment by %s on change %s#%d", c.Author.Handle, change.Repository, change.Number)
	if c.Path != "" {
		where += ", at " + c.Path
		if c.Line > 0 {
			where += fmt.Sprintf(":%d", c.Line)
		}
		where += " of commit " + c.Head
	}
	if text == "" {
		text = "(the comment says nothing more)"
	}
	return where + ":\n\n" + text
}

// Recover settles merges that were begun by an earlier process: the forge
// knows whether they happened. Pushes and deliveries are settled by whoever
// repeats them.
func (s *Service) Recover(ctx context.Context) error {
	open, err := s.effects.OpenEffects(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range open {
		if e.Kind == "change.merge" {
			errs = append(errs, s.settleMerge(ctx, e))
		}
	}
	return errors.Join(errs...)
}

func (s *Service) settleMerge(ctx context.Context, e store.Effect) error {
	var request mergeEffect
	if err := json.Unmarshal(e.Request, &request); err != nil {
		return core.E("change.recover", core.Internal, err, "effect %s", e.ID)
	}
	change, err := s.forge.Change(ctx, request.Change)
	if err != nil {
		return err
	}
	if change.State != core.ChangeMerged {
		return s.effects.FinishEffect(ctx, e.ID, store.EffectFailed, nil)
	}
	if err := s.record(ctx, change, mergedKey(change.ID), "merged", request.By); err != nil {
		return err
	}
	raw, err := json.Marshal(change)
	if err != nil {
		return core.E("change.recover", core.Internal, err, "effect %s", e.ID)
	}
	return s.effects.FinishEffect(ctx, e.ID, store.EffectDone, raw)
}
