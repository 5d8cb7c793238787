package store_test

import (
	"testing"

	"drydock/internal/core"
	"drydock/internal/store"
)

// walk tries every pair of states and expects the store to agree with the table.
func walk[S ~string](t *testing.T, noun string, table core.Table[S], try func(from, to S) error) {
	t.Helper()
	for _, from := range table.States() {
		for _, to := range table.States() {
			err := try(from, to)
			if table.Allows(from, to) && err != nil {
				t.Errorf("%s %s -> %s: %v", noun, from, to, err)
			}
			if !table.Allows(from, to) && !core.Is(err, core.Conflict) {
				t.Errorf("%s %s -> %s was not refused: %v", noun, from, to, err)
			}
		}
	}
}

func TestStoreRefusesEveryEdgeThatIsNotInTheTable(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop")
	walk(t, "session", core.SessionTable, func(from, to core.SessionState) error {
		s := addSession(t, db, env.ID)
		s.ID, s.State = core.NewSessionID(), from
		if err := db.CreateSession(ctx, s, ""); err != nil {
			return err
		}
		_, err := db.UpdateSession(ctx, s.ID, func(s *core.Session) error { s.State = to; return nil })
		return err
	})
	walk(t, "prompt", core.PromptTable, func(from, to core.PromptState) error {
		p, _, err := db.AddPrompt(ctx, core.Prompt{ID: core.NewPromptID(), Session: addSession(t, db, env.ID).ID, State: from})
		if err != nil {
			return err
		}
		_, err = db.UpdatePrompt(ctx, p.ID, func(p *core.Prompt) error { p.State = to; return nil })
		return err
	})
}

func TestStoreRefusesEveryEdgeOfWork(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop")
	session := addSession(t, db, env.ID)
	prompt := addPrompt(t, db, session.ID, "x")
	walk(t, "run", core.RunTable, func(from, to core.RunState) error {
		r := core.Run{ID: core.NewRunID(), Session: session.ID, Prompt: prompt.ID, State: from}
		if err := db.CreateRun(ctx, r); err != nil {
			return err
		}
		_, err := db.UpdateRun(ctx, r.ID, func(r *core.Run) error { r.State = to; return nil })
		return err
	})
	walk(t, "build", core.BuildTable, func(from, to core.BuildState) error {
		b := core.Build{ID: core.NewBuildID(), Environment: env.ID, State: from}
		if err := db.CreateBuild(ctx, b); err != nil {
			return err
		}
		_, err := db.UpdateBuild(ctx, b.ID, func(b *core.Build) error { b.State = to; return nil })
		return err
	})
	walk(t, "sandbox", core.SandboxTable, func(from, to core.SandboxState) error {
		s := store.Sandbox{ID: core.NewSandboxID(), State: from}
		if err := db.CreateSandbox(ctx, s); err != nil {
			return err
		}
		_, err := db.UpdateSandbox(ctx, s.ID, func(s *store.Sandbox) error { s.State = to; return nil })
		return err
	})
	walk(t, "snapshot", core.SnapshotTable, func(from, to core.SnapshotState) error {
		s := core.Snapshot{ID: core.NewSnapshotID(), State: from}
		if err := db.CreateSnapshot(ctx, s); err != nil {
			return err
		}
		_, err := db.UpdateSnapshot(ctx, s.ID, func(s *core.Snapshot) error { s.State = to; return nil })
		return err
	})
	walk(t, "change", core.ChangeTable, func(from, to core.ChangeState) error {
		c, _, err := db.CreateChange(ctx, "", core.Change{ID: core.NewChangeID(), Repository: "r", State: from})
		if err != nil {
			return err
		}
		_, err = db.UpdateChange(ctx, c.ID, func(c *core.Change) error { c.State = to; return nil })
		return err
	})
	walk(t, "selection", core.SelectionTable, func(from, to core.SelectionState) error {
		s := core.Selection{ID: core.NewSelectionID(), Environment: env.ID, State: from}
		if err := db.CreateSelection(ctx, s, ""); err != nil {
			return err
		}
		_, err := db.UpdateSelection(ctx, s.ID, func(s *core.Selection) error { s.State = to; return nil })
		return err
	})
	walk(t, "approval", core.ApprovalTable, func(from, to core.ApprovalState) error {
		a := store.Approval{ID: core.NewApprovalID(), State: from}
		if err := db.CreateApproval(ctx, a); err != nil {
			return err
		}
		_, err := db.UpdateApproval(ctx, a.ID, func(a *store.Approval) error { a.State = to; return nil })
		return err
	})
	run := core.Run{ID: core.NewRunID(), Session: session.ID, Prompt: prompt.ID, State: core.RunRunning}
	if err := db.CreateRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	walk(t, "attempt", core.AttemptTable, func(from, to core.AttemptState) error {
		a, err := db.CreateAttempt(ctx, core.Attempt{ID: core.NewAttemptID(), Run: run.ID, Node: "n", State: from})
		if err != nil {
			return err
		}
		_, err = db.UpdateAttempt(ctx, a.ID, func(a *core.Attempt) error { a.State = to; return nil })
		return err
	})
}
