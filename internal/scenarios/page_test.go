package scenarios

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/testkit"
)

// visit is a request as a browser makes it for our own page.
func visit(t *testing.T, method, url, cookie, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Cookie", cookie)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestThePageTellsWhatHappened: somebody signs in with a code, and sees the
// proven work of a session in the inbox, in its outline, on the stream and in
// its words.
func TestThePageTellsWhatHappened(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello())})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	got := d.Run(t, env, "Mend the greeting")
	proven(t, got, "ana", 1)
	id, ctx, ana := got.Session.ID, t.Context(), d.Client(t, "ana")

	box, err := ana.Inbox(ctx)
	if err != nil || box.Needs.Count != 1 || !box.Needs.Items[0].Unread || box.Needs.Items[0].Session.View.Word != core.ViewProven {
		t.Fatalf("inbox %+v, %v", box, err)
	}
	if c := box.Needs.Items[0].Change; c == nil || c.Verdict != "proven" || c.Files == 0 || c.Added == 0 {
		t.Errorf("change in the inbox: %+v", c)
	}
	page, err := ana.Page(ctx, id)
	if err != nil || len(page.Outline) != 1 || page.Snapshot == nil || page.Evidence == nil || page.Change == nil {
		t.Fatalf("page %+v, %v", page, err)
	}
	turn := page.Outline[0]
	if turn.Tools == 0 || turn.State != core.PromptDone || len(turn.Nodes) < 5 || turn.LastSeq != page.Seq {
		t.Errorf("turn %+v", turn)
	}
	for _, n := range turn.Nodes {
		if n.State != "done" || n.Title == "" {
			t.Errorf("step %+v", n)
		}
	}
	found, err := ana.Search(ctx, id, "mend the GREETING", "")
	if err != nil || found.Total == 0 {
		t.Errorf("search: %+v, %v", found, err)
	}

	code, err := ana.LoginCode(ctx)
	if err != nil {
		t.Fatal(err)
	}
	login := visit(t, "POST", d.URL+"/api/v1/login", "", `{"secret":"`+code.Code+`"}`)
	if login.StatusCode != 200 || len(login.Cookies()) != 1 {
		t.Fatalf("login: %s", login.Status)
	}
	cookie := login.Cookies()[0].Name + "=" + login.Cookies()[0].Value
	shell, err := io.ReadAll(visit(t, "GET", d.URL+"/s/"+string(id), cookie, "").Body)
	if err != nil || !strings.Contains(string(shell), `id="snapshot"`) || !strings.Contains(string(shell), string(id)) {
		t.Errorf("the page does not start with the session: %.300s, %v", shell, err)
	}
	stream := bufio.NewScanner(visit(t, "GET", d.URL+"/api/v1/stream?inbox=true&sessions="+string(id)+":0", cookie, "").Body)
	stream.Buffer(nil, 8<<20)
	seen := map[string]bool{}
	for stream.Scan() && !(seen["event: hello"] && seen["event: event"] && seen["event: view"] && seen["event: counts"]) {
		seen[stream.Text()] = true
	}
	if stream.Err() != nil {
		t.Error(stream.Err())
	}
}
