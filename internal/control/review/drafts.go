package review

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Write keeps a comment that somebody is writing. The same client id is the
// same draft: it answers with what is stored.
func (s *Service) Write(ctx context.Context, id core.ChangeID, by core.Author, a core.Anchor, body, clientID string) (core.Note, error) {
	if err := checkBody(body, maxBody); err != nil {
		return core.Note{}, err
	}
	e, err := s.ends(ctx, id, by, core.DiffRange{To: a.Head})
	if err != nil {
		return core.Note{}, err
	}
	if a, err = s.anchor(ctx, e, a); err != nil {
		return core.Note{}, err
	}
	now := s.opts.Now().UTC()
	n, _, err := s.d.Store.AddNote(ctx, core.Note{ID: core.NewNoteID(), Change: id, Author: by.Handle, ClientID: clientID, Anchor: a, Body: body, Created: now, Updated: now})
	return n, err
}

// Notes lists what a person is writing on a change, oldest first.
func (s *Service) Notes(ctx context.Context, id core.ChangeID, by core.Author) ([]core.Note, error) {
	return s.d.Store.Notes(ctx, id, by.Handle)
}

// mine finds a draft of a person; somebody else's does not exist.
func mine(ctx context.Context, r store.Reader, change core.ChangeID, id core.NoteID, by core.Author) (core.Note, error) {
	n, err := r.Note(ctx, id)
	if core.Is(err, core.NotFound) || err == nil && (n.Author != by.Handle || n.Change != change) {
		return n, core.E("review.draft", core.NotFound, nil, "you have no draft %s on change %s", id, change).WithHint("it may have been sent already")
	}
	return n, err
}

// Rewrite changes the text of a draft.
func (s *Service) Rewrite(ctx context.Context, change core.ChangeID, id core.NoteID, by core.Author, body string) (n core.Note, err error) {
	if err := checkBody(body, maxBody); err != nil {
		return n, err
	}
	err = s.d.Store.Tx(ctx, func(tx *store.Tx) error {
		if _, err := mine(ctx, tx.Reader, change, id, by); err != nil {
			return err
		}
		n, err = tx.UpdateNote(ctx, id, func(n *core.Note) error { n.Body = body; return nil })
		return err
	})
	return n, err
}

// Discard throws a draft away.
func (s *Service) Discard(ctx context.Context, change core.ChangeID, id core.NoteID, by core.Author) error {
	return s.d.Store.Tx(ctx, func(tx *store.Tx) error {
		if _, err := mine(ctx, tx.Reader, change, id, by); err != nil {
			return err
		}
		return tx.RemoveNote(ctx, id)
	})
}

// sent is what is remembered of a send, so that a second one answers the same.
type sent struct {
	Comments []core.CommentID `json:"comments"`
	Prompt   core.PromptID    `json:"prompt,omitempty"`
}

// Send makes comments of all drafts of a person, and one prompt of them when
// they are for the agent: all of it in one transaction, once per client id.
func (s *Service) Send(ctx context.Context, id core.ChangeID, by core.Author, req core.Sending) (core.SentNotes, error) {
	const op = "review.send"
	if req.To != "agent" && req.To != "people" {
		return core.SentNotes{}, core.E(op, core.Invalid, nil, "drafts go to the agent or to people, not to %q", clip(req.To, 40))
	}
	if req.ClientID == "" || len(req.ClientID) > 100 {
		return core.SentNotes{}, core.E(op, core.Invalid, nil, "a client_id of 1 to 100 bytes is needed: it makes sending twice harmless")
	}
	if req.Note != "" {
		if err := checkBody(req.Note, maxNote); err != nil {
			return core.SentNotes{}, err
		}
	}
	c, err := s.d.Changes.Get(ctx, string(id))
	if err != nil {
		return core.SentNotes{}, err
	}
	if req.To == "agent" && c.Session == "" {
		return core.SentNotes{}, core.E(op, core.Conflict, nil, "change %s#%d came from no session: no agent works on it", c.Repository, c.Number).WithHint("send to people")
	}
	key := "send:" + string(id) + ":" + by.Handle + ":" + req.ClientID
	request, err := json.Marshal(map[string]string{"to": req.To})
	if err != nil {
		return core.SentNotes{}, core.E(op, core.Internal, err, "request of %s", key)
	}
	var out core.SentNotes
	var wake func()
	err = s.d.Store.Tx(ctx, func(tx *store.Tx) error {
		before, fresh, err := tx.IntendEffect(ctx, store.Effect{ID: key, Kind: "review.send", Subject: string(c.Session), Request: request})
		if err != nil {
			return err
		}
		if !fresh {
			out, err = again(ctx, tx, before)
			return err
		}
		out, wake, err = s.send(ctx, tx, c, by, req, key)
		if err != nil {
			return err
		}
		done := sent{}
		for _, m := range out.Comments {
			done.Comments = append(done.Comments, m.ID)
		}
		if out.Prompt != nil {
			done.Prompt = out.Prompt.ID
		}
		raw, err := json.Marshal(done)
		if err != nil {
			return core.E(op, core.Internal, err, "answer of %s", key)
		}
		return tx.FinishEffect(ctx, key, store.EffectDone, raw)
	})
	if err != nil {
		return core.SentNotes{}, err
	}
	if wake != nil {
		wake()
	}
	return out, nil
}

