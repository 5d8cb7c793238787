package store

import (
	"context"
	"database/sql"
)

// Reading a statement's text costs SQLite more than carrying it out, so those
// that are used again and again are kept prepared. All text in this package is
// fixed, so there are few.

const (
	maxStatements = 256
	prepareAfter  = 3 // uses
)

type statements struct {
	ready map[string]*sql.Stmt
	seen  map[string]int
}

func (s *statements) find(query string) *sql.Stmt {
	if stmt := s.ready[query]; stmt != nil {
		return stmt
	}
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	if len(s.seen) < maxStatements || s.seen[query] > 0 {
		s.seen[query]++
	}
	return nil
}

// prepare prepares what was used often enough. A statement that cannot be
// prepared is simply not kept.
func (s *statements) prepare(ctx context.Context, db *sql.DB, d dialect) {
	for query, n := range s.seen {
		if n < prepareAfter || s.ready[query] != nil {
			continue
		}
		stmt, err := db.PrepareContext(ctx, d.rebind(query)) //nolint:sqlclosecheck // kept, and closed with its database
		if err != nil {
			continue
		}
		if s.ready == nil {
			s.ready = map[string]*sql.Stmt{}
		}
		s.ready[query] = stmt // closed with its database
	}
}

func (db *DB) preparedRead(ctx context.Context, query string) *sql.Stmt {
	db.mu.Lock()
	defer db.mu.Unlock()
	stmt := db.reads.find(query) //nolint:sqlclosecheck // kept, and closed with its database
	if stmt == nil && db.reads.seen[query] >= prepareAfter {
		db.reads.prepare(ctx, db.readers, db.d)
		stmt = db.reads.ready[query]
	}
	return stmt
}
