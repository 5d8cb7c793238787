package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"drydock/internal/core"
)

func TestIdentifiersSortByTimeAndHaveOneLength(t *testing.T) {
	var list []string
	for range 1000 {
		list = append(list, string(core.NewSessionID()))
	}
	seen := map[string]bool{}
	for _, id := range list {
		if seen[id] || len(id) != len(list[0]) || !strings.HasPrefix(id, "ses_") {
			t.Fatalf("identifier %q is doubled, of another length or without its prefix", id)
		}
		seen[id] = true
		if _, err := core.ParseID[core.SessionID]("ses_", id); err != nil {
			t.Fatal(err)
		}
	}
	// The first ten characters are the time.
	if !slices.IsSortedFunc(list, func(a, b string) int { return strings.Compare(a[:14], b[:14]) }) {
		t.Error("identifiers do not sort by the time they were made")
	}
}

func TestParseIDRefuses(t *testing.T) {
	good := string(core.NewSandboxID())
	for _, s := range []string{"", "sbx_", good[:len(good)-1], good + "0", strings.ToUpper(good), "ses_" + good[4:], "sbx_../../../../etc/x", "sbx_il0000000000000000"} {
		if _, err := core.ParseID[core.SandboxID]("sbx_", s); !core.Is(err, core.Invalid) {
			t.Errorf("ParseID(%q) = %v, want invalid", s, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add(string(core.NewBuildID()))
	f.Add("bld_")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := core.ParseID[core.BuildID]("bld_", s)
		if err == nil && (string(id) != s || strings.ContainsAny(s, "/.\\\x00 ")) {
			t.Errorf("%q passed as an identifier", s)
		}
	})
}

// walk checks one table: every state it names can be reached from a start, and
// an end can be reached from every state.
func walk[S ~string](t *testing.T, name string, table core.Table[S], starts ...S) {
	t.Helper()
	reach := map[S]bool{}
	var visit func(S)
	visit = func(s S) {
		if reach[s] {
			return
		}
		reach[s] = true
		for _, to := range table[s] {
			if !table.Allows(s, to) {
				t.Errorf("%s: %s to %s is an edge that Allows refuses", name, s, to)
			}
			visit(to)
		}
	}
	for _, s := range starts {
		visit(s)
	}
	for _, s := range table.States() {
		if !reach[s] {
			t.Errorf("%s: %s cannot be reached", name, s)
		}
		if !table.Allows(s, s) {
			t.Errorf("%s: staying %s is refused", name, s)
		}
		if table.Final(s) {
			for _, to := range table.States() {
				if s != to && table.Allows(s, to) {
					t.Errorf("%s: %s is final and leads to %s", name, s, to)
				}
			}
		}
	}
}

func TestStateTables(t *testing.T) {
	walk(t, "session", core.SessionTable, core.SessionQueued)
	walk(t, "prompt", core.PromptTable, core.PromptQueued)
	walk(t, "run", core.RunTable, core.RunRunning)
	walk(t, "attempt", core.AttemptTable, core.AttemptRunning)
	walk(t, "build", core.BuildTable, core.BuildQueued)
	walk(t, "sandbox", core.SandboxTable, core.SandboxCreating)
	walk(t, "snapshot", core.SnapshotTable, core.SnapshotWriting)
	walk(t, "change", core.ChangeTable, core.ChangeOpen)
	walk(t, "approval", core.ApprovalTable, core.ApprovalPending)
	if core.ChangeTable.Allows(core.ChangeMerged, core.ChangeOpen) {
		t.Error("a merged change can be opened again")
	}
	if core.PromptTable.Allows(core.PromptDone, core.PromptQueued) {
		t.Error("a prompt that is done can be queued again")
	}
}

func TestKindsAreMappedOnce(t *testing.T) {
	for kind, want := range map[core.Kind]struct {
		http, exit int
		retry      bool
	}{
		core.Internal:      {http.StatusInternalServerError, 1, false},
		core.Invalid:       {http.StatusBadRequest, 2, false},
		core.Unauthorized:  {http.StatusUnauthorized, 4, false},
		core.Denied:        {http.StatusForbidden, 4, false},
		core.NotFound:      {http.StatusNotFound, 5, false},
		core.Conflict:      {http.StatusConflict, 1, false},
		core.HandedOver:    {http.StatusConflict, 3, false},
		core.NeedsApproval: {http.StatusForbidden, 3, false},
		core.Exhausted:     {http.StatusTooManyRequests, 1, false},
		core.Unavailable:   {http.StatusServiceUnavailable, 6, true},
		core.Canceled:      {499, 1, false},
	} {
		if kind.HTTPStatus() != want.http || kind.ExitCode() != want.exit || kind.Retryable() != want.retry {
			t.Errorf("%s: status %d, exit %d, retry %v; want %+v", kind, kind.HTTPStatus(), kind.ExitCode(), kind.Retryable(), want)
		}
		if core.KindByName(kind.String()) != kind {
			t.Errorf("%s is not found by its name", kind)
		}
	}
	if core.KindByName("nonsense") != core.Internal || core.Kind(200).String() != "internal" {
		t.Error("an unknown kind is not internal")
	}
}

func TestErrorsTellTheObjectTheHintAndTheCause(t *testing.T) {
	cause := errors.New("disk full")
	inner := core.E("snapshot.write", core.Exhausted, cause, "snapshot %s", "snp_1").WithHint("free %d GiB", 3)
	err := fmt.Errorf("put the session away: %w", inner)
	if got := err.Error(); got != "put the session away: snapshot snp_1: disk full" {
		t.Errorf("text = %q", got)
	}
	if core.KindOf(err) != core.Exhausted || core.HintOf(err) != "free 3 GiB" || !errors.Is(err, cause) {
		t.Errorf("kind %s, hint %q", core.KindOf(err), core.HintOf(err))
	}
	outer := core.E("session.end", core.Unavailable, err, "")
	if core.KindOf(outer) != core.Unavailable || core.HintOf(outer) != "free 3 GiB" {
		t.Errorf("outer kind %s, hint %q; the outermost kind and the first hint count", core.KindOf(outer), core.HintOf(outer))
	}
	for in, want := range map[error]core.Kind{
		context.Canceled: core.Canceled, context.DeadlineExceeded: core.Unavailable, cause: core.Internal,
	} {
		if got := core.KindOf(in); got != want {
			t.Errorf("kind of %v = %s, want %s", in, got, want)
		}
	}
	if core.Is(nil, core.Internal) {
		t.Error("no error is of a kind")
	}
}

func TestUnknownCostIsNeverZero(t *testing.T) {
	known := core.Cost{Known: 1_250_000}
	if got := known.String(); got != "$1.2500" {
		t.Errorf("cost = %q", got)
	}
	sum := known.Add(core.Cost{Unknown: true})
	if got := sum.String(); got != "at least $1.2500" {
		t.Errorf("sum = %q", got)
	}
	if got := (core.Cost{Unknown: true}).String(); got != "unknown" {
		t.Errorf("unknown cost is shown as %q", got)
	}
}
