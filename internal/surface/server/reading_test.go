package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
	"drydock/internal/surface/surfacetest"
)

// desk answers with what it was asked.
type desk struct {
	server.Changes
	server.Reading
	server.Discussion
	asked core.PatchRequest
	mark  core.ViewedMark
	sent  core.Sending
	place core.Anchor
}

const deskChange = core.ChangeID("chg_000000000000000001")

func (d *desk) Get(context.Context, string) (core.Change, error) {
	return core.Change{ID: deskChange}, nil
}

func (d *desk) Patches(_ context.Context, _ core.ChangeID, _ core.Author, req core.PatchRequest) (core.Patches, error) {
	d.asked = req
	return core.Patches{Files: []core.FilePatch{{N: 2, Patch: "@@ -1 +1 @@\n--- <x>\u2028\r\n+y\n", Bytes: 20}, {N: 3}}, Next: "4-9"}, nil
}

func (d *desk) SetViewed(_ context.Context, _ core.ChangeID, _ core.Author, m core.ViewedMark) error {
	d.mark = m
	return nil
}

func (d *desk) Write(_ context.Context, _ core.ChangeID, _ core.Author, a core.Anchor, body, client string) (core.Note, error) {
	d.place = a
	return core.Note{ID: "nte_000000000000000001", Body: body, ClientID: client, Anchor: a}, nil
}

func (d *desk) Send(_ context.Context, _ core.ChangeID, _ core.Author, s core.Sending) (core.SentNotes, error) {
	d.sent = s
	return core.SentNotes{Comments: []core.Comment{}}, nil
}

func TestReadingAChangeOverHTTP(t *testing.T) {
	w := surfacetest.New(t)
	d := &desk{}
	deps := w.Deps()
	deps.Changes, deps.Reading, deps.Discussion = d, d, d
	url := surfacetest.Serve(t, deps, server.Options{Version: "test"}) + api.Prefix + "/changes/" + string(deskChange)

	status, header, body := ask(t, "GET", url+"/patches?from=seen&to=head&files=2,3-9&context=0&digest=sha256:x", "")
	if status != http.StatusOK || header.Get("Content-Type") != "application/x-ndjson" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%d %v: %s", status, header, body)
	}
	if want := (core.PatchRequest{DiffRange: core.DiffRange{From: "seen", To: "head"}, Files: "2,3-9", Context: -1, Digest: "sha256:x"}); d.asked != want {
		t.Errorf("asked for %+v", d.asked)
	}
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %q", len(lines), body)
	}
	var first core.FilePatch
	var end server.PatchesEnd
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.Patch != "@@ -1 +1 @@\n--- <x>\u2028\r\n+y\n" {
		t.Errorf("%q, %v", first.Patch, err)
	}
	if err := json.Unmarshal([]byte(lines[2]), &end); err != nil || end.Next != "4-9" {
		t.Errorf("%q, %v", lines[2], err)
	}

	// A name that is not UTF-8 comes back as its bytes.
	status, _, body = ask(t, "PUT", url+"/viewed", `{"path":"a?","raw":"Yf8=","blob":"","viewed":true}`, "Content-Type", "application/json")
	if status != http.StatusNoContent || d.mark.Path != "a\xff" || !d.mark.Viewed {
		t.Errorf("%d %s: %+v", status, body, d.mark)
	}
	status, _, body = ask(t, "POST", url+"/drafts", `{"anchor":{"path":"a.go","line":3,"end_line":4},"body":"why","client_id":"c"}`, "Content-Type", "application/json")
	if status != http.StatusCreated || d.place.Line != 3 || d.place.EndLine != 4 || !strings.Contains(body, "nte_") {
		t.Errorf("%d %s", status, body)
	}
	status, _, body = ask(t, "POST", url+"/drafts/send", `{"to":"agent","client_id":"s"}`, "Content-Type", "application/json")
	if status != http.StatusOK || d.sent.To != "agent" || d.sent.ClientID != "s" {
		t.Errorf("%d %s", status, body)
	}
	for _, bad := range []struct{ method, path, body string }{
		{"POST", "/drafts/send", `{"to":"agent"}`},
		{"POST", "/drafts/send", `{"to":"everybody","client_id":"s"}`},
		{"POST", "/drafts", `{"anchor":{"hunk":"x"},"body":"why"}`},
		{"DELETE", "/drafts/drf_1", ""},
		{"GET", "/patches?context=-1", ""},
		{"GET", "/patches?base=x", ""},
		{"GET", "/search", ""},
	} {
		if status, _, body := ask(t, bad.method, url+bad.path, bad.body, "Content-Type", "application/json"); status != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", bad.method, bad.path, status, body)
		}
	}
	if status, _, _ := ask(t, "GET", url+"/threads", "", "Authorization", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
}