// again answers what was sent before.
func again(ctx context.Context, tx *store.Tx, e store.Effect) (core.SentNotes, error) {
	var done sent
	if err := json.Unmarshal(e.Response, &done); err != nil {
		return core.SentNotes{}, core.E("review.send", core.Internal, err, "answer of %s", e.ID)
	}
	out := core.SentNotes{Comments: []core.Comment{}}
	for _, id := range done.Comments {
		m, err := tx.Comment(ctx, id)
		if err != nil {
			return out, err
		}
		out.Comments = append(out.Comments, m)
	}
	if done.Prompt != "" {
		p, err := tx.Prompt(ctx, done.Prompt)
		if err != nil {
			return out, err
		}
		out.Prompt = &p
	}
	return out, nil
}

func (s *Service) send(ctx context.Context, tx *store.Tx, c core.Change, by core.Author, req core.Sending, key string) (core.SentNotes, func(), error) {
	out := core.SentNotes{Comments: []core.Comment{}}
	notes, err := tx.Notes(ctx, c.ID, by.Handle)
	if err != nil {
		return out, nil, err
	}
	if len(notes) == 0 && req.Note == "" {
		return out, nil, core.E("review.send", core.Conflict, nil, "you have no drafts on change %s#%d", c.Repository, c.Number)
	}
	// Identifiers first: the prompt names the threads, the comments the prompt.
	now := s.opts.Now().UTC()
	if req.Note != "" {
		out.Comments = append(out.Comments, core.Comment{ID: core.NewCommentID(), Change: c.ID, Author: by, Body: req.Note, Head: c.Head, Created: now})
	}
	anchors := map[core.CommentID]core.Anchor{}
	for _, n := range notes {
		m := core.Comment{ID: core.NewCommentID(), Change: c.ID, Author: by, Body: n.Body, Path: n.Anchor.Path, Line: n.Anchor.Line, Head: n.Anchor.Head, Created: now}
		anchors[m.ID] = n.Anchor
		out.Comments = append(out.Comments, m)
	}
	for i := range out.Comments { // in the order in which they were written
		out.Comments[i].Created = now.Add(time.Duration(i))
	}
	var wake func()
	if req.To == "agent" {
		p, w, err := s.d.Prompts.PromptIn(ctx, tx, c.Session, core.NewPrompt{
			Author: by, Text: promptOf(c, by, req.Note, out.Comments, anchors), ClientID: clip(key, 190), Source: "review:" + string(c.ID),
		})
		if err != nil {
			return out, nil, err
		}
		out.Prompt, wake = &p, w
	}
	for i := range out.Comments {
		m := &out.Comments[i]
		if out.Prompt != nil {
			m.Prompt = out.Prompt.ID
		}
		if _, _, err := tx.CreateComment(ctx, "sent:"+string(m.ID), *m); err != nil {
			return out, nil, err
		}
		if a, ok := anchors[m.ID]; ok {
			if err := tx.AddThread(ctx, core.ThreadMark{ID: core.ThreadOf(m.ID), Change: c.ID, Anchor: a}); err != nil {
				return out, nil, err
			}
		}
		if err := s.tellComment(ctx, tx, c, *m); err != nil {
			return out, nil, err
		}
	}
	for _, n := range notes {
		if err := tx.RemoveNote(ctx, n.ID); err != nil {
			return out, nil, err
		}
	}
	return out, wake, nil
}

