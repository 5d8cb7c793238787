package overlay

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/tree"
)

// OwnLayers is how many layers of snapshots a chain may have before it is made
// shorter. Every lookup of a name that is not there asks each of them.
const OwnLayers = 8

// mergingPrefix marks a layer that is being made.
const mergingPrefix = ".merging-"

// Compacted says what a compaction did.
type Compacted struct {
	Merged    int // layers that became fewer
	Into      int
	Snapshots int // manifests that name the new ones
}

// run is a part of a chain: adjacent layers that nobody uses one without the
// others.
type run struct {
	layers []snapshot.Layer // topmost first
	below  []snapshot.Layer
}

// Compact makes chains of more than most layers of snapshots shorter (0:
// OwnLayers): adjacent layers that no other chain uses apart become one
// directory of hard links, which is seen to show the same before the first
// manifest names it. Nothing that runs notices: old layers go with a later
// collection, when nobody stands on them.
//
// A memory image may stay above a chain that was compacted: gVisor finds files
// by path and takes new inode numbers as they are (pkg/sentry/fsimpl/gofer:
// inoKey is not kept), and these are the very same files.
func (s *Store) Compact(ctx context.Context, grace time.Duration, most int) (Compacted, error) {
	const op = "snapshot.compact"
	if most <= 0 {
		most = OwnLayers
	}
	var out Compacted
	select {
	case s.collecting <- struct{}{}:
		defer func() { <-s.collecting }()
	case <-ctx.Done():
		return out, core.E(op, core.KindOf(ctx.Err()), ctx.Err(), "a collection is at work")
	}
	s.mu.Lock()
	v, err := s.look(ctx)
	if err != nil {
		s.mu.Unlock()
		return out, err
	}
	runs := v.runs(grace, most)
	s.mu.Unlock()
	for _, r := range runs {
		if err := ctx.Err(); err != nil {
			return out, core.E(op, core.KindOf(err), err, "")
		}
		n, err := s.compactRun(ctx, v, r)
		if err != nil {
			return out, trouble(op, core.KindOf(err), err, "the %d layers from snapshot %s on cannot be merged", len(r.layers), r.layers[0].Snapshot)
		}
		if n > 0 {
			out.Merged += len(r.layers)
			out.Into++
			out.Snapshots += n
		}
	}
	return out, nil
}

// runs finds what can be merged in chains that are too long.
func (v *view) runs(grace time.Duration, most int) []run {
	// Snapshots that are there for others alone count with those.
	var chains [][]snapshot.Layer
	var long [][]snapshot.Layer
	for id := range v.needs(grace, nil).whole {
		m, ok := v.manifests[id]
		if !ok {
			continue
		}
		chains = append(chains, m.Layers)
		if m.Memory != nil && m.Memory.Live != nil {
			chains = append(chains, withLive(m))
		}
		if own(m.Layers) > most {
			long = append(long, m.Layers)
		}
	}
	// Two layers belong together when they follow each other in every chain
	// that has either.
	type pair struct{ upper, lower string }
	has, follows := map[string]int{}, map[pair]int{}
	for _, c := range chains {
		for i, l := range c {
			has[v.s.path(l)]++
			if i > 0 {
				follows[pair{v.s.path(c[i-1]), v.s.path(l)}]++
			}
		}
	}
	together := func(a, b snapshot.Layer) bool {
		n := follows[pair{v.s.path(a), v.s.path(b)}]
		return a.Snapshot != "" && b.Snapshot != "" && n == has[v.s.path(a)] && n == has[v.s.path(b)]
	}
	var out []run
	seen := map[string]bool{}
	for _, c := range long {
		for i := 0; i < len(c); {
			j := i + 1
			for j < len(c) && together(c[j-1], c[j]) {
				j++
			}
			// A running state cannot be the top: it goes with its image.
			from := i
			if c[from].Live {
				from++
			}
			if top := v.s.path(c[from%len(c)]); j-from > 1 && j < len(c) && !seen[top] {
				seen[top] = true
				out = append(out, run{layers: c[from:j], below: c[j:]})
			}
			i = j
		}
	}
	return out
}

// own counts the layers of snapshots.
func own(layers []snapshot.Layer) (n int) {
	for _, l := range layers {
		if l.Snapshot != "" {
			n++
		}
	}
	return n
}

// compactRun makes the merged layer, unless it is there, and lets manifests name
// it. It says how many do.
func (s *Store) compactRun(ctx context.Context, v *view, r run) (int, error) {
	merged := snapshot.Layer{Snapshot: r.layers[0].Snapshot}
	for _, l := range r.layers {
		merged.Merged += max(l.Merged, 1)
	}
	known := false
	for _, m := range v.manifests { // an earlier one that was cut off
		for _, l := range m.Layers {
			if s.path(l) == s.path(merged) {
				merged, known = l, true
			}
		}
	}
	if !known {
		if err := s.makeMerged(ctx, r, &merged); err != nil {
			return 0, err
		}
	}
	return s.promote(ctx, r, merged)
}

func (s *Store) makeMerged(ctx context.Context, r run, merged *snapshot.Layer) error {
	var dirs []string
	for _, l := range slices.Concat(r.layers, r.below) {
		if err := s.checkLayer(s.path(l), l); err != nil {
			return err
		}
		dirs = append(dirs, s.path(l))
	}
	aside := filepath.Join(s.into(merged.Snapshot), mergingPrefix+rand.Text())
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	err := merge(ctx, dirs, len(r.layers), aside)
	if err == nil {
		err = same(ctx, dirs, len(r.layers), aside)
	}
	if err == nil {
		err = s.sealAt(aside, merged)
	}
	if err == nil {
		err = s.sync()
	}
	if err == nil {
		// What lies there is of a compaction that died before it was named.
		err = tree.Remove(s.path(*merged))
	}
	if err == nil {
		err = os.Rename(aside, s.path(*merged))
	}
	if err != nil {
		_ = tree.Remove(aside)
	}
	return err
}

// promote lets every manifest that has the run name the merged layer instead.
// Each is right by itself, before and after; it does not matter how far it gets.
func (s *Store) promote(ctx context.Context, r run, merged snapshot.Layer) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotReady)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, row := range ready {
		done, err := s.rewrite(row.ID, r.layers, merged)
		if err != nil {
			return n, err
		}
		if done {
			n++
		}
	}
	return n, nil
}

// rewrite replaces layers in the manifest of a snapshot, where it has them.
func (s *Store) rewrite(id core.SnapshotID, layers []snapshot.Layer, merged snapshot.Layer) (bool, error) {
	s.rewriting.Lock()
	defer s.rewriting.Unlock()
	m, err := s.read(s.manifest(id))
	if err != nil {
		return false, core.E("snapshot.compact", core.Internal, err, "manifest of snapshot %s", id)
	}
	at := slices.IndexFunc(m.Layers, func(l snapshot.Layer) bool { return l == layers[0] })
	if at < 0 || len(m.Layers)-at < len(layers) || !slices.Equal(m.Layers[at:at+len(layers)], layers) {
		return false, nil
	}
	m.Layers = slices.Concat(m.Layers[:at], []snapshot.Layer{merged}, m.Layers[at+len(layers):])
	if err := m.Check(); err != nil {
		return false, err
	}
	if err := s.write(s.manifest(id), m); err != nil {
		return false, trouble("snapshot.compact", core.Unavailable, err, "manifest of snapshot %s", id)
	}
	return true, nil
}
