package daemon

import (
	"context"

	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/execution/capacity"
	"drydock/internal/execution/environment"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

var _ session.Capacity = (*capacity.Keeper)(nil)

// openCapacity opens what knows the room of the host.
func (d *Daemon) openCapacity() {
	host := d.opts.Host
	if host == nil {
		host = capacity.HostOf(d.opts.State)
	}
	if d.opts.StorageMax > 0 {
		host = d.stored(host)
	}
	d.capacity = capacity.New(capacity.Deps{Host: host, Living: d.living, Log: d.log}, d.opts.Capacity)
}

// stored adds what snapshots take to what is known of the host.
func (d *Daemon) stored(host func() (capacity.Host, error)) func() (capacity.Host, error) {
	return func() (capacity.Host, error) {
		h, err := host()
		if used, usedErr := d.snapshots.Usage(context.Background()); usedErr == nil {
			h.Stored = capacity.Amount{Total: d.opts.StorageMax, Free: d.opts.StorageMax - used.Bytes}
		}
		return h, err
	}
}

// living are the sandboxes that run, with the memory they use. One that an
// earlier process started is not measured before it is adopted; what it uses
// is missing from the host's free memory all the same.
func (d *Daemon) living(ctx context.Context) ([]capacity.Sandbox, error) {
	rows, err := d.db.LiveSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]capacity.Sandbox, 0, len(rows))
	for _, row := range rows {
		s := capacity.Sandbox{ID: row.ID, Purpose: row.Purpose, Owner: row.Owner}
		state := row.State
		if status, err := d.driver.Status(ctx, row.ID); err == nil {
			state, s.Memory = status.State, status.Memory
		}
		if state == core.SandboxRunning {
			out = append(out, s)
		}
	}
	return out, nil
}

// admit gives the launcher the room of the host.
func (d *Daemon) admit(ctx context.Context, req environment.AdmitRequest) (func(), error) {
	return d.capacity.Admit(ctx, capacity.Request{ID: req.ID, Purpose: req.Purpose, Owner: req.Owner, Limits: req.Limits})
}

// roomForBuild is asked before a queued build starts.
func (d *Daemon) roomForBuild(ctx context.Context) (ok bool, why string) {
	return d.capacity.Room(ctx, capacity.Build)
}

// room shows the capacity of the host.
type room struct{ d *Daemon }

var _ server.Capacity = room{}

// Capacity implements server.Capacity.
func (r room) Capacity(ctx context.Context) (api.Capacity, error) {
	queued, running, err := r.d.sessions.Queue(ctx)
	if err != nil {
		return api.Capacity{}, err
	}
	k := r.d.capacity.Report(ctx)
	out := api.Capacity{
		State: k.State, Hint: k.Hint,
		Memory: api.Room{
			Total: k.Host.Memory.Total, Used: k.Host.Memory.Total - k.Host.Memory.Free, Sandboxes: k.MemoryUsed, Promised: k.MemoryKept,
			Reserve: k.MemoryReserve, Free: k.MemoryFree,
		},
		Disk: api.Room{
			Total: k.Host.Disk.Total, Used: k.Host.Disk.Total - k.Host.Disk.Free, Reserve: k.DiskReserve, Free: max(k.Host.Disk.Free-k.DiskReserve, 0),
		},
		Processors: k.Host.Processors, Busy: k.Busy, BusyLimit: k.PerProcessor * k.Host.Processors,
		Sandboxes: k.Sandboxes, Running: running, RunningLimit: r.d.opts.MaxSessions, Queued: queued, Waiting: []api.WaitingSandbox{},
	}
	if k.Lack != "" {
		out.Reason = "a new session waits for " + k.Lack
	}
	for _, w := range k.Waiting {
		out.Waiting = append(out.Waiting, api.WaitingSandbox{Purpose: w.Purpose, Owner: w.Owner, For: w.For, Since: w.Since})
	}
	return out, nil
}
