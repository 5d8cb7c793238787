package review_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/proof/check"
	"drydock/internal/proof/exam"
)

func (w *world) page(by core.Author) core.ChangePage {
	w.Helper()
	p, err := w.svc.Page(w.Context(), w.change.ID, by, false)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func result(head string) exam.Result {
	log := exam.Artifact{Name: "B/1/test/log.txt", Digest: "sha256:log", Size: 30}
	r := exam.Result{
		Exam: exam.Exam{Head: head}, Verdict: exam.Broken, Code: "broken", Reasons: []string{"TestTotal is broken"}, NotShown: []string{"coverage"},
		Checks: []exam.CheckRow{{Name: "test"}},
		Runs: []exam.RunRecord{
			{Cell: exam.CellA, Try: 1, Check: "test", Counts: check.Counts{Passed: 3}},
			{Cell: exam.CellB, Try: 1, Check: "test", ExitCode: 1, Counts: check.Counts{Passed: 2, Failed: 1}, Artifacts: []exam.Artifact{log}},
			{Cell: exam.CellB, Try: 2, Check: "test", ExitCode: 0},
		},
		Findings: []exam.Finding{{ID: "f1", Code: exam.FindFewer, Path: "a_test.go", Text: "fewer assertions", NeedsAck: true}, {ID: "f2", Code: exam.FindCI, Text: "CI"}},
		Pictures: []exam.Comparison{
			{Page: "home", Width: 1280, Height: 800, Before: &exam.Artifact{Digest: "sha256:a"}, After: &exam.Artifact{Digest: "sha256:b"}, Changed: 0.5},
			{Page: "cart", Width: 1280, Height: 800, Problem: "no browser"},
		},
	}
	r.Cases = append(r.Cases, exam.CaseRow{
		ID: check.ID{Check: "test", Suite: "cart", Name: "TestTotal"}, Class: exam.ClassBroken, Message: "cart_test.go:7: got 1",
		Cells: map[exam.Cell][]check.Status{exam.CellA: {check.Pass}, exam.CellB: {check.Fail, check.Fail}},
	}, exam.CaseRow{ID: check.ID{Check: "test", Name: "TestFlaky"}, Class: exam.ClassOldFlake, Cells: map[exam.Cell][]check.Status{exam.CellA: {check.Pass, check.Error}}})
	for i := range 700 {
		r.Cases = append(r.Cases, exam.CaseRow{ID: check.ID{Check: "test", Name: fmt.Sprintf("TestKept%03d", i)}, Class: exam.ClassKept, Cells: map[exam.Cell][]check.Status{exam.CellB: {check.Pass}}})
	}
	return r
}

func TestPageOfAChange(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "a\n", "a_test.go": "t\n", "go.sum": "1\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": "b\n", "a_test.go": "tt\n", "go.sum": "2\n"})
	w.open()
	if p := w.page(bo); p.Verdict.Evidence != "" || len(p.Verdict.Reasons) != 1 || p.Checks == nil || p.Files.Count != 3 {
		t.Errorf("without a proof: %+v", p)
	}
	w.evidence("evd_gone", "proven")
	if p := w.page(bo); !p.Verdict.Missing || p.Verdict.Verdict != "proven" || slices.Contains(p.Actions, "rerun") {
		t.Errorf("evidence that is gone: %+v", p.Verdict)
	}
	w.proofs.results["evd_1"], w.proofs.files["sha256:log"] = result(w.change.Head), "start\nFAIL\n  cart_test.go:7: got 1\n"
	w.evidence("evd_1", "broken")
	p := w.page(bo)
	if v := p.Verdict; v.Verdict != "broken" || v.Stale || v.Head != w.change.Head || v.Code != "broken" {
		t.Errorf("%+v", v)
	}
	var meaning []string
	for _, m := range p.Meaning {
		meaning = append(meaning, m.Risk+" "+m.Kind+" "+m.Path)
	}
	if diff := cmp.Diff([]string{"stop fewer_assertions a_test.go", "look ci_edited ", "note lock go.sum"}, meaning); diff != "" {
		t.Errorf("meaning (-want +got):\n%s", diff)
	}
	c := p.Checks[0]
	if c.Cells["A"].Result != "green" || c.Cells["B"].Result != "red" || c.Cells["B"].Log.Digest != "sha256:log" || c.Kept != 700 || len(c.Cases) != 2 || c.More != 0 {
		t.Errorf("%+v", c)
	}
	if one := c.Cases[0]; one.Class != "broken" || one.Cells["A"] != "green" || one.Cells["B"] != "red" || one.At == nil || one.At.Line != 3 || c.Cases[1].Cells["A"] != "mixed" {
		t.Errorf("%+v", c.Cases)
	}
	if p.Pictures[0].Status != "changed" || p.Pictures[1].Status != "not_taken" || p.Pictures[1].Why != "no browser" {
		t.Errorf("%+v", p.Pictures)
	}
	all, err := w.svc.Page(t.Context(), w.change.ID, bo, true)
	if err != nil || len(all.Checks[0].Cases) != 500 || all.Checks[0].More != 202 {
		t.Errorf("all cases: %d, more %d, %v", len(all.Checks[0].Cases), all.Checks[0].More, err)
	}
	seen, cursor := 0, ""
	for {
		got, err := w.svc.Cases(t.Context(), w.change.ID, "test", "kept", core.Page{Limit: 300, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		seen += len(got.Items)
		if cursor = got.Next; cursor == "" {
			break
		}
	}
	if seen != 700 {
		t.Errorf("%d kept cases", seen)
	}
	_, err = w.svc.Cases(t.Context(), w.change.ID, "nothing", "", core.Page{})
	w.want(err, core.NotFound, "nothing")
	_, err = w.svc.Cases(t.Context(), w.change.ID, "test", "", core.Page{Cursor: "evd_2+3"})
	w.want(err, core.Invalid)

	// A push makes the proof one of other lines.
	w.tree.Commit(ana, "more", map[string]string{"a.go": "c\n"})
	w.pushed()
	if p := w.page(bo); !p.Verdict.Stale || p.Meaning[0].Risk != "stop" || !slices.ContainsFunc(p.Meaning, func(m core.PageMeaning) bool { return m.Kind == "stale" }) {
		t.Errorf("stale: %+v %+v", p.Verdict, p.Meaning)
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "a\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": "b\n"})
	w.open()
	if me := w.page(ana).Me; !me.AuthorOfPrompt || me.MayApprove || !strings.Contains(me.WhyNot, "prompt") || me.MayMerge {
		t.Errorf("ana: %+v", me)
	}
	p := w.page(bo)
	if !p.Me.MayApprove || p.Me.MayMerge || !strings.Contains(p.Me.WhyNotMerge, "approved") || p.Me.Seen != nil {
		t.Errorf("bo: %+v", p.Me)
	}
	if diff := cmp.Diff([]string{"comment", "approve", "hand_back", "close"}, p.Actions); diff != "" {
		t.Errorf("actions: %s", diff)
	}
	old := w.change.Head
	w.tree.Commit(ana, "more", map[string]string{"a.go": "c\n"})
	w.pushed()
	_, err := w.changes.Approve(t.Context(), forge.NewApproval{Change: w.change.ID, By: bo, Head: old})
	w.want(err, core.Conflict, "stands at")
	_, err = w.changes.Approve(t.Context(), forge.NewApproval{Change: w.change.ID, By: ana, Head: w.change.Head})
	w.want(err, core.Denied, "prompt")
	if _, err := w.changes.Approve(t.Context(), forge.NewApproval{Change: w.change.ID, By: bo, Head: w.change.Head}); err != nil {
		t.Fatal(err)
	}
	if p := w.page(bo); !p.Me.Approved || !p.Me.MayMerge || slices.Contains(p.Actions, "approve") || !slices.Contains(p.Actions, "merge") || len(p.Approvals) != 1 {
		t.Errorf("approved: %+v %v", p.Me, p.Actions)
	}
	w.baseMoves(map[string]string{"other.go": "x\n"})
	before := w.files("", "")
	for _, method := range []forge.Method{forge.Squash} {
		if _, err := w.changes.Merge(t.Context(), forge.MergeRequest{Change: w.change.ID, By: bo, Method: method}); err != nil {
			t.Fatal(err)
		}
	}
	p = w.page(bo)
	if p.Change.State != core.ChangeMerged || p.Me.MayApprove || p.Me.MayMerge || slices.Contains(p.Actions, "close") || p.Files.Digest != before.Digest {
		t.Errorf("merged: %+v %v, files %+v", p.Me, p.Actions, p.Files)
	}
}

// An empty change is one whose branch came back to where it began.
func TestAnEmptyChange(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "a\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": "b\n"})
	w.open()
	w.tree.Commit(ana, "back", map[string]string{"a.go": "a\n"})
	w.pushed()
	p := w.page(bo)
	if p.Files.Count != 0 || len(p.Commits) != 2 {
		t.Errorf("%+v", p.Files)
	}
	got, err := w.svc.Patches(context.Background(), w.change.ID, bo, core.PatchRequest{})
	if err != nil || len(got.Files) != 0 || got.Next != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if hits, err := w.svc.Search(t.Context(), w.change.ID, bo, core.DiffRange{}, "a"); err != nil || hits.Total != 0 {
		t.Errorf("%+v, %v", hits, err)
	}
	for _, bad := range []string{"", "a\nb", strings.Repeat("x", 201)} {
		_, err := w.svc.Search(t.Context(), w.change.ID, bo, core.DiffRange{}, bad)
		w.want(err, core.Invalid)
	}
}
