package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"drydock/internal/core"
)

// ReadMark is how far a person has read a session's log.
type ReadMark struct {
	Session core.SessionID
	Seq     int64
}

var readMarkTable = table[ReadMark]{
	name: "read_marks", noun: "read mark", columns: "session, seq",
	fields: func(m *ReadMark) []any { return []any{&m.Session, &m.Seq} },
}

// MarkRead moves a person's mark forward to a number, and never back.
func (w Writer) MarkRead(ctx context.Context, person string, id core.SessionID, seq int64) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `INSERT INTO read_marks (person, session, seq) VALUES (?, ?, ?)
			ON CONFLICT (person, session) DO UPDATE SET seq = CASE WHEN excluded.seq > read_marks.seq THEN excluded.seq ELSE read_marks.seq END`, person, id, seq)
		return c.d.explain(ctx, "store.read", err, readMarkTable.what(id))
	})
}

// MarkUnread sets a person's mark to the start.
func (w Writer) MarkUnread(ctx context.Context, person string, id core.SessionID) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `INSERT INTO read_marks (person, session, seq) VALUES (?, ?, 0)
			ON CONFLICT (person, session) DO UPDATE SET seq = 0`, person, id)
		return c.d.explain(ctx, "store.read", err, readMarkTable.what(id))
	})
}

// Standing is what one person's inbox says of a session besides the session.
type Standing struct {
	Session core.SessionID
	Seq     int64 // of the person's mark
	Unread  bool
	Section core.InboxSection // "" if archived
}

// The parts of the condition of a section. A session concerns its owner, who
// wrote in it, and who has a mark.
const (
	concerns = `(owner = ? OR EXISTS (SELECT 1 FROM prompts p WHERE p.session = sessions.id AND p.author = ?)
		OR EXISTS (SELECT 1 FROM read_marks m WHERE m.person = ? AND m.session = sessions.id))`
	isUnread = `(EXISTS (SELECT 1 FROM session_facts f WHERE f.session = sessions.id AND f.settled >
		COALESCE((SELECT m.seq FROM read_marks m WHERE m.person = ? AND m.session = sessions.id), 0)) AND ` + concerns + `)`
	isAsked = `(state = 'waiting' OR state IN ('idle', 'failed') AND EXISTS (SELECT 1 FROM approvals a WHERE a.session = sessions.id AND a.state = 'pending')
		AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.id = sessions.change_id AND c.state <> 'open'))`
	isRunning = `state IN ('queued', 'starting', 'running', 'stopping')`
	isSettled = `state IN ('idle', 'failed')`
	isNeeded  = `(` + isAsked + ` OR ` + isSettled + ` AND ` + isUnread + `)`
)

func unreadArgs(person string) []any { return []any{person, person, person, person} }

func sectionOf(section core.InboxSection, person string) (string, []any) {
	switch section {
	case core.InboxNeeds:
		return isNeeded, unreadArgs(person)
	case core.InboxRunning:
		return isRunning, nil
	}
	return `(` + isSettled + ` AND NOT ` + isNeeded + `)`, unreadArgs(person)
}

func inboxWhere(section core.InboxSection, f core.InboxFilter) conditions {
	var where conditions
	sql, args := sectionOf(section, f.Person)
	where.add(sql, args...)
	where.equal("environment", f.Environment)
	if f.Mine {
		where.add(`(owner = ? OR EXISTS (SELECT 1 FROM prompts p WHERE p.session = sessions.id AND p.author = ?))`, f.Person, f.Person)
	}
	if f.Text != "" {
		where.add(`LOWER(title) LIKE ? ESCAPE '\'`, "%"+escapeLike(strings.ToLower(f.Text))+"%")
	}
	return where
}

// Inbox lists one section for a person: running ones in the order they were
// made, the others by what happened last.
func (r Reader) Inbox(ctx context.Context, section core.InboxSection, f core.InboxFilter, p core.Page) ([]core.Session, string, error) {
	name := "inbox " + string(section)
	where := inboxWhere(section, f)
	column := "updated"
	if section == core.InboxRunning {
		column = "created"
	}
	after, err := openCursor(name, p.Cursor)
	if err != nil {
		return nil, "", err
	}
	if after != "" {
		at, id, _ := strings.Cut(after, " ")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, "", core.E("store.page", core.Invalid, nil, "cursor is not one of the inbox")
		}
		where.add("("+column+" < ? OR "+column+" = ? AND id < ?)", n, n, id)
	}
	list, err := sessionTable.list(ctx, r.q, "WHERE "+strings.Join(where.sql, " AND ")+" ORDER BY "+column+" DESC, id DESC LIMIT ?", append(where.args, p.Size()+1)...)
	if err != nil || len(list) <= p.Size() {
		return list, "", err
	}
	list = list[:p.Size()]
	last := list[len(list)-1]
	at := last.Updated
	if section == core.InboxRunning {
		at = last.Created
	}
	return list, cursor(name, fmt.Sprintf("%d %s", nanos(at), last.ID)), nil
}

// CountInbox counts one section for a person.
func (r Reader) CountInbox(ctx context.Context, section core.InboxSection, f core.InboxFilter) (n int, err error) {
	where := inboxWhere(section, f)
	err = r.q.row(ctx, "SELECT COUNT(*) FROM sessions WHERE "+strings.Join(where.sql, " AND "), where.args...).Scan(&n)
	return n, r.q.d.explain(ctx, "store.inbox", err, "inbox of "+f.Person)
}

// StandingsOf says in which section of a person's inbox several sessions are.
func (r Reader) StandingsOf(ctx context.Context, person string, ids []core.SessionID) (map[core.SessionID]Standing, error) {
	out := make(map[core.SessionID]Standing, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	marks, err := among(ctx, readMarkTable, r.q, "session", ids, "AND person = ?", person)
	if err != nil {
		return nil, err
	}
	seqs := map[core.SessionID]int64{}
	for _, m := range marks {
		seqs[m.Session] = m.Seq
	}
	pick := func(condition string, args []any, f func(core.SessionID)) error {
		list, err := among(ctx, idTable, r.q, "id", ids, "AND "+condition, args...)
		for _, id := range list {
			f(id)
		}
		return err
	}
	set := func(change func(*Standing)) func(core.SessionID) {
		return func(id core.SessionID) {
			s := out[id]
			change(&s)
			out[id] = s
		}
	}
	for _, id := range ids {
		out[id] = Standing{Session: id, Seq: seqs[id]}
	}
	for _, section := range []core.InboxSection{core.InboxRecent, core.InboxRunning, core.InboxNeeds} {
		sql, args := sectionOf(section, person)
		if err := pick(sql, args, set(func(s *Standing) { s.Section = section })); err != nil {
			return nil, err
		}
	}
	return out, pick(isUnread, unreadArgs(person), set(func(s *Standing) { s.Unread = true }))
}

var idTable = table[core.SessionID]{
	name: "sessions", noun: "session", columns: "id", fields: func(id *core.SessionID) []any { return []any{id} },
}

// Participants lists who wrote prompts in a session, first first.
func (r Reader) Participants(ctx context.Context, id core.SessionID) ([]core.Author, error) {
	t := table[core.Author]{
		name: "prompts", noun: "author", columns: "author, MAX(author_name), MAX(author_email)",
		fields: func(a *core.Author) []any { return []any{&a.Handle, &a.Name, &a.Email} },
	}
	return t.list(ctx, r.q, "WHERE session = ? AND author <> '' GROUP BY author ORDER BY MIN(created), author", id)
}
