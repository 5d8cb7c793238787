package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock/internal/core"
)

func TestOldSQLiteIsRefused(t *testing.T) {
	for version, want := range map[string]bool{
		"3.51.2": false, "3.51.3": true, "3.51.10": true, "3.40.1": false, "3.54.1": true, "4.0.0": true, "2.99.99": false, "3.52": true, "x": false, "": false,
	} {
		if got := atLeast(version, oldestSQLite); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.writer.ExecContext(context.Background(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: path}); !core.Is(err, core.Conflict) || core.HintOf(err) == "" {
		t.Errorf("a database of a newer drydock: %v", err)
	}
}

func TestReadersCannotWrite(t *testing.T) {
	db, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.readers.ExecContext(t.Context(), `DELETE FROM users`); err == nil {
		t.Error("a reader wrote")
	}
	var mode string
	if err := db.readers.QueryRowContext(t.Context(), `PRAGMA journal_mode`).Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q %v", mode, err)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(cursor("sessions", "ses_1"))
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		key, err := openCursor("sessions", s)
		if err == nil && s != "" && (key == "" || cursor("sessions", key) != s) {
			t.Errorf("%q was read as %q", s, key)
		}
		if err != nil && !core.Is(err, core.Invalid) {
			t.Errorf("%q: %v", s, err)
		}
	})
}

// Every table is described.
func TestStorePageIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/store.md")
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.readers.QueryContext(t.Context(), `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ESCAPE '\'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		n++
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("table %s is not described", name)
		}
	}
	if err := rows.Err(); err != nil || n < 20 {
		t.Errorf("%d tables, %v", n, err)
	}
}
