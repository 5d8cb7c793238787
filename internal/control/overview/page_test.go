package overview_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drydock/internal/control/overview"
	"drydock/internal/core"
	"drydock/internal/store"
)

// long makes a session with two turns, the first of which has n events.
func long(d *desk, n int) core.Session {
	s, p := d.create(ana, "a long one")
	run := d.work(p)
	d.tell(s.ID, run, core.EventNodeStarted, core.NodeData{Node: "implement", Title: "implement the task", Number: 1})
	var events []core.Event
	for i := range n {
		e := core.NewEvent(core.EventToolStarted, core.ToolData{Call: fmt.Sprint(i), Tool: "run", Title: "$ make", Input: json.RawMessage(`{"command":"make"}`)})
		f := core.NewEvent(core.EventToolFinished, core.ToolData{Call: fmt.Sprint(i), Tool: "run", Output: strings.Repeat("ok ", 50), Failed: i%10 == 0})
		e.Run, f.Run = run, run
		events = append(events, e, f)
		if len(events) >= 500 || i == n-1 {
			_, err := d.log.Append(d.t.Context(), string(s.ID), events...)
			d.must(err)
			events = nil
		}
	}
	d.tell(s.ID, run, core.EventAgentText, core.TextData{Text: "It works <now>."})
	d.tell(s.ID, run, core.EventVerdict, core.VerdictData{Verdict: "proven", Reasons: []string{"fixed 1 case"}})
	d.finish(p, run, core.RunDone, "proven")
	p2, err := d.ses.Prompt(d.t.Context(), s.ID, core.NewPrompt{Author: bo, Text: strings.Repeat("long ", 1000)})
	d.must(err)
	d.work(p2)
	_, err = d.ses.Prompt(d.t.Context(), s.ID, core.NewPrompt{Author: ana, Text: strings.Repeat("é", 5000)})
	d.must(err)
	return s
}

func TestAPageOpensWithAnOutline(t *testing.T) {
	d := newDesk(t)
	s := long(d, 50)
	page, err := d.all.Page(t.Context(), ana, s.ID)
	d.must(err)
	last, _ := d.db.LastEvent(t.Context(), string(s.ID))
	if page.Seq != last || page.Environment.Name != "shop" || page.Session.View.Word != core.ViewWorking {
		t.Errorf("page %+v", page)
	}
	if len(page.Outline) != 2 {
		t.Fatalf("outline %+v", page.Outline)
	}
	one, two := page.Outline[0], page.Outline[1]
	if one.Tools != 50 || one.Errors != 5 || one.State != core.PromptDone || one.LastSeq+1 != two.FirstSeq || two.LastSeq != last ||
		one.Answer == nil || one.Answer.Head != "It works <now>." || len(one.Nodes) != 1 || one.Nodes[0].State != "cut" || one.Left != 0 {
		t.Errorf("first turn %+v", one)
	}
	if two.Author.Handle != "bo" || len(two.Text) != store.HeadLen || two.State != core.PromptRunning {
		t.Errorf("second turn %+v", two)
	}
	if len(page.Prompts) != 1 || !page.Prompts[0].Cut || len([]rune(page.Prompts[0].Text)) != 4000 {
		t.Errorf("queue: %d prompts", len(page.Prompts))
	}
	if diff := cmp.Diff([]core.Author{ana, bo}, page.People); diff != "" {
		t.Errorf("people: %s", diff)
	}
	if len(page.Runs) != 2 || page.Runs[0].Verdict != "proven" {
		t.Errorf("runs %+v", page.Runs)
	}
	if _, err := d.all.Page(t.Context(), ana, "ses_000000000000000000"); !core.Is(err, core.NotFound) {
		t.Errorf("a page of nothing: %v", err)
	}
}