// promptOf is the one prompt that all comments become.
func promptOf(c core.Change, by core.Author, note string, comments []core.Comment, anchors map[core.CommentID]core.Anchor) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Review by %s of change %s#%d at commit %s.\n", by.Handle, c.Repository, c.Number, c.Head)
	if note != "" {
		b.WriteString("\n" + note + "\n")
	}
	n := 0
	for _, m := range comments {
		a, ok := anchors[m.ID]
		if !ok {
			continue
		}
		n++
		fmt.Fprintf(&b, "\n%d. %s (%s)\n", n, placeOf(a), core.ThreadOf(m.ID))
		if a.Hunk != "" {
			b.WriteString("\n")
			for line := range strings.Lines(a.Hunk) {
				b.WriteString("    " + line)
			}
		}
		b.WriteString("\n" + m.Body + "\n")
	}
	if n > 0 {
		b.WriteString("\nAnswer each of them in the code. Where the answer is elsewhere than at the lines named, write the thread's identifier into your summary.\n")
	}
	return b.String()
}

func placeOf(a core.Anchor) string {
	if a.Path == "" {
		return "The change as a whole"
	}
	name := a.Path
	if strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == 0x7f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}) {
		name = fmt.Sprintf("%q", name)
	}
	where := ""
	switch {
	case a.Line == 0:
	case a.EndLine > a.Line:
		where = fmt.Sprintf(", lines %d to %d", a.Line, a.EndLine)
	default:
		where = fmt.Sprintf(", line %d", a.Line)
	}
	side, commit := "", a.Head
	if a.Side == sideOld {
		side, commit = " of the old side", a.Base
	}
	return fmt.Sprintf("%s%s%s, commit %.12s", name, where, side, commit)
}

// HandBack gives a change back to the agent, with what is still open.
func (s *Service) HandBack(ctx context.Context, id core.ChangeID, by core.Author, note, clientID string) (core.Prompt, error) {
	const op = "review.hand_back"
	if err := checkBody(note, maxNote); err != nil {
		return core.Prompt{}, err
	}
	c, err := s.d.Changes.Get(ctx, string(id))
	if err != nil {
		return core.Prompt{}, err
	}
	switch {
	case c.Session == "":
		return core.Prompt{}, core.E(op, core.Conflict, nil, "change %s#%d came from no session: no agent works on it", c.Repository, c.Number)
	case c.State != core.ChangeOpen:
		return core.Prompt{}, core.E(op, core.Conflict, nil, "change %s#%d is %s", c.Repository, c.Number, c.State)
	}
	result, err := s.result(ctx, c.Evidence)
	if err != nil {
		return core.Prompt{}, err
	}
	threads, err := s.said(ctx, id)
	if err != nil {
		return core.Prompt{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s hands change %s#%d (commit %s) back to you:\n\n%s\n", by.Handle, c.Repository, c.Number, c.Head, note)
	if result != nil && len(result.Reasons) > 0 {
		fmt.Fprintf(&b, "\nThe proof of commit %.12s says %s: %s\n", result.Exam.Head, result.Verdict, clip(strings.ToValidUTF8(strings.Join(result.Reasons, "; "), "?"), 4000))
	}
	open := slices.DeleteFunc(threads, func(t core.Thread) bool { return t.State == core.ThreadResolved || t.Anchor.Path == "" })
	for i, t := range open {
		if i == 0 {
			b.WriteString("\nRemarks that nobody has called settled:\n")
		}
		if i == 50 {
			fmt.Fprintf(&b, "... and %d more\n", len(open)-i)
			break
		}
		fmt.Fprintf(&b, "- %s (%s): %s\n", placeOf(t.Anchor), t.ID, clip(t.Comments[0].Body, 500))
	}
	key := ""
	if clientID != "" {
		key = "handback:" + string(id) + ":" + by.Handle + ":" + clientID
	}
	var out core.Prompt
	var wake func()
	err = s.d.Store.Tx(ctx, func(tx *store.Tx) error {
		if key != "" {
			if before, err := tx.PromptByClientID(ctx, c.Session, key); err == nil {
				out = before
				return nil
			} else if !core.Is(err, core.NotFound) {
				return err
			}
		}
		if err := s.tell(ctx, tx, c, by, "handed_back"); err != nil {
			return err
		}
		out, wake, err = s.d.Prompts.PromptIn(ctx, tx, c.Session, core.NewPrompt{Author: by, Text: b.String(), ClientID: key, Source: "handback:" + string(id)})
		return err
	})
	if err != nil {
		return core.Prompt{}, err
	}
	if wake != nil {
		wake()
	}
	return out, nil
}
