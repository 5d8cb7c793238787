package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
)

// Reader has every read; DB and Tx embed it.
type Reader struct{ q conn }

// Writer has every write; DB and Tx embed it. On a DB each call is a
// transaction of its own.
type Writer struct {
	in func(ctx context.Context, fn func(conn) error) error
}

// sqlConn is what *sql.DB and *sql.Tx have in common.
type sqlConn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

type conn struct {
	sql      sqlConn
	d        dialect
	prepared func(ctx context.Context, query string) *sql.Stmt // nil: not prepared
}

func (c conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	var res sql.Result
	var err error
	if stmt := c.prepared(ctx, query); stmt != nil { //nolint:sqlclosecheck // kept, and closed with its database
		res, err = stmt.ExecContext(ctx, args...)
	} else {
		res, err = c.sql.ExecContext(ctx, c.d.rebind(query), args...)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (c conn) row(ctx context.Context, query string, args ...any) *sql.Row {
	if stmt := c.prepared(ctx, query); stmt != nil { //nolint:sqlclosecheck // kept, and closed with its database
		return stmt.QueryRowContext(ctx, args...)
	}
	return c.sql.QueryRowContext(ctx, c.d.rebind(query), args...)
}

func (c conn) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := c.prepared(ctx, query); stmt != nil { //nolint:sqlclosecheck // kept, and closed with its database
		return stmt.QueryContext(ctx, args...)
	}
	return c.sql.QueryContext(ctx, c.d.rebind(query), args...)
}

// explain gives an engine's error its kind. what names the object: "session
// ses_...".
func (d dialect) explain(ctx context.Context, op string, err error, what string) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e
	}
	if errors.Is(err, sql.ErrNoRows) {
		return core.E(op, core.NotFound, nil, "%s does not exist", what)
	}
	if ctx.Err() != nil { // an interrupted statement reports it in the engine's own words
		return core.E(op, core.KindOf(ctx.Err()), context.Cause(ctx), "%s", what)
	}
	switch d.classify(err) {
	case faultUnique:
		return core.E(op, core.Conflict, err, "%s exists already", what)
	case faultForeign:
		return core.E(op, core.NotFound, err, "%s belongs to something that does not exist", what)
	case faultBusy:
		return core.E(op, core.Unavailable, err, "%s: the database is busy", what)
	case faultFull:
		return core.E(op, core.Unavailable, err, "%s: no room for the database", what).WithHint("free space on the disk that holds the state directory")
	}
	return core.E(op, core.Internal, err, "%s", what)
}

// table describes how records of one type lie in a table. fields returns, in
// the order of columns, pointers that serve for writing and for reading. The
// first column is the key.
type table[T any] struct {
	name    string
	noun    string // "session"
	columns string
	fields  func(*T) []any
	updated func(*T) *time.Time // set by every update; nil: there is none
}

func (t table[T]) what(key any) string { return fmt.Sprintf("%s %v", t.noun, key) }

// get reads the one row that tail selects; key names it in the error.
func (t table[T]) get(ctx context.Context, c conn, key any, tail string, args ...any) (T, error) {
	var v T
	err := c.row(ctx, "SELECT "+t.columns+" FROM "+t.name+" "+tail, args...).Scan(t.fields(&v)...)
	if err != nil {
		var zero T
		return zero, c.d.explain(ctx, "store."+t.noun, err, t.what(key))
	}
	return v, nil
}

