package obs

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"drydock/internal/core"
)

// Metrics are all the daemon's metrics. A nil *Metrics counts nothing, so that
// parts need not ask.
type Metrics struct {
	registry *prometheus.Registry

	requests  *prometheus.HistogramVec
	events    *prometheus.CounterVec
	sandboxes *prometheus.GaugeVec
	starts    *prometheus.HistogramVec
	deaths    *prometheus.CounterVec
	builds    *prometheus.HistogramVec
	runs      *prometheus.CounterVec
	verdicts  *prometheus.CounterVec
	calls     *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	dollars   prometheus.Counter
	egress    *prometheus.CounterVec
	waiting   prometheus.Gauge
	previews  *prometheus.CounterVec
	shown     *prometheus.CounterVec
}

// NewMetrics makes the registry and everything in it.
func NewMetrics() *Metrics {
	quick := prometheus.ExponentialBuckets(0.002, 2.5, 12)
	slow := prometheus.ExponentialBuckets(0.1, 2.5, 12)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "drydock", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "drydock", Name: name, Help: help, Buckets: buckets}, labels)
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "drydock", Name: name, Help: help}
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		requests:  histogram("api_request_seconds", "Requests to the API.", quick, "route", "code"),
		events:    counter("events_total", "Events written to logs.", "kind"),
		sandboxes: prometheus.NewGaugeVec(gauge("sandboxes", "Sandboxes that run."), []string{"purpose"}),
		starts:    histogram("sandbox_start_seconds", "From asking for a sandbox until it answers.", quick, "purpose", "from"),
		deaths:    counter("sandbox_deaths_total", "Sandboxes that died.", "cause"),
		builds:    histogram("build_seconds", "Environment builds.", slow, "result"),
		runs:      counter("runs_total", "Runs that ended.", "state"),
		verdicts:  counter("verdicts_total", "Verdicts of proofs.", "verdict"),
		calls:     histogram("model_call_seconds", "Calls to models.", slow, "outcome"),
		tokens:    counter("model_tokens_total", "Tokens by price class.", "class"),
		dollars: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "drydock", Name: "model_cost_dollars_total", Help: "Cost of model calls whose price is known.",
		}),
		egress:   counter("egress_decisions_total", "Connections that were judged.", "via", "allowed"),
		previews: counter("preview_requests_total", "Requests to previews of apps.", "kind", "code"),
		shown:    counter("preview_bytes_total", "Bytes of previews of apps.", "direction"),
		waiting:  prometheus.NewGauge(gauge("prompts_waiting", "Prompts that wait for their turn.")),
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.events, m.sandboxes, m.starts, m.deaths, m.builds, m.runs, m.verdicts, m.calls, m.tokens, m.dollars, m.egress, m.waiting, m.previews, m.shown,
	)
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Request counts one API request; route is the pattern, not the path.
func (m *Metrics) Request(route string, code int, took time.Duration) {
	if m != nil {
		m.requests.WithLabelValues(route, strconv.Itoa(code/100)+"xx").Observe(took.Seconds())
	}
}

// Event counts one event.
func (m *Metrics) Event(kind core.EventKind) {
	if m != nil {
		m.events.WithLabelValues(string(kind)).Inc()
	}
}

// SandboxStarted counts one sandbox that runs now; from is "files" or
// "memory".
func (m *Metrics) SandboxStarted(purpose, from string, took time.Duration) {
	if m != nil {
		m.sandboxes.WithLabelValues(purpose).Inc()
		m.starts.WithLabelValues(purpose, from).Observe(took.Seconds())
	}
}

// SandboxEnded counts one that no longer runs.
func (m *Metrics) SandboxEnded(purpose, cause string) {
	if m != nil {
		m.sandboxes.WithLabelValues(purpose).Dec()
		m.deaths.WithLabelValues(cause).Inc()
	}
}

// BuildEnded counts one build.
func (m *Metrics) BuildEnded(state core.BuildState, took time.Duration) {
	if m != nil {
		m.builds.WithLabelValues(string(state)).Observe(took.Seconds())
	}
}

// RunEnded counts one run.
func (m *Metrics) RunEnded(state core.RunState) {
	if m != nil {
		m.runs.WithLabelValues(string(state)).Inc()
	}
}

// Verdict counts one verdict.
func (m *Metrics) Verdict(verdict string) {
	if m != nil {
		m.verdicts.WithLabelValues(verdict).Inc()
	}
}

// ModelCall counts one call; outcome is a fixed word.
func (m *Metrics) ModelCall(outcome string, u core.Usage, c core.Cost, took time.Duration) {
	if m == nil {
		return
	}
	m.calls.WithLabelValues(outcome).Observe(took.Seconds())
	for class, n := range map[string]int64{"input": u.Input, "cache_read": u.CacheRead, "cache_write": u.CacheWrite, "output": u.Output} {
		m.tokens.WithLabelValues(class).Add(float64(n))
	}
	m.dollars.Add(float64(c.Known) / 1e6)
}

// Egress counts decisions on connections; via is a fixed word.
func (m *Metrics) Egress(via string, allowed bool, count int) {
	if m != nil {
		m.egress.WithLabelValues(via, strconv.FormatBool(allowed)).Add(float64(count))
	}
}

// Waiting sets how many prompts wait.
func (m *Metrics) Waiting(n int) {
	if m != nil {
		m.waiting.Set(float64(n))
	}
}

// PreviewRequest counts one request to a preview; kind is "http", "socket" or,
// where we answered ourselves, "own".
func (m *Metrics) PreviewRequest(kind string, code int) {
	if m != nil {
		m.previews.WithLabelValues(kind, strconv.Itoa(code/100)+"xx").Inc()
	}
}

// PreviewBytes counts what went to apps and came from them.
func (m *Metrics) PreviewBytes(up, down int64) {
	if m != nil {
		m.shown.WithLabelValues("up").Add(float64(up))
		m.shown.WithLabelValues("down").Add(float64(down))
	}
}
