package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"drydock/internal/core"
)

// dialect is everything that differs between engines. All other SQL in this
// package is the common subset of SQLite and Postgres, with ? as placeholder.
type dialect struct {
	name     string
	lockRow  string // after a SELECT whose row is about to be updated
	rebind   func(query string) string
	classify func(err error) fault
}

// fault is what an engine's error means to a caller.
type fault int

const (
	faultOther   fault = iota
	faultUnique        // the row exists already
	faultForeign       // it names a row that does not exist
	faultBusy          // try again
	faultFull          // no room
)

func sqliteDialect() dialect {
	return dialect{
		name:     "sqlite",
		lockRow:  "", // a writing transaction is alone from its start
		rebind:   func(query string) string { return query },
		classify: classifySQLite,
	}
}

func classifySQLite(err error) fault {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return faultOther
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return faultUnique
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return faultForeign
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return faultBusy
	case sqlite3.SQLITE_FULL:
		return faultFull
	}
	return faultOther
}

// oldestSQLite is the first release without the WAL-reset bug that could
// corrupt a database used by several connections.
var oldestSQLite = [3]int{3, 51, 3}

func checkSQLite(ctx context.Context, db *sql.DB) error {
	var version string
	if err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return core.E("store.open", core.Unavailable, err, "ask SQLite for its version")
	}
	if !atLeast(version, oldestSQLite) {
		return core.E("store.open", core.Unavailable, nil, "SQLite %s is older than %d.%d.%d, which can corrupt a database in WAL mode",
			version, oldestSQLite[0], oldestSQLite[1], oldestSQLite[2]).
			WithHint("build drydock with a newer SQLite")
	}
	return nil
}

func atLeast(version string, oldest [3]int) bool {
	parts := strings.SplitN(version, ".", 4)
	for i, want := range oldest {
		got := 0
		if i < len(parts) {
			n, err := strconv.Atoi(parts[i])
			if err != nil {
				return false
			}
			got = n
		}
		if got != want {
			return got > want
		}
	}
	return true
}

// sqliteDSN names a database file. A reader can never write, whatever is asked.
func sqliteDSN(path string, busy time.Duration, reader bool) string {
	q := url.Values{}
	q.Set("_txlock", "immediate")
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()))
	q.Add("_pragma", "journal_mode(WAL)")
	q.Add("_pragma", "synchronous(NORMAL)")
	q.Add("_pragma", "foreign_keys(1)")
	q.Add("_pragma", "temp_store(MEMORY)")
	if reader {
		q.Add("_pragma", "query_only(1)")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}
