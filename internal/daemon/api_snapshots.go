package daemon

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/retention"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/execution/snapshot/registry"
	"drydock/internal/store"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// snapshots gives the interface snapshots.
type snapshots struct {
	s        *overlay.Store
	db       *store.DB
	c        *retention.Collector
	registry *registry.Service
	builder  *environment.Builder
	ensured  *ensured
}

var _ server.Snapshots = snapshots{}

func (s snapshots) Get(ctx context.Context, id core.SnapshotID) (api.SnapshotDetail, error) {
	row, err := s.db.Snapshot(ctx, id)
	out := api.SnapshotDetail{Snapshot: row, Users: []string{}}
	if err != nil || row.State != core.SnapshotReady {
		return out, err
	}
	m, err := s.s.Get(ctx, id)
	if err != nil {
		return out, err
	}
	files, memory, err := s.s.Users(ctx, id)
	if err != nil {
		return out, err
	}
	out.Users = append(out.Users, files...)
	if m.Memory != nil {
		out.Image = &api.MemoryImage{
			Bytes: m.Memory.Bytes, Runtime: m.Memory.Runtime, Services: m.Memory.Services, Users: memory, Created: m.Memory.Created,
		}
		if m.Memory.Live != nil {
			out.Layers = append(out.Layers, layerOf(*m.Memory.Live))
		}
	}
	for _, l := range m.Layers {
		out.Layers = append(out.Layers, layerOf(l))
	}
	return out, nil
}

func layerOf(l snapshot.Layer) api.Layer {
	return api.Layer{Snapshot: l.Snapshot, Base: l.Base, Live: l.Live, Merged: l.Merged, Bytes: l.Bytes, Files: l.Files}
}

func (s snapshots) List(ctx context.Context, page core.Page) ([]core.Snapshot, string, error) {
	return s.db.Snapshots(ctx, store.SnapshotFilter{State: core.SnapshotReady}, page)
}

func (s snapshots) Remove(ctx context.Context, id core.SnapshotID, _ core.Author) error {
	return s.s.Remove(ctx, id)
}

func (s snapshots) Verify(ctx context.Context, id core.SnapshotID) (api.Verification, error) {
	found, err := s.s.Examine(ctx, id)
	out := api.Verification{Snapshot: id, Good: true, Parts: make([]api.VerifiedPart, 0, len(found))}
	for _, f := range found {
		part := api.VerifiedPart{Name: f.Name, Bytes: f.Bytes}
		if f.Err != nil {
			part.Damage, out.Good = f.Err.Error(), false
		}
		out.Parts = append(out.Parts, part)
	}
	return out, err
}

func (s snapshots) Collect(ctx context.Context, dry bool) (api.Collected, error) {
	got, err := s.c.CollectAll(ctx, dry)
	out := api.Collected{Removed: got.Removed, Images: got.Images, Layers: got.Layers, Bytes: got.Freed, Other: got.Steps, DryRun: dry}
	for _, k := range got.Kept {
		out.Kept = append(out.Kept, api.Kept(k))
	}
	return out, err
}
