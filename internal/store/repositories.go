package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// Repository is one of the built-in forge.
type Repository struct {
	Name          string             `json:"name"` // unique
	Environment   core.EnvironmentID `json:"environment,omitempty"`
	Source        string             `json:"source,omitempty"` // where it was first fetched from
	DefaultBranch string             `json:"default_branch"`
	Created       time.Time          `json:"created"`
	Updated       time.Time          `json:"updated"`
}

var repositoryTable = table[Repository]{
	name: "repositories", noun: "repository", columns: "name, environment, source, default_branch, created, updated",
	fields: func(r *Repository) []any {
		return []any{&r.Name, &r.Environment, &r.Source, &r.DefaultBranch, stamp{&r.Created}, stamp{&r.Updated}}
	},
	updated: func(r *Repository) *time.Time { return &r.Updated },
}

// CreateRepository adds one; a second of the same name is a Conflict.
func (w Writer) CreateRepository(ctx context.Context, r Repository) error {
	return w.in(ctx, func(c conn) error { return repositoryTable.insert(ctx, c, &r) })
}

// Repository finds one.
func (r Reader) Repository(ctx context.Context, name string) (Repository, error) {
	return repositoryTable.get(ctx, r.q, name, "WHERE name = ?", name)
}

// Repositories lists by name, last first.
func (r Reader) Repositories(ctx context.Context, p core.Page) ([]Repository, string, error) {
	return repositoryTable.page(ctx, r.q, p, nil, nil)
}

// UpdateRepository changes one.
func (w Writer) UpdateRepository(ctx context.Context, name string, change func(*Repository) error) (Repository, error) {
	return repositoryTable.change(ctx, w, name, change)
}
