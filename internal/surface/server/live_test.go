package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
	"drydock/internal/surface/surfacetest"
)

type message struct{ id, kind, data string }

// page is a browser with a stream.
type page struct {
	t    *testing.T
	url  string
	in   chan message
	quit context.CancelFunc
	name string
}

func connect(t *testing.T, url, query string, header ...string) *page {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/api/v1/stream"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+surfacetest.AliceToken)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		t.Fatalf("stream: %s", resp.Status)
	}
	p := &page{t: t, url: url, in: make(chan message, 10_000), quit: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.in)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 4<<20)
		var m message
		for lines.Scan() {
			switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
			case "id":
				m.id = value
			case "event":
				m.kind = value
			case "data":
				m.data = value
			case "":
				if m.kind != "" {
					p.in <- m
				}
				m = message{}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
		<-done
	})
	var hello api.Hello
	p.next("hello", &hello)
	p.name = hello.Stream
	if hello.Web == "" || hello.Version == "" {
		t.Errorf("hello %+v", hello)
	}
	return p
}

// next waits for a message of a kind and passes over others.
func (p *page) next(kind string, into any) message {
	p.t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case m, open := <-p.in:
			if !open {
				p.t.Fatalf("the stream ended before %s", kind)
			}
			if m.kind != kind {
				continue
			}
			if into != nil {
				if err := json.Unmarshal([]byte(m.data), into); err != nil {
					p.t.Fatalf("%s: %v: %s", kind, err, m.data)
				}
			}
			return m
		case <-late:
			p.t.Fatalf("no %s within 10 s", kind)
		}
	}
}

// row waits for a row of which something is true.
func (p *page) row(what string, is func(core.InboxRow) bool) {
	p.t.Helper()
	for {
		var row core.InboxRow
		if p.next("row", &row); is(row) {
			return
		}
	}
}

func (p *page) want(body string, want int) {
	p.t.Helper()
	if status, _, got := ask(p.t, "PUT", p.url+"/api/v1/streams/"+p.name, body, "Content-Type", "application/json"); status != want {
		p.t.Fatalf("want %s: %d %s", body, status, got)
	}
}

