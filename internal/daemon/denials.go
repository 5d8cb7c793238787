package daemon

import (
	"context"
	"log/slog"

	"drydock/internal/containment/egress"
	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/obs"
	"drydock/internal/store"
)

// denials brings what the egress refused into the log of whoever it happened
// to. Decisions must not wait for a database, so they pass through a queue; a
// flood beyond it is dropped and counted.
type denials struct {
	db    *store.DB
	log   *event.Log
	stats *obs.Metrics
	slog  *slog.Logger
	queue chan egress.Decision
}

func newDenials(db *store.DB, log *event.Log, stats *obs.Metrics, logger *slog.Logger) *denials {
	return &denials{db: db, log: log, stats: stats, slog: logger, queue: make(chan egress.Decision, 1024)}
}

// decided must not block.
func (d *denials) decided(v egress.Decision) {
	d.stats.Egress(v.Via, v.Allowed, v.Count)
	if v.Allowed {
		return
	}
	select {
	case d.queue <- v:
	default:
		d.slog.Warn("denied connections are not all recorded", "sandbox", v.Sandbox, "host", v.Host)
	}
}

func (d *denials) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-d.queue:
			d.record(ctx, v)
		}
	}
}

func (d *denials) record(ctx context.Context, v egress.Decision) {
	row, err := d.db.Sandbox(ctx, v.Sandbox)
	if err != nil || row.Purpose == "proof" {
		return // proof rooms have no log of their own; the check's output tells
	}
	e := core.NewEvent(core.EventNetworkDenied, core.DeniedData{
		Host: v.Host, Port: v.Port, Via: v.Via, Reason: v.Reason, Hint: v.Hint, Count: v.Count,
	})
	e.Actor = "platform"
	if _, err := d.log.Append(ctx, row.Owner, e); err != nil && ctx.Err() == nil {
		d.slog.Warn("a denied connection was not recorded", "sandbox", v.Sandbox, "err", err)
	}
}
