package store

import (
	"context"
	"encoding/json"
	"time"

	"drydock/internal/core"
)

// Cell is a cached result of the base's exam (cell A).
type Cell struct {
	Key     string          `json:"key"` // everything the result depends on
	Result  json.RawMessage `json:"result"`
	Created time.Time       `json:"created"`
}

var cellTable = table[Cell]{
	name: "cells", noun: "cell", columns: "cell_key, result, created",
	fields: func(c *Cell) []any { return []any{&c.Key, asDoc(&c.Result), stamp{&c.Created}} },
}

// PutCell stores a result; the newest of a key counts.
func (w Writer) PutCell(ctx context.Context, key string, result json.RawMessage) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `INSERT INTO cells (cell_key, result, created) VALUES (?, ?, ?)
			ON CONFLICT (cell_key) DO UPDATE SET result = excluded.result, created = excluded.created`, key, string(result), nanos(now()))
		return c.d.explain(ctx, "store.cell", err, "cell "+key)
	})
}

// Cell finds a result, or NotFound.
func (r Reader) Cell(ctx context.Context, key string) (Cell, error) {
	return cellTable.get(ctx, r.q, key, "WHERE cell_key = ?", key)
}

// DropCells removes results older than a time.
func (w Writer) DropCells(ctx context.Context, before time.Time) (n int64, err error) {
	err = w.in(ctx, func(c conn) error {
		n, err = c.exec(ctx, `DELETE FROM cells WHERE created < ?`, nanos(before))
		return c.d.explain(ctx, "store.cell", err, "cells")
	})
	return n, err
}

// CaseResult is one status of one test case, for its history.
type CaseResult struct {
	Repository string    `json:"repository"`
	Check      string    `json:"check"`
	Case       string    `json:"case"` // identity as text
	Commit     string    `json:"commit"`
	Cell       string    `json:"cell"`
	Status     string    `json:"status"`
	Time       time.Time `json:"time"`
}

var caseTable = table[CaseResult]{
	name: "case_history", noun: "case", columns: "repository, check_name, case_id, commit_id, cell, status, at",
	fields: func(c *CaseResult) []any {
		return []any{&c.Repository, &c.Check, &c.Case, &c.Commit, &c.Cell, &c.Status, stamp{&c.Time}}
	},
}

// AddCaseResults adds to the history, all or nothing.
func (w Writer) AddCaseResults(ctx context.Context, results []CaseResult) error {
	return w.in(ctx, func(c conn) error {
		for i := range results {
			if err := caseTable.insert(ctx, c, &results[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// CaseHistory lists a case's newest results first.
func (r Reader) CaseHistory(ctx context.Context, repository, check, caseID string, limit int) ([]CaseResult, error) {
	return caseTable.list(ctx, r.q, "WHERE repository = ? AND check_name = ? AND case_id = ? ORDER BY at DESC LIMIT ?",
		repository, check, caseID, min(max(limit, 1), core.MaxPage))
}