// sessions makes n of them in which nothing happens by itself.
func sessions(t *testing.T, w *surfacetest.World, url string, n int) []string {
	t.Helper()
	w.Script = func(*surfacetest.World, *surfacetest.Run) {}
	out := make([]string, n)
	for i := range n {
		status, _, body := ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"x"}`, "Content-Type", "application/json")
		if status != 201 {
			t.Fatal(status, body)
		}
		out[i] = fmt.Sprintf("ses_%018d", i+1)
	}
	return out
}

func say(w *surfacetest.World, id, text string) core.Event {
	return w.Emit(id, 0, core.NewEvent(core.EventAgentText, core.TextData{Text: text}))
}

func TestOneStreamBringsSeveralSessionsAndGoesOn(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	ids := sessions(t, w, url, 2)
	a, b := ids[0], ids[1]
	from, _ := w.Last(t.Context(), a)
	say(w, a, "a1")
	p := connect(t, url, fmt.Sprintf("?sessions=%s:%d,%s:%d", a, from, b, from))
	var ev api.ReadEvent
	if p.next("event", &ev); ev.Subject != a || ev.Seq != from+1 {
		t.Errorf("first event %+v", ev)
	}
	say(w, b, "b1")
	m := p.next("event", &ev)
	if ev.Subject != b || m.id != fmt.Sprintf("%s=%d,%s=%d", a, from+1, b, from+1) {
		t.Errorf("event %+v with id %q", ev, m.id)
	}
	p.quit()
	say(w, a, "a2")
	say(w, b, "b2")
	p = connect(t, url, fmt.Sprintf("?sessions=%s:0", a), "Last-Event-ID", m.id)
	got := map[string]int64{}
	for range 2 {
		p.next("event", &ev)
		got[ev.Subject] = ev.Seq
	}
	if want := map[string]int64{a: from + 2, b: from + 2}; !maps.Equal(got, want) {
		t.Errorf("after %q came %v, want %v", m.id, got, want)
	}
	for query, want := range map[string]int{
		"?sessions=ses_1:0": 400, "?sessions=" + a: 400, "?sessions=" + a + ":-1": 400, "?sessions=" + a + ":1," + a + ":2": 400, "?sessions=ses_000000000000000099:0": 404,
		"?sessions=" + strings.Repeat(a+":1,", 9): 400, "?colour=red": 400, "?inbox=perhaps": 400,
	} {
		if status, _, body := ask(t, "GET", url+"/api/v1/stream"+query, ""); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	if status, _, _ := ask(t, "GET", url+"/api/v1/stream", "", "Last-Event-ID", "17"); status != 400 {
		t.Errorf("an id of another kind of stream: %d", status)
	}
}

func TestWhatAStreamBringsCanBeChanged(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	ids := sessions(t, w, url, 2)
	a, b := ids[0], ids[1]
	from, _ := w.Last(t.Context(), a)
	p := connect(t, url, "")
	say(w, a, "before")
	p.want(fmt.Sprintf(`{"sessions":{"%s":%d}}`, a, from), 204)
	var ev api.ReadEvent
	if p.next("event", &ev); ev.Seq != from+1 {
		t.Errorf("an event fell between: %+v", ev)
	}
	p.want(fmt.Sprintf(`{"sessions":{"%s":0,"%s":%d}}`, a, b, from), 204) // a goes on where it is
	say(w, a, "both")
	if p.next("event", &ev); ev.Seq != from+2 {
		t.Errorf("event %+v", ev)
	}
	p.want(fmt.Sprintf(`{"sessions":{"%s":%d}}`, b, from), 204)
	say(w, a, "not wanted")
	say(w, b, "wanted")
	if p.next("event", &ev); ev.Subject != b {
		t.Errorf("an event that nobody wants: %+v", ev)
	}
	p.want(`{"sessions":{"ses_000000000000000099":0}}`, 404)
	p.want(`{"sessions":{"x":0}}`, 400)
	if status, _, _ := ask(t, "PUT", url+"/api/v1/streams/"+p.name, `{}`, "Content-Type", "application/json", "Authorization", "Bearer "+surfacetest.BobToken); status != 404 {
		t.Errorf("somebody else's stream: %d", status)
	}
	p.quit()
	eventually(t, "the stream is gone", func() bool {
		status, _, _ := ask(t, "PUT", url+"/api/v1/streams/"+p.name, `{}`, "Content-Type", "application/json")
		return status == 404
	})
}

func TestTooLargeAGapIsAReset(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	a := sessions(t, w, url, 1)[0]
	for range 5100 {
		say(w, a, "x")
	}
	p := connect(t, url, "?sessions="+a+":3")
	var reset api.Reset
	p.next("reset", &reset)
	if reset.Seq < 5100 || reset.Session != core.SessionID(a) || reset.Reason == "" {
		t.Errorf("reset %+v", reset)
	}
	p.want(fmt.Sprintf(`{"sessions":{"%s":%d}}`, a, reset.Seq), 204)
	say(w, a, "y")
	var ev api.ReadEvent
	if p.next("event", &ev); ev.Seq != reset.Seq+1 {
		t.Errorf("after a reset came %+v", ev)
	}
	if connect(t, url, "?sessions="+a+":99999").next("reset", &reset); !strings.Contains(reset.Reason, "shorter") {
		t.Errorf("beyond the log: %+v", reset)
	}
}

// TestFiftySessionsAndOneShown: of those that are not shown nothing comes but
// rows, and not one for each event.
func TestFiftySessionsAndOneShown(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	ids := sessions(t, w, url, 51)
	shown := ids[50]
	from, _ := w.Last(t.Context(), shown)
	p := connect(t, url, fmt.Sprintf("?inbox=true&sessions=%s:%d", shown, from))
	for range 100 {
		for _, id := range ids[:50] {
			say(w, id, strings.Repeat("secret body ", 100))
		}
	}
	say(w, shown, "the end")
	if status, _, body := ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"last"}`, "Content-Type", "application/json"); status != 201 {
		t.Fatal(status, body)
	}
	rows, events, bytes := map[core.SessionID]int{}, 0, 0
	for done := false; !done; {
		select {
		case m := <-p.in:
			bytes += len(m.data)
			switch m.kind {
			case "event":
				events++
				if strings.Contains(m.data, "secret") {
					t.Fatalf("a body of a session that is not shown: %.100s", m.data)
				}
			case "row":
				var row core.InboxRow
				if err := json.Unmarshal([]byte(m.data), &row); err != nil {
					t.Fatal(err)
				}
				rows[row.Session.ID]++
				done = row.Session.Title == "last"
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the last row did not come")
		}
	}
	if events != 1 || bytes > 300_000 {
		t.Errorf("%d events and %d bytes for 5000 events of others", events, bytes)
	}
	for id, n := range rows {
		if n > 3 {
			t.Errorf("%d rows of %s", n, id)
		}
	}
}

