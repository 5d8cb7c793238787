// Package overlay keeps snapshots on this host: the frozen upper directories of
// sandboxes, as layers for overlayfs.
//
// It does not mount anything, does not know what is in a layer, and does not
// decide which snapshots are worth keeping: it is told who uses what, and
// removes the rest when asked.
//
// Invariants: a snapshot whose row says ready is complete and on the disk, and
// so is every layer below it; files of a snapshot never change; what is used
// by anyone is never removed, whatever is interrupted.
//
//	DIR/snp_X/upper        the files, exactly as the driver froze them
//	DIR/snp_X/merged-N     the same and N-1 layers below it in one, see Compact
//	DIR/snp_X/image        memory of the processes at that moment, if it was taken
//	DIR/snp_X/live         the same two, taken later of a sandbox that was started
//	                       from the snapshot
//	DIR/snp_X.json.new     the manifest while the row says writing
//	DIR/snp_X.json         the manifest, once complete
//
// A Store may be used by many goroutines, but only by one process at a time.
//
//	p, err := s.Begin(ctx, draft)
//	frozen, err := driver.Freeze(ctx, id, sandbox.FreezeOptions{Into: p.Into})
//	row, err := s.Commit(ctx, p.ID, frozen)
package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/tree"
)

// Rows are the database rows of snapshots.
type Rows interface {
	CreateSnapshot(ctx context.Context, s core.Snapshot) error
	Snapshot(ctx context.Context, id core.SnapshotID) (core.Snapshot, error)
	SnapshotsInState(ctx context.Context, state core.SnapshotState) ([]core.Snapshot, error)
	UpdateSnapshot(ctx context.Context, id core.SnapshotID, change func(*core.Snapshot) error) (core.Snapshot, error)
}

// Deps are what the store uses of others.
type Deps struct {
	Rows Rows
	// Uses names everything that needs a snapshot now: environments, sessions,
	// sandboxes.
	Uses func(ctx context.Context) ([]snapshot.Use, error)
	// Freezes names where sandboxes that are left put what is frozen of them: a
	// snapshot that is being written there is finished with its sandbox. It may
	// be nil.
	Freezes func(ctx context.Context) ([]string, error)
	Log     *slog.Logger
}

// Options say where snapshots are.
type Options struct {
	Dir string // absolute, on the file system of the driver's sandboxes
	// NoSync leaves out waiting for the disk, for tests.
	NoSync bool
}

// Store implements snapshots on overlayfs.
type Store struct {
	deps Deps
	opts Options

	// mu is held while it is decided what may be removed, and while a snapshot
	// is taken into use.
	mu   sync.Mutex
	pins map[core.SnapshotID]*pinned
	// taking are running states that are being taken, since when.
	taking map[core.SnapshotID]time.Time

	// collecting holds one token: one collection or compaction at a time.
	collecting chan struct{}

	// rewriting is held while the manifest of a ready snapshot is replaced.
	rewriting sync.Mutex
	checked   checked
}

// New makes the directory. Recover should be called before anything else.
func New(deps Deps, opts Options) (*Store, error) {
	if !filepath.IsAbs(opts.Dir) {
		return nil, core.E("snapshot.new", core.Invalid, nil, "directory of snapshots %q is not absolute", opts.Dir)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	opts.Dir = filepath.Clean(opts.Dir)
	// Layers hold set-uid files of foreign systems: nobody else may look in.
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, core.E("snapshot.new", core.Unavailable, err, "directory of snapshots")
	}
	return &Store{
		deps: deps, opts: opts, pins: map[core.SnapshotID]*pinned{}, taking: map[core.SnapshotID]time.Time{},
		collecting: make(chan struct{}, 1), checked: newChecked(),
	}, nil
}

// Pending is a snapshot that has been begun.
type Pending struct {
	ID   core.SnapshotID
	Into string // where the driver puts the files; it must not exist before
}

func (s *Store) into(id core.SnapshotID) string     { return filepath.Join(s.opts.Dir, string(id)) }
func (s *Store) upper(id core.SnapshotID) string    { return filepath.Join(s.into(id), "upper") }
func (s *Store) manifest(id core.SnapshotID) string { return s.into(id) + ".json" }
func (s *Store) draft(id core.SnapshotID) string    { return s.into(id) + ".json.new" }

// FromPath is the snapshot that a freeze into a path belongs to, or "".
func (s *Store) FromPath(into string) core.SnapshotID {
	if filepath.Base(into) == liveDir {
		into = filepath.Dir(into)
	}
	if filepath.Dir(into) != s.opts.Dir {
		return ""
	}
	id, err := core.ParseID[core.SnapshotID]("snp_", filepath.Base(into))
	if err != nil {
		return ""
	}
	return id
}

