package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/store"
)

func TestFreshness(t *testing.T) {
	db := open(t)
	env := addEnvironment(t, db, "shop")
	got, err := db.Freshness(t.Context(), env.ID)
	if err != nil || got.Refresh != 30*time.Minute || !got.Next.IsZero() {
		t.Fatalf("of a new environment: %+v, error %v", got, err)
	}
	at := time.Unix(0, 1_700_000_000_000_000_000).UTC()
	want := store.Freshness{
		Environment: env.ID, Refresh: time.Hour, MaxAge: -1, Head: "a", HeadSeen: at, Checked: at, Failures: 3,
		Failure: &core.Failure{Code: "setup_failed", Message: "it broke"}, Next: at, Why: "retry", Pinned: "snp_1", PinnedAt: at, PinnedBy: "alice",
	}
	if _, err := db.UpdateFreshness(t.Context(), env.ID, func(f *store.Freshness) error {
		*f = want
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, err = db.Freshness(t.Context(), env.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := db.DeleteEnvironment(t.Context(), env.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Freshness(t.Context(), env.ID); !core.Is(err, core.NotFound) {
		t.Errorf("of a removed environment: %v", err)
	}
}

// A state directory of the first version goes on: its environments are built
// by themselves from now on, and its builds are readable.
func TestFreshnessOfTheFirstVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drydock.db")
	first, err := os.ReadFile("migrations/sqlite/0001_init.sql")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		strings.TrimPrefix(string(first), "-- +goose Up\n"),
		`CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')))`,
		`INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1)`,
		`INSERT INTO environments (id, name, source, default_branch, snapshot, created, updated) VALUES ('env_1', 'shop', '/srv/shop', 'main', 'snp_1', 5, 6)`,
		`INSERT INTO sessions (id, environment, title, state, reason, owner, owner_name, owner_email, blueprint, agent, model, base, base_commit, branch, head,
			budget_wall, budget_money, usage_input, usage_cache_read, usage_cache_write, usage_output, usage_calls, cost_known, cost_unknown,
			active, held, wait, sandbox, snapshot, change_id, created, updated)
			VALUES ('ses_1', 'env_1', 'x', 'idle', '', 'ana', '', '', '', '', '', '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '', 'snp_2', '', 7, 8)`,
		`INSERT INTO builds (id, environment, commit_id, state, snapshot, failure, phases, created, finished) VALUES ('bld_1', 'env_1', 'a', 'done', 'snp_1', '', '', 7, 8)`,
	} {
		if _, err := raw.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	db := openAt(t, path)
	f, err := db.Freshness(t.Context(), "env_1")
	if err != nil || f.Refresh != 30*time.Minute || !f.Next.IsZero() || f.Failures != 0 || f.Failure != nil {
		t.Errorf("%+v, error %v", f, err)
	}
	if s, err := db.Session(t.Context(), "ses_1"); err != nil || s.Selection != "" || s.Seed != 0 || s.Snapshot != "snp_2" {
		t.Errorf("%+v, error %v", s, err)
	}
	if list, err := db.SessionsOfSelection(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("sessions of no selection are those of one: %+v, error %v", list, err)
	}
	b, err := db.Build(t.Context(), "bld_1")
	if err != nil || b.State != core.BuildDone || b.By != "" || b.Why != "" {
		t.Errorf("%+v, error %v", b, err)
	}
}
