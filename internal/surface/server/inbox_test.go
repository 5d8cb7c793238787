package server_test

import (
	"encoding/json"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/surfacetest"
)

func inboxOf(t *testing.T, url, query, token string) core.Inbox {
	t.Helper()
	status, _, body := ask(t, "GET", url+"/api/v1/inbox"+query, "", "Authorization", "Bearer "+token)
	var box core.Inbox
	if err := json.Unmarshal([]byte(body), &box); err != nil || status != 200 {
		t.Fatal(status, body)
	}
	return box
}

// eventually polls what has to become true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestAnOutcomeNeedsYouUntilItIsRead(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"x"}`, "Content-Type", "application/json")
	var box core.Inbox
	eventually(t, "the run ends", func() bool {
		box = inboxOf(t, url, "", surfacetest.AliceToken)
		return len(box.Needs.Items) == 1
	})
	row := box.Needs.Items[0]
	if !row.Unread || row.Session.View == nil || row.Session.View.Word != core.ViewProven || row.Session.View.Role != "ok" {
		t.Errorf("row: %+v, view %+v", row, row.Session.View)
	}
	if got := inboxOf(t, url, "", surfacetest.BobToken); len(got.Needs.Items) != 0 || len(got.Recent.Items) != 1 {
		t.Errorf("somebody else's outcome needs bob: %+v", got)
	}
	seq, _ := json.Marshal(map[string]int64{"seq": row.Seq + 1000})
	if status, _, body := ask(t, "PUT", url+someSession+"/read", string(seq), "Content-Type", "application/json"); status != 200 {
		t.Fatal(status, body)
	}
	if got := inboxOf(t, url, "", surfacetest.AliceToken); len(got.Needs.Items) != 0 || len(got.Recent.Items) != 1 || got.Recent.Items[0].Read != row.Seq {
		t.Errorf("a read outcome needs alice: %+v", got)
	}
	ask(t, "DELETE", url+someSession+"/read", "")
	if got := inboxOf(t, url, "", surfacetest.AliceToken); len(got.Needs.Items) != 1 {
		t.Errorf("unread again, and it does not need alice: %+v", got)
	}
	if got := inboxOf(t, url, "?q=nothing+like+it", surfacetest.AliceToken); got.Needs.Count != 0 {
		t.Errorf("a word that is not in the title: %+v", got)
	}
	for path, want := range map[string]int{
		"/inbox/needs": 200, "/inbox/elsewhere": 400, "/inbox?limit=0": 400, "/inbox?environment=nowhere": 404, "/inbox/recent?cursor=zzz": 400,
	} {
		if status, _, body := ask(t, "GET", url+"/api/v1"+path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