// Begin records a snapshot that is about to be taken. With the ID of one that
// was begun before it returns that one.
func (s *Store) Begin(ctx context.Context, d snapshot.Draft) (Pending, error) {
	const op = "snapshot.begin"
	if d.ID == "" {
		d.ID = core.NewSnapshotID()
	} else if _, err := core.ParseID[core.SnapshotID]("snp_", string(d.ID)); err != nil {
		return Pending{}, core.E(op, core.Invalid, err, "")
	}
	p := Pending{ID: d.ID, Into: s.into(d.ID)}
	// The layers of the parent stay until the draft, which names them, is there.
	s.mu.Lock()
	defer s.mu.Unlock()
	row, err := s.deps.Rows.Snapshot(ctx, d.ID)
	switch {
	case err == nil && row.State == core.SnapshotRemoved:
		return Pending{}, core.E(op, core.Conflict, nil, "snapshot %s was given up", d.ID)
	case err == nil && exists(s.draft(d.ID)), err == nil && row.State == core.SnapshotReady:
		return p, nil
	case err != nil && !core.Is(err, core.NotFound):
		return Pending{}, err
	}
	m, err := s.plan(ctx, d)
	if err != nil {
		return Pending{}, err
	}
	if core.Is(rowErr(ctx, s.deps.Rows, d.ID), core.NotFound) {
		err := s.deps.Rows.CreateSnapshot(ctx, core.Snapshot{
			ID: d.ID, Parent: d.Parent, Environment: d.Environment, Session: d.Session, Build: d.Build, Commit: d.Commit,
			State: core.SnapshotWriting, Created: m.Created,
		})
		if err != nil {
			return Pending{}, err
		}
	}
	if err := s.write(s.draft(d.ID), m); err != nil {
		return Pending{}, trouble(op, core.Unavailable, err, "manifest of snapshot %s", d.ID)
	}
	return p, nil
}

func rowErr(ctx context.Context, rows Rows, id core.SnapshotID) error {
	_, err := rows.Snapshot(ctx, id)
	return err
}

// plan is the manifest as far as it is known.
func (s *Store) plan(ctx context.Context, d snapshot.Draft) (snapshot.Manifest, error) {
	below := d.Base
	if d.Parent != "" {
		parent, err := s.Get(ctx, d.Parent)
		if err != nil {
			return snapshot.Manifest{}, err
		}
		below = parent.Layers
		if d.Live {
			if parent.Memory == nil || parent.Memory.Live == nil {
				return snapshot.Manifest{}, core.E("snapshot.begin", core.Unavailable, nil, "the running state of snapshot %s is gone", d.Parent)
			}
			below = append([]snapshot.Layer{*parent.Memory.Live}, below...)
		}
	}
	m := snapshot.Manifest{
		Format: snapshot.Format, ID: d.ID, Parent: d.Parent, Environment: d.Environment, Session: d.Session, Build: d.Build,
		Commit: d.Commit, Created: time.Now().UTC(), Runtime: d.Runtime, Image: d.Image, Labels: d.Labels,
		Layers: append([]snapshot.Layer{{Snapshot: d.ID}}, below...),
	}
	return m, m.Check()
}

// Commit makes a begun snapshot ready. It is done when it returns; interrupted
// anywhere, Recover or a second Commit finishes it.
func (s *Store) Commit(ctx context.Context, id core.SnapshotID, frozen sandbox.Frozen) (core.Snapshot, error) {
	const op = "snapshot.commit"
	row, err := s.deps.Rows.Snapshot(ctx, id)
	if err != nil {
		return row, err
	}
	switch row.State {
	case core.SnapshotReady:
		return row, nil
	case core.SnapshotRemoved:
		return row, core.E(op, core.Conflict, nil, "snapshot %s was given up", id)
	}
	if frozen.Upper != s.upper(id) {
		return row, core.E(op, core.Internal, nil, "files of snapshot %s are in %q, not in %q", id, frozen.Upper, s.upper(id))
	}
	return s.complete(ctx, id, frozen.Image)
}

