package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/retention"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
)

// pruner is a driver that keeps programs for memory images.
type pruner interface {
	Prune(images []sandbox.Fit) error
}

// openCollector opens what removes what nothing needs.
func (d *Daemon) openCollector() {
	steps := []retention.Step{{Name: "programs of memory images", Do: d.prune}}
	if d.driver.Name() == "runsc" { // the layers of others are no overlays
		steps = append(steps, retention.Step{Name: "chains of layers", Do: d.compact})
	}
	if d.opts.Images.Dir == "" { // a directory that is named may be shared with others
		steps = append(steps, retention.Step{Name: "base images", Do: d.collectImages, Seldom: true})
	}
	d.collector = retention.New(retention.Deps{
		Snapshots: d.snapshots, Before: d.expire, After: steps, Log: d.log,
		Disk: func() (free, total int64, err error) {
			var fs unix.Statfs_t
			if err := unix.Statfs(d.opts.State, &fs); err != nil {
				return 0, 0, err
			}
			return int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize, nil //nolint:gosec // sizes of disks
		},
	}, retention.Options{
		Interval: d.opts.CollectEvery, Max: d.opts.StorageMax,
		// Above what capacity keeps: room is made before anything has to wait.
		Reserve: d.opts.Capacity.DiskReserve + d.opts.Capacity.DiskReserve/4,
	})
}

// uses names everything that needs a snapshot.
func (d *Daemon) uses(ctx context.Context) ([]snapshot.Use, error) {
	return retention.Uses(ctx, d.db, d.opts.Retention, time.Now())
}

// afterBuild lets the collector look when a build has ended.
func (d *Daemon) afterBuild(events []core.Event) {
	for _, e := range events {
		if e.Kind == core.EventBuildState && d.collector != nil {
			d.collector.Kick()
		}
	}
}

// expire lets go of files of sessions in which nothing has happened for long,
// and tells their logs.
func (d *Daemon) expire(ctx context.Context) error {
	gone, err := retention.Expire(ctx, d.db, d.opts.Retention, time.Now())
	for _, s := range gone {
		e := core.NewEvent(core.EventWarning, core.WarningData{
			Code: "files_expired",
			Message: fmt.Sprintf("nothing has happened in this session for %s: snapshot %s with its files is let go; branch and log stay",
				d.opts.Retention.Idle, s.Snapshot),
			Hint: "the next prompt starts from the environment and the session's branch; retention.idle in the configuration says how long files are kept",
		})
		e.Actor = "platform"
		if _, err := d.events.Append(ctx, string(s.ID), e); err != nil {
			d.log.Warn("the end of a session's files was not recorded", "session", s.ID, "err", err)
		}
	}
	return err
}

// prune lets the driver remove programs that no memory image needs any more.
func (d *Daemon) prune(ctx context.Context, dry bool, _ int64) (int64, error) {
	p, ok := d.driver.(pruner)
	if !ok || dry {
		return 0, nil
	}
	return 0, d.snapshots.Fits(ctx, p.Prune)
}

// compact makes long chains shorter; what they leave goes with a later
// collection.
func (d *Daemon) compact(ctx context.Context, dry bool, _ int64) (int64, error) {
	if dry {
		return 0, nil
	}
	c, err := d.snapshots.Compact(ctx, retention.Grace, 0)
	if c.Into > 0 {
		d.log.Info("made chains of layers shorter", "layers", c.Merged, "into", c.Into, "snapshots", c.Snapshots)
	}
	return 0, err
}

// ensured remembers which base images builds have asked for lately.
type ensured struct {
	mu   sync.RWMutex // held for reading while one is being made or found
	seen sync.Map     // digest: time.Time
}

func (e *ensured) note(digest string) { e.seen.Store(digest, time.Now()) }

func (e *ensured) since(digest string, age time.Duration) bool {
	at, ok := e.seen.Load(digest)
	return ok && time.Since(at.(time.Time)) < age //nolint:forcetypeassert // only times are stored
}

// collectImages removes base images that no snapshot, no sandbox and no build
// stands on, and that are older than the grace the policy gives.
func (d *Daemon) collectImages(ctx context.Context, dry bool, _ int64) (int64, error) {
	if !d.ensured.mu.TryLock() {
		return 0, nil // a build is making one
	}
	defer d.ensured.mu.Unlock()
	open, err := d.db.OpenBuilds(ctx)
	if err != nil || dry || len(open) > 0 {
		return 0, err
	}
	used, err := d.snapshots.BasePaths(ctx)
	if err != nil {
		return 0, err
	}
	return d.images.GC(ctx, func(img image.Image) bool {
		if time.Since(img.Created) < d.opts.Retention.Images || d.ensured.since(img.Digest, d.opts.Retention.Images) {
			return true
		}
		for _, layer := range img.Layers {
			if used[layer] {
				return true
			}
		}
		return false
	})
}