func TestRowsAndCountsFollowWhatHappens(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	p := connect(t, url, "?inbox=true")
	ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"fix it"}`, "Content-Type", "application/json")
	p.row("the outcome", func(r core.InboxRow) bool {
		return r.Section == core.InboxNeeds && r.Unread && r.Session.View.Word == core.ViewProven
	})
	var n core.InboxCounts
	for n.Needs != 1 {
		p.next("counts", &n)
	}
	other := connect(t, url, "")
	bob := connect(t, url, "", "Authorization", "Bearer "+surfacetest.BobToken)
	ask(t, "PUT", url+someSession+"/read", `{"seq":1000}`, "Content-Type", "application/json")
	var read core.Read
	if other.next("read", &read); read.Session != "ses_000000000000000001" || read.Seq == 0 {
		t.Errorf("the mark in another browser: %+v", read)
	}
	p.row("it was read", func(r core.InboxRow) bool { return r.Section == core.InboxRecent && !r.Unread })
	for n.Needs != 0 {
		p.next("counts", &n)
	}
	ask(t, "PUT", url+someSession+"/read", `{"seq":1}`, "Content-Type", "application/json", "Authorization", "Bearer "+surfacetest.BobToken)
	if bob.next("read", &read); read.Seq != 1 {
		t.Errorf("bob was told of somebody else's mark: %+v", read)
	}
}

func TestASessionThatIsShownBringsItsView(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	w.Script = func(w *surfacetest.World, r *surfacetest.Run) { <-r.Ctx.Done() }
	ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"x"}`, "Content-Type", "application/json")
	p := connect(t, url, "?sessions=ses_000000000000000001:0")
	var s core.Session
	if p.next("view", &s); s.View == nil || s.ID != "ses_000000000000000001" {
		t.Fatalf("view %+v", s)
	}
	first := s.View.Word
	ask(t, "DELETE", url+someSession, "")
	say(w, "ses_000000000000000001", "told")
	if first != core.ViewQueued && first != core.ViewStarting && first != core.ViewWorking && first != core.ViewDraft {
		t.Errorf("first view %s", first)
	}
}

