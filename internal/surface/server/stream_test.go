package server_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/server"
	"drydock/internal/surface/surfacetest"
)

// quietSession makes a session whose agent does nothing, and returns its path.
func quietSession(t *testing.T, w *surfacetest.World, url string) string {
	t.Helper()
	w.Script = func(*surfacetest.World, *surfacetest.Run) {}
	status, _, body := ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"x"}`, "Content-Type", "application/json")
	if status != 201 {
		t.Fatal(status, body)
	}
	return url + someSession
}

func open(t *testing.T, url string, header ...string) *bufio.Scanner {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+surfacetest.AliceToken)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	return bufio.NewScanner(resp.Body)
}

// until reads lines until one has the prefix.
func until(t *testing.T, in *bufio.Scanner, prefix string) string {
	t.Helper()
	for in.Scan() {
		if strings.HasPrefix(in.Text(), prefix) {
			return in.Text()
		}
	}
	t.Fatalf("the stream ended before %q: %v", prefix, in.Err())
	return ""
}

func TestStreamHasNumbersKindsAndHeartbeats(t *testing.T) {
	w := surfacetest.New(t)
	url := surfacetest.Serve(t, w.Deps(), server.Options{Heartbeat: 20 * time.Millisecond})
	session := quietSession(t, w, url)
	in := open(t, session+"/events")
	for _, want := range []string{"id: 1", "event: session.created", `data: {"subject":"ses_000000000000000001","seq":1`, "id: 2", "event: prompt.queued", "data: ", ": beat"} {
		until(t, in, want)
	}
	w.Emit("ses_000000000000000001", 0, core.NewEvent(core.EventWarning, core.WarningData{Message: "two\nlines"}))
	until(t, in, "id: 3")
	if data := until(t, in, "data: "); !strings.Contains(data, `two\nlines`) {
		t.Errorf("got %s", data)
	}
}

func TestStreamGoesOnAfterANumber(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	session := quietSession(t, w, url)
	for i := range 5 {
		w.Emit("ses_000000000000000001", 0, core.NewEvent(core.EventWarning, core.WarningData{Message: fmt.Sprint(i)}))
	}
	if got := until(t, open(t, session+"/events?after=4"), "id: "); got != "id: 5" {
		t.Errorf("after=4: %s", got)
	}
	if got := until(t, open(t, session+"/events?after=2", "Last-Event-ID", "5"), "id: "); got != "id: 6" {
		t.Errorf("Last-Event-ID wins: %s", got)
	}
	status, _, body := ask(t, "GET", session+"/events?follow=false&after=5&limit=1", "")
	if status != 200 || !strings.Contains(body, `"seq":6`) || !strings.Contains(body, `"next":"6"`) {
		t.Errorf("page: %d %s", status, body)
	}
	if status, _, body := ask(t, "GET", session+"/events", "", "Last-Event-ID", "x"); status != 400 {
		t.Errorf("a broken number: %d %s", status, body)
	}
	if status, _, body := ask(t, "GET", url+"/api/v1/sessions/ses_000000000000000777/events", ""); status != 404 {
		t.Errorf("a session that is not there: %d %s", status, body)
	}
}

// withDelta yields one event, a delta, and an error.
type withDelta struct{ server.Events }

func (withDelta) Follow(_ context.Context, subject string, _ int64) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		ev := core.NewEvent(core.EventDelta, core.TextData{Text: "hal"})
		ev.Subject = subject
		if yield(ev, nil) {
			yield(core.Event{}, core.E("log", core.Unavailable, nil, "the log is locked"))
		}
	}
}

func TestDeltasHaveNoNumberAndErrorsEndTheStream(t *testing.T) {
	w := surfacetest.New(t)
	deps := w.Deps()
	deps.Events = withDelta{w}
	url := surfacetest.Serve(t, deps, server.Options{})
	session := quietSession(t, w, url)
	in := open(t, session+"/events")
	var lines []string
	for in.Scan() {
		if in.Text() != "" {
			lines = append(lines, in.Text())
		}
	}
	got := strings.Join(lines, "\n")
	want := "retry: 1000\nevent: delta\ndata: {\"subject\":\"ses_000000000000000001\",\"seq\":0,\"time\":\"0001-01-01T00:00:00Z\",\"kind\":\"delta\",\"data\":{\"text\":\"hal\"}}\n" +
		"event: error\ndata: {\"code\":\"unavailable\",\"message\":\"the log is locked\"}"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	w := surfacetest.New(t)
	ended := make(chan struct{})
	t.Run("server", func(t *testing.T) {
		url := w.Start(t) // ends with this subtest, and would hang if the stream held it
		session := quietSession(t, w, url)
		in := open(t, session+"/events")
		until(t, in, "id: 2")
		go func() {
			defer close(ended)
			for in.Scan() { //nolint:revive // to its end
			}
		}()
	})
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the stream outlived the server")
	}
}
