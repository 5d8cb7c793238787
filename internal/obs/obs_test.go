package obs

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
)

func TestSecretsStayOutOfTheLog(t *testing.T) {
	const secret = `s3"cret\value`
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		r := NewRedactor(secret, "short", "")
		r.Add("another-secret", "another-secret-longer")
		log := NewLogger(&out, r, LogOptions{Format: format, Level: "debug"}).With("header", "Bearer "+secret)
		log.Debug("got "+secret, Error, errors.New("key another-secret-longer is bad"), slog.Group("g", "k", secret), "ok", "short")
		for _, bad := range []string{"s3", "another", "longer"} {
			if strings.Contains(out.String(), bad) {
				t.Errorf("%s: %q is in %s", format, bad, out.String())
			}
		}
		if !strings.Contains(out.String(), "short") {
			t.Errorf("%s: too much is gone from %s", format, out.String())
		}
	}
}

func TestLevels(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, NewRedactor(), LogOptions{Level: "warn"})
	log.Info("quiet")
	log.Warn("loud")
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "loud") {
		t.Error(got)
	}
}

func TestLinesAreLoggedOneByOne(t *testing.T) {
	var out bytes.Buffer
	w := Lines(NewLogger(&out, NewRedactor(), LogOptions{}), slog.LevelInfo, "runsc says", Sandbox, "sbx_1")
	_, _ = w.Write([]byte("one\ntw"))
	_, _ = w.Write([]byte("o\r\n\n" + strings.Repeat("x", maxLine+5)))
	_ = w.Close()
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != 4 || !strings.Contains(got[1], "line=two") || !strings.Contains(got[3], "line=xxxxx") {
		t.Errorf("%d lines: %q", len(got), got)
	}
}

func TestMetricsAreServed(t *testing.T) {
	m := NewMetrics()
	m.Request("/v1/sessions/{id}", 404, time.Millisecond)
	m.SandboxStarted("session", "files", time.Second)
	m.SandboxEnded("session", "out_of_memory")
	m.ModelCall("end_turn", core.Usage{Input: 7}, core.Cost{Known: 2_000_000}, time.Second)
	m.Egress("dns", false, 3)
	m.Event(core.EventCommit)
	var none *Metrics
	none.Verdict("proven")
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`drydock_sandboxes{purpose="session"} 0`, `drydock_sandbox_deaths_total{cause="out_of_memory"} 1`, `drydock_model_tokens_total{class="input"} 7`,
		`drydock_model_cost_dollars_total 2`, `drydock_egress_decisions_total{allowed="false",via="dns"} 3`, `code="4xx",route="/v1/sessions/{id}"`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("missing %s", want)
		}
	}
}
