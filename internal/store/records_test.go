package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Every record comes back as it was written.

// fixture is what other records belong to.
type fixture struct {
	*testing.T
	db      *store.DB
	at      time.Time
	env     core.Environment
	session core.Session
	prompt  core.Prompt
	run     core.Run
}

var failure = &core.Failure{Code: "setup_failed", Message: "no", Command: "npm ci", Output: "tail", Hint: "h"}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{T: t, db: open(t), at: time.Now().UTC()}
	f.env = addEnvironment(t, f.db, "shop")
	f.session = addSession(t, f.db, f.env.ID)
	f.prompt = addPrompt(t, f.db, f.session.ID, "x")
	f.run = core.Run{
		ID: core.NewRunID(), Session: f.session.ID, Prompt: f.prompt.ID, Blueprint: "code-change", State: core.RunRunning, Node: "a",
		Data: json.RawMessage(`{"k":1}`), Failure: failure, Created: f.at,
	}
	f.must(f.db.CreateRun(t.Context(), f.run))
	return f
}

func (f fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// same checks that what was read is what was written.
func (f fixture) same(name string, want, got any, err error) {
	f.Helper()
	if err != nil {
		f.Errorf("%s: %v", name, err)
	} else if d := cmp.Diff(want, got); d != "" {
		f.Errorf("%s:\n%s", name, d)
	}
}

func TestWorkRecordsRoundTrip(t *testing.T) {
	f := newFixture(t)
	db, ctx, at := f.db, t.Context(), f.at
	gotEnv, err := db.Environment(ctx, "shop")
	f.same("environment", f.env, gotEnv, err)
	gotSession, err := db.Session(ctx, f.session.ID)
	f.same("session", f.session, gotSession, err)
	gotPrompt, err := db.Prompt(ctx, f.prompt.ID)
	f.same("prompt", f.prompt, gotPrompt, err)

	f.must(db.PutUser(ctx, alice))
	f.must(db.PutUser(ctx, core.Author{Handle: "alice", Name: "Alice B", Email: "b@example.com"}))
	user, err := db.User(ctx, "alice")
	f.same("user", core.Author{Handle: "alice", Name: "Alice B", Email: "b@example.com"}, user, err)

	token := store.Token{ID: core.NewTokenID(), Hash: store.HashToken("secret"), User: "alice", Label: "laptop", Created: at}
	f.must(db.CreateToken(ctx, token))
	gotToken, err := db.TokenByHash(ctx, store.HashToken("secret"))
	f.same("token", token, gotToken, err)

	build := core.Build{
		ID: core.NewBuildID(), Environment: f.env.ID, Commit: "abc", State: core.BuildRunning, Failure: failure,
		Phases: []core.Phase{{Name: "setup", Duration: time.Second, Cached: true}}, Created: at,
	}
	f.must(db.CreateBuild(ctx, build))
	gotBuild, err := db.Build(ctx, build.ID)
	f.same("build", build, gotBuild, err)

	snapshot := core.Snapshot{ID: core.NewSnapshotID(), Environment: f.env.ID, State: core.SnapshotWriting, Bytes: 1 << 40, Memory: true, Created: at}
	f.must(db.CreateSnapshot(ctx, snapshot))
	gotSnapshot, err := db.Snapshot(ctx, snapshot.ID)
	f.same("snapshot", snapshot, gotSnapshot, err)

	sandbox := store.Sandbox{
		ID: core.NewSandboxID(), Purpose: "session", Owner: string(f.session.ID), State: core.SandboxCreating,
		Handle: json.RawMessage(`{"driver":"fake"}`), Created: at, Updated: at,
	}
	f.must(db.CreateSandbox(ctx, sandbox))
	gotSandbox, err := db.Sandbox(ctx, sandbox.ID)
	f.same("sandbox", sandbox, gotSandbox, err)

	gotRun, err := db.Run(ctx, f.run.ID)
	f.same("run", f.run, gotRun, err)

	attempt := core.Attempt{ID: core.NewAttemptID(), Run: f.run.ID, Node: "a", State: core.AttemptRunning, Detail: json.RawMessage(`[1]`), Started: at}
	attempt, err = db.CreateAttempt(ctx, attempt)
	f.must(err)
	gotAttempt, err := db.Attempt(ctx, attempt.ID)
	f.same("attempt", attempt, gotAttempt, err)
}

func TestResultRecordsRoundTrip(t *testing.T) {
	f := newFixture(t)
	db, ctx, at := f.db, t.Context(), f.at
	change := core.Change{
		ID: core.NewChangeID(), Repository: "shop", Session: f.session.ID, Title: "t", Body: "b", State: core.ChangeOpen, Base: "main", Branch: "w",
		BaseCommit: "a", Head: "h", Authors: []core.Author{alice}, Verdict: "proven", Created: at, Updated: at,
	}
	change, _, err := db.CreateChange(ctx, "k", change)
	f.must(err)
	gotChange, err := db.ChangeByNumber(ctx, "shop", 1)
	f.same("change", change, gotChange, err)

	comment := core.Comment{ID: core.NewCommentID(), Change: change.ID, Author: alice, Body: "b", Path: "p", Line: 3, Created: at}
	_, _, err = db.CreateComment(ctx, "", comment)
	f.must(err)
	gotComment, err := db.Comment(ctx, comment.ID)
	f.same("comment", comment, gotComment, err)

	approval := store.Approval{
		ID: core.NewApprovalID(), Session: f.session.ID, Kind: "scope", Question: "may it?", State: core.ApprovalPending,
		Detail: json.RawMessage(`{}`), Deadline: at, Created: at,
	}
	f.must(db.CreateApproval(ctx, approval))
	gotApproval, err := db.Approval(ctx, approval.ID)
	f.same("approval", approval, gotApproval, err)

	call := store.ModelCall{
		Session: f.session.ID, Provider: "p", Model: "m", Scripted: true, Outcome: "end_turn", Usage: core.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Calls: 1},
		Cost: core.Cost{Known: 7, Unknown: true}, Retries: 1, Duration: time.Second, Created: at,
	}
	f.must(db.AddModelCall(ctx, call))
	calls, err := db.ModelCalls(ctx, f.session.ID)
	f.same("model call", []store.ModelCall{call}, calls, err)
	usage, err := db.UsageSince(ctx, at.Add(-time.Hour))
	f.same("usage", []store.UsageRow{{
		Owner: "alice", Provider: "p", Model: "m", Scripted: true, Outcome: "end_turn", Usage: call.Usage, Cost: call.Cost,
	}}, usage, err)

	f.must(db.PutCell(ctx, "key", json.RawMessage(`{"a":1}`)))
	f.must(db.PutCell(ctx, "key", json.RawMessage(`{"a":2}`)))
	cell, err := db.Cell(ctx, "key")
	f.same("cell", `{"a":2}`, string(cell.Result), err)

	history := []store.CaseResult{{Repository: "shop", Check: "test", Case: "c", Commit: "a", Cell: "B", Status: "pass", Time: at}}
	f.must(db.AddCaseResults(ctx, history))
	gotHistory, err := db.CaseHistory(ctx, "shop", "test", "c", 10)
	f.same("case history", history, gotHistory, err)

	f.must(db.AppendTranscript(ctx, f.run.ID, "a", json.RawMessage(`{"n":1}`)))
	f.must(db.AppendTranscript(ctx, f.run.ID, "a", json.RawMessage(`{"n":2}`)))
	transcript, err := db.Transcript(ctx, f.run.ID, "a")
	f.same("transcript", []json.RawMessage{json.RawMessage(`{"n":1}`), json.RawMessage(`{"n":2}`)}, transcript, err)

	evidence := store.Evidence{ID: core.NewEvidenceID(), Session: f.session.ID, Verdict: "proven", Digest: "sha256:x", Created: at}
	f.must(db.CreateEvidence(ctx, evidence))
	gotEvidence, err := db.Evidence(ctx, evidence.ID)
	f.same("evidence", evidence, gotEvidence, err)

	repo := store.Repository{Name: "shop", Environment: f.env.ID, DefaultBranch: "main", Created: at, Updated: at}
	f.must(db.CreateRepository(ctx, repo))
	gotRepo, err := db.Repository(ctx, "shop")
	f.same("repository", repo, gotRepo, err)
}

