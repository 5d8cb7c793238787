package runsc_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
)

// parts collects what the driver says of each start.
type parts struct {
	slog.Handler
	spent map[string][]time.Duration
}

func (p parts) Enabled(context.Context, slog.Level) bool { return true }

func (p parts) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindDuration {
			p.spent[a.Key] = append(p.spent[a.Key], a.Value.Duration())
		}
		return true
	})
	return nil
}

// BenchmarkCreate shows the medians of what a start is made of: everything
// before runsc (network included), runsc itself, and drydock-init after it.
func BenchmarkCreate(b *testing.B) {
	h := newHost(b)
	p := parts{Handler: slog.DiscardHandler, spent: map[string][]time.Duration{}}
	d, err := runsc.New(runsc.Deps{Network: h.network, Log: slog.New(p)}, h.opts)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		start := time.Now()
		hd, err := d.Create(b.Context(), sandbox.Spec{
			ID: core.NewSandboxID(), Layers: []string{h.base}, Token: "t", Limits: core.Limits{CPU: 2, Memory: 512 << 20, Pids: 1000},
		})
		if err != nil {
			b.Fatal(err)
		}
		p.spent["create"] = append(p.spent["create"], time.Since(start))
		start = time.Now()
		if err := d.Destroy(b.Context(), hd.ID); err != nil {
			b.Fatal(err)
		}
		p.spent["destroy"] = append(p.spent["destroy"], time.Since(start))
	}
	for name, spent := range p.spent {
		slices.Sort(spent)
		b.ReportMetric(float64(spent[len(spent)/2].Microseconds())/1000, name+"-ms")
	}
}