func (t table[T]) list(ctx context.Context, c conn, tail string, args ...any) ([]T, error) {
	rows, err := c.rows(ctx, "SELECT "+t.columns+" FROM "+t.name+" "+tail, args...)
	if err != nil {
		return nil, c.d.explain(ctx, "store.list", err, "list of "+t.name)
	}
	defer rows.Close()
	out := []T{}
	for rows.Next() {
		var v T
		if err := rows.Scan(t.fields(&v)...); err != nil {
			return nil, core.E("store.list", core.Internal, err, "row of %s", t.name)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, c.d.explain(ctx, "store.list", err, "list of "+t.name)
	}
	return out, nil
}

// among lists rows where a column is one of keys, in no order. tail, which may
// be empty, goes after the condition. Long lists are asked for in parts of few
// sizes, so that there are few statements.
func among[T any, K ~string](ctx context.Context, t table[T], c conn, column string, keys []K, tail string, args ...any) ([]T, error) {
	var out []T
	for len(keys) > 0 {
		size := 64
		if len(keys) <= 8 {
			size = 8
		}
		if len(keys) == 1 {
			size = 1
		}
		part := keys[:min(size, len(keys))]
		keys = keys[len(part):]
		all := make([]any, 0, size+len(args))
		for i := range size {
			all = append(all, part[min(i, len(part)-1)])
		}
		marks := strings.TrimSuffix(strings.Repeat("?, ", size), ", ")
		list, err := t.list(ctx, c, "WHERE "+column+" IN ("+marks+") "+tail, append(all, args...)...)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// insert writes a new row; extra are pairs of further columns and values.
func (t table[T]) insert(ctx context.Context, c conn, v *T, extra ...any) error {
	args := t.fields(v)
	key := deref(args[0])
	var columns strings.Builder
	columns.WriteString(t.columns)
	for i := 0; i < len(extra); i += 2 {
		columns.WriteString(", " + extra[i].(string))
		args = append(args, extra[i+1])
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
	_, err := c.exec(ctx, "INSERT INTO "+t.name+" ("+columns.String()+") VALUES ("+marks+")", args...)
	return c.d.explain(ctx, "store."+t.noun, err, t.what(key))
}

// put inserts a row, or replaces what the row with its key has.
func (t table[T]) put(ctx context.Context, c conn, v *T) error {
	args := t.fields(v)
	names := strings.Split(t.columns, ", ")
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
	var set strings.Builder
	for i, n := range names[1:] {
		if i > 0 {
			set.WriteString(", ")
		}
		set.WriteString(n + " = excluded." + n)
	}
	_, err := c.exec(ctx, "INSERT INTO "+t.name+" ("+t.columns+") VALUES ("+marks+") ON CONFLICT ("+names[0]+") DO UPDATE SET "+set.String(), args...)
	return c.d.explain(ctx, "store."+t.noun, err, t.what(deref(t.fields(v)[0])))
}

// update reads the row with this key, lets change change it, and writes it back.
func (t table[T]) update(ctx context.Context, c conn, key any, change func(v *T) error) (T, error) {
	var zero T
	names := strings.Split(t.columns, ", ")
	v, err := t.get(ctx, c, key, "WHERE "+names[0]+" = ?"+c.d.lockRow, key)
	if err != nil {
		return zero, err
	}
	if err := change(&v); err != nil {
		return zero, err
	}
	if t.updated != nil {
		*t.updated(&v) = now()
	}
	args := append(t.fields(&v)[1:], key)
	set := strings.Join(names[1:], " = ?, ") + " = ?"
	if _, err := c.exec(ctx, "UPDATE "+t.name+" SET "+set+" WHERE "+names[0]+" = ?", args...); err != nil {
		return zero, c.d.explain(ctx, "store."+t.noun, err, t.what(key))
	}
	return v, nil
}

// change is update as a write of its own.
func (t table[T]) change(ctx context.Context, w Writer, key any, change func(v *T) error) (v T, err error) {
	err = w.in(ctx, func(c conn) error {
		v, err = t.update(ctx, c, key, change)
		return err
	})
	return v, err
}

// moveAlong is change for records whose state moves along a table of states only.
func moveAlong[T any, S ~string](ctx context.Context, w Writer, t table[T], key any, states core.Table[S], state func(*T) S, change func(v *T) error) (T, error) {
	return t.change(ctx, w, key, func(v *T) error {
		from := state(v)
		if err := change(v); err != nil {
			return err
		}
		return move(t.noun, key, states, from, state(v))
	})
}

// page lists newest first: keys sort by the time they were made. conditions
// are SQL, joined by AND, with their arguments.
func (t table[T]) page(ctx context.Context, c conn, p core.Page, conditions []string, args []any) ([]T, string, error) {
	key, _, _ := strings.Cut(t.columns, ",")
	after, err := openCursor(t.name, p.Cursor)
	if err != nil {
		return nil, "", err
	}
	if after != "" {
		conditions, args = append(conditions, key+" < ?"), append(args, after)
	}
	tail := ""
	if len(conditions) > 0 {
		tail = "WHERE " + strings.Join(conditions, " AND ")
	}
	tail += " ORDER BY " + key + " DESC LIMIT ?"
	list, err := t.list(ctx, c, tail, append(args, p.Size()+1)...)
	if err != nil || len(list) <= p.Size() {
		return list, "", err
	}
	list = list[:p.Size()]
	return list, cursor(t.name, fmt.Sprint(deref(t.fields(&list[len(list)-1])[0]))), nil
}

// cursor packs the key of the last entry of a page. It is opaque to callers.
func cursor(table, key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(table + "\x00" + key))
}

const maxCursor = 512

func openCursor(table, s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if len(s) <= maxCursor {
		if raw, err := base64.RawURLEncoding.DecodeString(s); err == nil {
			if key, ok := strings.CutPrefix(string(raw), table+"\x00"); ok && key != "" && cursor(table, key) == s {
				return key, nil
			}
		}
	}
	return "", core.E("store.page", core.Invalid, nil, "cursor is not one of a list of %s", table).
		WithHint("use the cursor that the page before returned, unchanged")
}

// move refuses a change of state that the table does not allow. It is the one
// place where states are compared.
func move[S ~string](noun string, id any, t core.Table[S], from, to S) error {
	if t.Allows(from, to) {
		return nil
	}
	return core.E("store."+noun, core.Conflict, nil, "%s %v is %s and cannot become %s", noun, id, from, to)
}

func deref(p any) any {
	switch v := p.(type) {
	case *string:
		return *v
	case driver.Valuer:
		x, _ := v.Value()
		return x
	}
	x, _ := driver.DefaultParameterConverter.ConvertValue(p)
	return x
}

// stamp is a time as nanoseconds since 1970 in UTC; 0 is the zero time.
type stamp struct{ t *time.Time }

func (s stamp) Value() (driver.Value, error) { return nanos(*s.t), nil }

func (s stamp) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time is %T, want an integer", src)
	}
	*s.t = fromNanos(n)
	return nil
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// now is the time that the store writes: what is read back is equal to it.
func now() time.Time { return time.Unix(0, time.Now().UnixNano()).UTC() }

// doc is a value kept as JSON text; "" is the zero value.
type doc[T any] struct{ v *T }

func asDoc[T any](v *T) doc[T] { return doc[T]{v} }

func (d doc[T]) Value() (driver.Value, error) {
	raw, err := json.Marshal(d.v)
	if err != nil {
		return nil, err
	}
	if string(raw) == "null" {
		return "", nil
	}
	return string(raw), nil
}

func (d doc[T]) Scan(src any) error {
	var raw []byte
	switch s := src.(type) {
	case string:
		raw = []byte(s)
	case []byte:
		raw = s
	default:
		return fmt.Errorf("document is %T, want text", src)
	}
	var zero T
	*d.v = zero
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, d.v)
}

// text is JSON that is stored and returned byte for byte.
type text struct{ v *json.RawMessage }

func (t text) Value() (driver.Value, error) { return string(*t.v), nil }

func (t text) Scan(src any) error {
	switch s := src.(type) {
	case string:
		*t.v = json.RawMessage(s)
	case []byte:
		*t.v = json.RawMessage(append([]byte(nil), s...))
	default:
		return fmt.Errorf("text is %T", src)
	}
	return nil
}
