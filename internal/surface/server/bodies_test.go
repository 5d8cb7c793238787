package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
	"drydock/internal/surface/surfacetest"
)

func eventsAt(t *testing.T, url string) api.List[api.ReadEvent] {
	t.Helper()
	status, _, body := ask(t, "GET", url, "")
	var l api.List[api.ReadEvent]
	if err := json.Unmarshal([]byte(body), &l); err != nil || status != 200 {
		t.Fatal(status, body)
	}
	return l
}

func TestALogIsReadBackwards(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	session := quietSession(t, w, url)
	for i := range 100 {
		w.Emit("ses_000000000000000001", 0, core.NewEvent(core.EventLog, core.LogData{Text: fmt.Sprint(i)}))
	}
	last, _ := w.Last(t.Context(), "ses_000000000000000001")
	var seqs []int64
	for before := fmt.Sprint(last + 1); before != ""; {
		l := eventsAt(t, session+"/events?follow=false&limit=40&before="+before)
		for i, e := range l.Items {
			if i > 0 && e.Seq != l.Items[i-1].Seq+1 {
				t.Errorf("items are not in order: %d after %d", e.Seq, l.Items[i-1].Seq)
			}
		}
		for _, e := range slices.Backward(l.Items) {
			seqs = append(seqs, e.Seq)
		}
		before = l.Next
	}
	for i, seq := range seqs {
		if seq != last-int64(i) {
			t.Fatalf("place %d is event %d, want %d", i, seq, last-int64(i))
		}
	}
	if int64(len(seqs)) != last {
		t.Errorf("%d of %d events", len(seqs), last)
	}
	for query, want := range map[string]int{
		"?before=5": 400, "?before=0&follow=false": 400, "?before=5&after=2&follow=false": 400, "?bodies=tiny&follow=false": 400, "/0": 400, "/x": 400, "/9999": 404, "/1": 200,
	} {
		if status, _, body := ask(t, "GET", session+"/events"+query, ""); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}

func TestLongBodiesAreCutAndCanBeHadWhole(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	session := quietSession(t, w, url)
	id := "ses_000000000000000001"
	long := strings.Repeat("ä", 100_000) + "END"
	e := w.Emit(id, 0, core.NewEvent(core.EventToolFinished, core.ToolData{Call: "c", Output: long, Input: json.RawMessage(`{"content":["` + long + `"]}`)}))
	many := w.Emit(id, 0, core.NewEvent(core.EventToolStarted, map[string]any{"input": make([]int, 100_000)}))
	l := eventsAt(t, fmt.Sprintf("%s/events?follow=false&bodies=short&after=%d", session, e.Seq-1))
	got := l.Items[0]
	var d core.ToolData
	if err := json.Unmarshal(got.Data, &d); err != nil {
		t.Fatal(err)
	}
	cut := got.Cut["output"]
	if cut.Size != len(long) || !strings.HasSuffix(cut.Tail, "END") || !strings.HasPrefix(long, d.Output) || len(d.Output)+len(cut.Tail) > 8<<10 || d.Call != "c" {
		t.Errorf("output of %d bytes, cut %d and %d", len(d.Output), cut.Size, len(cut.Tail))
	}
	if _, ok := got.Cut["input.content.0"]; !ok {
		t.Errorf("cuts at %v", got.Cut)
	}
	if all := l.Items[1]; string(all.Data) != "{}" || all.Cut[""].Size != len(many.Data) {
		t.Errorf("data that is long all over: %d bytes, %v", len(all.Data), all.Cut)
	}
	_, _, body := ask(t, "GET", fmt.Sprintf("%s/events/%d", session, e.Seq), "")
	if !strings.Contains(body, long) || strings.Contains(body, `"cut"`) {
		t.Errorf("the whole event has %d bytes", len(body))
	}
}

func TestAPageOfEventsIsBounded(t *testing.T) {
	w := surfacetest.New(t)
	session := quietSession(t, w, w.Start(t))
	for range 40 {
		w.Emit("ses_000000000000000001", 0, core.NewEvent(core.EventLog, core.LogData{Text: strings.Repeat("x", 1<<20-100)}))
	}
	l := eventsAt(t, session+"/events?follow=false&limit=500&after=2")
	if n := len(l.Items); n < 1 || n > 32 || l.Next != fmt.Sprint(l.Items[n-1].Seq) {
		t.Errorf("%d events of a megabyte each, next %q", n, l.Next)
	}
}

func TestThePageStartsWithWhatItShows(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	quietSession(t, w, url)
	cookie := signIn(t, url)
	for name, c := range map[string]struct {
		path   string
		header []string
		want   string
	}{
		"inbox":              {"/", []string{"Cookie", cookie, "Sec-Fetch-Site", "none"}, `"needs":{"items":[]`},
		"session":            {"/s/ses_000000000000000001", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, `"session":{"session":{"id":"ses_000000000000000001"`},
		"no such session":    {"/s/ses_000000000000000009", []string{"Cookie", cookie, "Sec-Fetch-Site", "none"}, `{"who":{"user":{"handle":"alice"`},
		"from another site":  {"/", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, ""},
		"nobody":             {"/", []string{"Sec-Fetch-Site", "none"}, ""},
		"somebody who was":   {"/", []string{"Cookie", cookie + "x", "Sec-Fetch-Site", "none"}, ""},
		"a token and no one": {"/", []string{"Authorization", "Bearer " + surfacetest.AliceToken, "Sec-Fetch-Site", "none"}, ""},
	} {
		header := append([]string{"Authorization", ""}, c.header...)
		status, _, body := ask(t, "GET", url+c.path, "", header...)
		if has := strings.Contains(body, `id="snapshot"`); status != 200 || has != (c.want != "") || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// FuzzBodies: whatever the data, an event can be sent, short and with its
// number.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"output":"` + strings.Repeat("x", 20_000) + `"}`))
	f.Add([]byte(`["` + strings.Repeat(`\u00e4`, 9_000) + `"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		got := server.ShortBody(core.Event{Seq: 3, Data: data})
		raw, err := json.Marshal(got)
		if err != nil || got.Seq != 3 || !json.Valid(raw) {
			t.Errorf("%v: %s", err, raw)
		}
	})
}