// Closing the attempts of a run ends the running ones, and those of that run
// alone.
func TestCloseAttempts(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	otherSession := addSession(t, f.db, f.env.ID)
	other := core.Run{
		ID: core.NewRunID(), Session: otherSession.ID, Prompt: addPrompt(t, f.db, otherSession.ID, "y").ID, Blueprint: "code-change",
		State: core.RunRunning, Created: f.at,
	}
	f.must(f.db.CreateRun(ctx, other))
	begin := func(run core.RunID, node string) core.AttemptID {
		a, err := f.db.CreateAttempt(ctx, core.Attempt{ID: core.NewAttemptID(), Run: run, Node: node, State: core.AttemptRunning, Started: f.at})
		f.must(err)
		return a.ID
	}
	done, one, two, theirs := begin(f.run.ID, "a"), begin(f.run.ID, "b"), begin(f.run.ID, "c"), begin(other.ID, "a")
	finished := f.at.Add(time.Second)
	_, err := f.db.UpdateAttempt(ctx, done, func(a *core.Attempt) error {
		a.State, a.Finished = core.AttemptDone, finished
		return nil
	})
	f.must(err)

	if err := f.db.CloseAttempts(ctx, f.run.ID, core.AttemptRunning); !core.Is(err, core.Invalid) {
		t.Errorf("closed as running: %v", err)
	}
	f.must(f.db.CloseAttempts(ctx, f.run.ID, core.AttemptStopped))
	f.must(f.db.CloseAttempts(ctx, f.run.ID, core.AttemptFailed)) // nothing is running any more
	for id, want := range map[core.AttemptID]core.AttemptState{
		done: core.AttemptDone, one: core.AttemptStopped, two: core.AttemptStopped, theirs: core.AttemptRunning,
	} {
		a, err := f.db.Attempt(ctx, id)
		f.must(err)
		if a.State != want || a.Finished.IsZero() != (want == core.AttemptRunning) {
			t.Errorf("attempt of node %s is %s, finished %s; want %s", a.Node, a.State, a.Finished, want)
		}
		if id == done && !a.Finished.Equal(finished) {
			t.Errorf("a finished attempt was finished again at %s", a.Finished)
		}
	}
}