// complete verifies and promotes. The files are in their place, and so is the
// memory image, if there is one.
func (s *Store) complete(ctx context.Context, id core.SnapshotID, image *sandbox.Image) (core.Snapshot, error) {
	const op = "snapshot.commit"
	m, err := s.read(s.draft(id))
	if errors.Is(err, fs.ErrNotExist) {
		m, err = s.read(s.manifest(id)) // interrupted between the last two steps
	}
	if err != nil {
		return core.Snapshot{}, core.E(op, core.Internal, err, "manifest of snapshot %s", id)
	}
	if err := s.seal(&m.Layers[0]); err != nil {
		return core.Snapshot{}, trouble(op, core.Internal, err, "files of snapshot %s", id)
	}
	use := m.Layers[0]
	if image != nil {
		if m.Memory, err = describe(*image); err != nil {
			return core.Snapshot{}, trouble(op, core.Internal, err, "memory image of snapshot %s", id)
		}
	}
	if _, err := s.paths(m.ID, m.Layers); err != nil {
		return core.Snapshot{}, err
	}
	if err := s.sync(); err != nil {
		return core.Snapshot{}, trouble(op, core.Unavailable, err, "files of snapshot %s", id)
	}
	if err := s.write(s.manifest(id), m); err != nil {
		return core.Snapshot{}, trouble(op, core.Unavailable, err, "manifest of snapshot %s", id)
	}
	if err := os.Remove(s.draft(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Snapshot{}, trouble(op, core.Unavailable, err, "manifest of snapshot %s", id)
	}
	return s.deps.Rows.UpdateSnapshot(ctx, id, func(r *core.Snapshot) error {
		r.State, r.Bytes, r.Memory = core.SnapshotReady, use.Bytes, m.Memory != nil
		return nil
	})
}

// sync waits until the files are on the disk. One call for the whole file
// system takes less than one for each of ten thousand files.
func (s *Store) sync() error {
	if s.opts.NoSync {
		return nil
	}
	f, err := os.Open(s.opts.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// Abort gives a begun snapshot up and removes what there is of it.
func (s *Store) Abort(ctx context.Context, id core.SnapshotID) error {
	row, err := s.deps.Rows.Snapshot(ctx, id)
	if err != nil {
		return err
	}
	if row.State == core.SnapshotReady {
		return core.E("snapshot.abort", core.Conflict, nil, "snapshot %s is complete", id)
	}
	return s.drop(ctx, id)
}

// drop marks a snapshot removed, and then removes it.
func (s *Store) drop(ctx context.Context, id core.SnapshotID) error {
	_, err := s.deps.Rows.UpdateSnapshot(ctx, id, func(r *core.Snapshot) error {
		r.State = core.SnapshotRemoved
		return nil
	})
	if err != nil {
		return err
	}
	return s.erase(id)
}

// erase removes the files of a snapshot; the manifest first, so that files
// without one are known to be rubbish.
func (s *Store) erase(id core.SnapshotID) error {
	for _, f := range []string{s.draft(id), s.manifest(id)} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return core.E("snapshot.remove", core.Internal, err, "manifest of snapshot %s", id)
		}
	}
	if err := tree.Remove(s.into(id)); err != nil {
		return core.E("snapshot.remove", core.Internal, err, "files of snapshot %s", id)
	}
	return nil
}

// Get reads the manifest of a ready snapshot.
func (s *Store) Get(ctx context.Context, id core.SnapshotID) (snapshot.Manifest, error) {
	const op = "snapshot.get"
	row, err := s.deps.Rows.Snapshot(ctx, id)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	if row.State != core.SnapshotReady {
		return snapshot.Manifest{}, core.E(op, core.NotFound, nil, "snapshot %s is %s", id, row.State)
	}
	m, err := s.read(s.manifest(id))
	if err != nil {
		return m, core.E(op, core.Internal, &damage{err}, "manifest of snapshot %s", id)
	}
	return m, nil
}

// Layers are the directories of a snapshot, topmost first. Use Acquire to keep
// them from being removed.
func (s *Store) Layers(ctx context.Context, id core.SnapshotID) ([]string, error) {
	m, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.paths(m.ID, m.Layers)
}

// Acquire is Layers with the promise that they stay until release is called.
// By then whoever uses them must be among Deps.Uses.
func (s *Store) Acquire(ctx context.Context, id core.SnapshotID) (layers []string, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	layers, err = s.Layers(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return layers, s.pin(id, layers, false), nil
}

// paths checks that every layer is there and what it was.
func (s *Store) paths(id core.SnapshotID, layers []snapshot.Layer) ([]string, error) {
	out := make([]string, 0, len(layers))
	for i, l := range layers {
		path := s.path(l)
		if err := s.checkLayer(path, l); err != nil {
			return nil, core.E("snapshot.layers", core.Unavailable, &damage{err}, "layer %d of snapshot %s cannot be used", i, id).
				WithHint("build the environment again")
		}
		out = append(out, path)
	}
	return out, nil
}

func (s *Store) path(l snapshot.Layer) string {
	switch {
	case l.Snapshot == "":
		return l.Path
	case l.Live:
		return filepath.Join(s.live(l.Snapshot), "upper")
	case l.Merged > 0:
		return filepath.Join(s.into(l.Snapshot), fmt.Sprintf("merged-%d", l.Merged))
	}
	return s.upper(l.Snapshot)
}

func (s *Store) read(path string) (snapshot.Manifest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	m, err := snapshot.Parse(data)
	if err == nil && s.manifest(m.ID) != path && s.draft(m.ID) != path {
		err = core.E("snapshot.read", core.Internal, nil, "%s is the manifest of snapshot %s", path, m.ID)
	}
	return m, err
}

// write replaces a manifest; it is on the disk afterwards.
func (s *Store) write(path string, m snapshot.Manifest) error {
	data, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.opts.Dir, ".manifest-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err == nil && !s.opts.NoSync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if s.opts.NoSync {
		return nil
	}
	dir, err := os.Open(s.opts.Dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func contains(layers []snapshot.Layer, id core.SnapshotID) bool {
	return slices.ContainsFunc(layers, func(l snapshot.Layer) bool { return l.Snapshot == id })
}
