package store

import (
	"context"

	"drydock/internal/core"
)

var userTable = table[core.Author]{
	name: "users", noun: "user", columns: "handle, name, email",
	fields: func(a *core.Author) []any { return []any{&a.Handle, &a.Name, &a.Email} },
}

// PutUser adds a person, or changes the name and address of one.
func (w Writer) PutUser(ctx context.Context, a core.Author) error {
	if a.Handle == "" {
		return core.E("store.user", core.Invalid, nil, "user has no handle")
	}
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `INSERT INTO users (handle, name, email) VALUES (?, ?, ?)
			ON CONFLICT (handle) DO UPDATE SET name = excluded.name, email = excluded.email`, a.Handle, a.Name, a.Email)
		return c.d.explain(ctx, "store.user", err, "user "+a.Handle)
	})
}

// User finds a person.
func (r Reader) User(ctx context.Context, handle string) (core.Author, error) {
	return userTable.get(ctx, r.q, handle, "WHERE handle = ?", handle)
}

// Users lists people by handle, last first.
func (r Reader) Users(ctx context.Context, p core.Page) ([]core.Author, string, error) {
	return userTable.page(ctx, r.q, p, nil, nil)
}
