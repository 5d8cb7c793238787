package registry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
)

// Snapshots are those of this host.
type Snapshots interface {
	Get(ctx context.Context, id core.SnapshotID) (snapshot.Manifest, error)
	Acquire(ctx context.Context, id core.SnapshotID) (layers []string, release func(), err error)
	AcquireMemory(ctx context.Context, id core.SnapshotID) (overlay.Restorable, func(), error)
	BeginImport(ctx context.Context, d snapshot.Draft) (overlay.Import, error)
	Imported(ctx context.Context, im overlay.Import, b overlay.Brought) (core.Snapshot, error)
	Abort(ctx context.Context, id core.SnapshotID) error
}

var _ Snapshots = (*overlay.Store)(nil)

// Programs are the builds of runsc and drydock-init that memory images are
// bound to, under their digests. Keep checks the digest.
type Programs interface {
	OpenProgram(kind, digest string) (io.ReadCloser, int64, error)
	KeepProgram(kind, digest string, content io.Reader) error
}

// Deps are what a Service uses of others.
type Deps struct {
	Snapshots Snapshots
	Images    *image.Store
	Programs  Programs // nil: the driver has none
	Log       *slog.Logger
}

// Options of a Service. What is zero takes its default.
type Options struct {
	Dir      string // absolute: what is being packed, and what is known of packed layers
	Parallel int    // transfers at once, default 4
	// What is taken from a registry: bytes of one packed blob (default 64 GiB)
	// and of one file of a memory image (64 GiB).
	BlobBytes, FileBytes int64
	Limits               image.Limits // of one layer
}

// Service pushes and pulls.
type Service struct {
	deps Deps
	opts Options
}

// New makes the directory and removes what an earlier process was packing.
func New(deps Deps, opts Options) (*Service, error) {
	const op = "snapshot.registry"
	if !filepath.IsAbs(opts.Dir) {
		return nil, core.E(op, core.Invalid, nil, "directory %q is not absolute", opts.Dir)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Parallel <= 0 {
		opts.Parallel = 4
	}
	if opts.BlobBytes <= 0 {
		opts.BlobBytes = 64 << 30
	}
	if opts.FileBytes <= 0 {
		opts.FileBytes = 64 << 30
	}
	// Holes of sparse files pack to next to nothing; what they unpack to is
	// bounded all the same.
	if opts.Limits.Ratio <= 0 {
		opts.Limits.Ratio = 1 << 20
	}
	opts.Limits.LeaveDevices = true
	s := &Service{deps: deps, opts: opts}
	err := os.RemoveAll(s.tmp())
	for _, dir := range []string{s.tmp(), s.blobs(), s.pulled()} {
		err = errors.Join(err, os.MkdirAll(dir, 0o700))
	}
	if err != nil {
		return nil, core.E(op, core.Unavailable, err, "directory of packed snapshots")
	}
	return s, nil
}

func (s *Service) tmp() string    { return filepath.Join(s.opts.Dir, "tmp") }
func (s *Service) blobs() string  { return filepath.Join(s.opts.Dir, "blobs") }
func (s *Service) pulled() string { return filepath.Join(s.opts.Dir, "pulled") }

// States of a part of a transfer.
const (
	StatePacking  = "packing"
	StateSending  = "sending"
	StateFetching = "fetching"
	StatePresent  = "present" // it was there already
	StateMounted  = "mounted" // taken over from another repository there
	StateDone     = "done"
	StateWarning  = "warning" // What says of what
)

// Progress tells how far one part of a transfer is.
type Progress struct {
	What   string // "layer 2 of 5", "memory image pages.img"
	State  string
	Digest string
	Done   int64
	Total  int64 // 0 while it is not known
}

// reporter lets several goroutines report, one at a time.
type reporter struct {
	mu  sync.Mutex
	say func(Progress)
}

func (r *reporter) report(p Progress) {
	if r.say == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.say(p)
}

// about puts an error into words that name the reference.
func about(ref string, err error) error {
	if err == nil || strings.Contains(err.Error(), ref) {
		return err
	}
	e := core.E("snapshot.registry", core.KindOf(err), err, "snapshot in %s", ref)
	if hint := core.HintOf(err); hint != "" {
		return e.WithHint("%s", hint)
	}
	return e
}