func TestWhoLooksIsTold(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	a := sessions(t, w, url, 1)[0]
	p := connect(t, url, "?sessions="+a+":0")
	var who api.Presence
	if who = (api.Presence{}); p.next("presence", &who).kind == "" || len(who.People) != 0 {
		t.Errorf("at first %+v", who)
	}
	bob := []string{"Content-Type", "application/json", "Authorization", "Bearer " + surfacetest.BobToken}
	here := func(body string, want int) {
		t.Helper()
		if status, _, got := ask(t, "PUT", url+"/api/v1/sessions/"+a+"/presence", body, bob...); status != want {
			t.Fatalf("%s: %d %s", body, status, got)
		}
	}
	here(`{"client":"tab-1"}`, 204)
	if who = (api.Presence{}); p.next("presence", &who).kind == "" || len(who.People) != 1 || who.People[0].User.Handle != "bob" || who.People[0].Typing {
		t.Errorf("bob looks: %+v", who)
	}
	here(`{"client":"tab-1"}`, 204) // no news
	here(`{"client":"tab-2","typing":true}`, 204)
	if who = (api.Presence{}); p.next("presence", &who).kind == "" || len(who.People) != 1 || !who.People[0].Typing {
		t.Errorf("bob types: %+v", who)
	}
	here(`{"client":"tab-2","left":true}`, 204)
	if who = (api.Presence{}); p.next("presence", &who).kind == "" || len(who.People) != 1 || who.People[0].Typing {
		t.Errorf("one of two tabs is closed: %+v", who)
	}
	here(`{"client":"tab-1","left":true}`, 204)
	if who = (api.Presence{}); p.next("presence", &who).kind == "" || len(who.People) != 0 {
		t.Errorf("bob left: %+v", who)
	}
	here(`{"client":"no tab!"}`, 400)
	here(`{}`, 400)
	for i := range 64 {
		here(fmt.Sprintf(`{"client":"t%d"}`, i), 204)
	}
	here(`{"client":"one-more"}`, 429)
}

func TestASlowReaderIsCutAndHoldsNobodyUp(t *testing.T) {
	w := surfacetest.New(t)
	url := surfacetest.Serve(t, w.Deps(), server.Options{Patience: 200 * time.Millisecond})
	a := sessions(t, w, url, 1)[0]
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "GET /api/v1/stream?sessions=%s:0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", a, surfacetest.AliceToken)
	name := ""
	for in := bufio.NewScanner(conn); name == "" && in.Scan(); { // and then nothing is taken any more
		if _, rest, ok := strings.Cut(in.Text(), `{"stream":"`); ok {
			name, _, _ = strings.Cut(rest, `"`)
		}
	}
	start := time.Now()
	for range 4000 {
		say(w, a, strings.Repeat("x", 12_000))
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("writers were held up for %v", took)
	}
	eventually(t, "the slow reader is cut", func() bool {
		status, _, _ := ask(t, "PUT", url+"/api/v1/streams/"+name, `{}`, "Content-Type", "application/json")
		return status == 404
	})
}

func TestAStreamEndsWithTheSignIn(t *testing.T) {
	w := surfacetest.New(t)
	url := surfacetest.Serve(t, w.Deps(), server.Options{Heartbeat: 20 * time.Millisecond})
	cookie := signIn(t, url)
	p := connect(t, url, "?inbox=true", browser(cookie)...)
	ask(t, "POST", url+"/api/v1/logout", "", browser(cookie)...)
	var e api.Error
	if p.next("error", &e); e.Code != "unauthorized" {
		t.Errorf("error %+v", e)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	for range 32 {
		connect(t, url, "")
	}
	if status, _, body := ask(t, "GET", url+"/api/v1/stream", ""); status != http.StatusTooManyRequests {
		t.Errorf("stream 33 of one person: %d %s", status, body)
	}
	connect(t, url, "", "Authorization", "Bearer "+surfacetest.BobToken)
}

func TestStreamsLeaveNothingBehind(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	ids := sessions(t, w, url, 8)
	query := "?inbox=true&sessions=" + strings.Join(ids, ":0,") + ":0"
	for range 5 {
		p := connect(t, url, query)
		p.next("event", nil)
		p.want(fmt.Sprintf(`{"sessions":{"%s":0}}`, ids[0]), 204)
		p.quit()
	}
	eventually(t, "their goroutines end", func() bool {
		buf := make([]byte, 1<<22)
		return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "live_stream.go")
	})
}

func FuzzPositions(f *testing.F) {
	f.Add("ses_000000000000000001=17,ses_000000000000000002=4")
	f.Add("ses_000000000000000001=017")
	f.Add(",=")
	f.Fuzz(func(t *testing.T, s string) {
		at, err := server.Positions(s)
		if err != nil {
			if !core.Is(err, core.Invalid) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		again, err := server.Positions(server.Written(at))
		if err != nil || !maps.Equal(at, again) || len(at) > 8 {
			t.Errorf("%q is %v, and written and read again %v, %v", s, at, again, err)
		}
	})
}