// TestAPageNeedsNoLog: 100,000 events are not read for it. With all of them
// gone but the last, it is the same, and as small as that of a short session.
func TestAPageNeedsNoLog(t *testing.T) {
	d := newDesk(t)
	s := long(d, 50_000)
	before, err := d.all.Page(t.Context(), ana, s.ID)
	d.must(err)
	if before.Seq < 100_000 {
		t.Fatalf("only %d events", before.Seq)
	}
	if raw, _ := json.Marshal(before); len(raw) > 12<<10+4*overviewPrompt {
		t.Errorf("page of %d events has %d bytes", before.Seq, len(raw))
	}
	raw, err := sql.Open("sqlite", d.db.Path())
	d.must(err)
	defer raw.Close()
	res, err := raw.ExecContext(t.Context(), `DELETE FROM events WHERE subject = ? AND seq < ?`, s.ID, before.Seq)
	d.must(err)
	if n, _ := res.RowsAffected(); n != before.Seq-1 {
		t.Fatalf("%d events were removed", n)
	}
	after, err := d.all.Page(t.Context(), ana, s.ID)
	d.must(err)
	if diff := cmp.Diff(before, after, cmpopts.IgnoreFields(core.SessionPage{}, "Elapsed", "Budget")); diff != "" {
		t.Errorf("the page was made from the log:\n%s", diff)
	}
}

const overviewPrompt = 4000 // characters of the queued prompt in it

func TestSearchFindsTextsOnly(t *testing.T) {
	d := newDesk(t)
	s := long(d, 20)
	ctx := t.Context()
	d.tell(s.ID, "", core.EventAgentText, core.TextData{Text: "Ein Größenvergleich:\n\x1b[31m<div class=\"x\">\x1b[0m & more"})
	for query, want := range map[string]int{
		"größen": 1, "GRÖSSEN": 0, `<DIV class="x">`: 1, "& more": 1, "it works <now>": 1, "output": 0, "ok ok": 20, "nothing like it": 0, "fixed 1": 1,
	} {
		got, err := d.all.Search(ctx, s.ID, query, "", 100)
		if err != nil || got.Total != want || len(got.Hits) != want || got.Capped {
			t.Errorf("search for %q: %d of %d hits, want %d, %v", query, len(got.Hits), got.Total, want, err)
		}
	}
	got, _ := d.all.Search(ctx, s.ID, "größen", "", 10)
	if snippet := got.Hits[0].Snippet; strings.ContainsAny(snippet, "\n\x1b") || !strings.Contains(snippet, "Größenvergleich:") {
		t.Errorf("snippet %q", snippet)
	}
	page, _ := d.all.Page(ctx, ana, s.ID)
	if got, _ := d.all.Search(ctx, s.ID, "works", "", 10); got.Hits[0].Turn != page.Outline[0].Prompt {
		t.Errorf("hit %+v is not in the first turn", got.Hits[0])
	}
	var seqs []int64
	for cursor := ""; ; {
		got, err := d.all.Search(ctx, s.ID, "ok ok", cursor, 7)
		d.must(err)
		for _, h := range got.Hits {
			seqs = append(seqs, h.Seq)
		}
		if (cursor == "") != (got.Total == 20) {
			t.Errorf("total %d at cursor %q", got.Total, cursor)
		}
		if cursor = got.Next; cursor == "" {
			break
		}
	}
	if len(seqs) != 20 || seqs[0] < seqs[19] {
		t.Errorf("pages have %v", seqs)
	}
	for _, bad := range [][2]string{{"", ""}, {"  ", ""}, {strings.Repeat("x", 201), ""}, {"x", "0"}, {"x", "07"}, {"x", "-3"}, {"x", "abc"}, {"\xff", ""}} {
		if _, err := d.all.Search(ctx, s.ID, bad[0], bad[1], 10); !core.Is(err, core.Invalid) {
			t.Errorf("search for %q from %q: %v", bad[0], bad[1], err)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add([]byte(`{"text":"Hello\nWorld","n":{"a":["x",1,null]}}`), "world")
	f.Add([]byte(`"İstanbul"`), "i̇stan")
	f.Add([]byte(`{`), "x")
	f.Fuzz(func(t *testing.T, data []byte, query string) {
		snippet, ok := overview.Match(data, query)
		if ok && (len(snippet) > 3*len(query)+600 || strings.ContainsAny(snippet, "\n\r\x00\x1b")) {
			t.Errorf("snippet %q of %q for %q", snippet, data, query)
		}
	})
}
