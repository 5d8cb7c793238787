package daemon

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/snapshot/registry"
	"drydock/internal/gitcmd"
	"drydock/internal/surface/api"
)

func told(progress func(api.Transfer)) func(registry.Progress) {
	return func(p registry.Progress) { progress(api.Transfer(p)) }
}

// Push implements server.Snapshots. The image says which environment it was
// made for, without what only this host should know.
func (s snapshots) Push(ctx context.Context, id core.SnapshotID, req api.PushSnapshot, progress func(api.Transfer)) (api.PushedSnapshot, error) {
	row, err := s.db.Snapshot(ctx, id)
	if err != nil {
		return api.PushedSnapshot{}, err
	}
	var origin *registry.Origin
	if row.Environment != "" {
		env, err := s.db.Environment(ctx, string(row.Environment))
		if err == nil {
			origin = &registry.Origin{Name: env.Name, DefaultBranch: env.DefaultBranch}
			// A path means nothing elsewhere, and a password is nobody's business.
			if src, err := gitcmd.ParseSource(env.Source); err == nil && !src.Local && gitcmd.Redact(src.URL) == src.URL {
				origin.Source = src.URL
			}
		} else if !core.Is(err, core.NotFound) {
			return api.PushedSnapshot{}, err
		}
	}
	out, err := s.registry.Push(ctx, registry.PushRequest{
		Snapshot: id, Reference: req.Reference, Origin: origin, NoMemory: req.NoMemory, Runtime: req.WithRuntime, Insecure: req.Insecure,
	}, told(progress))
	return api.PushedSnapshot(out), err
}

// Pull implements server.Snapshots.
func (s snapshots) Pull(ctx context.Context, req api.PullSnapshot, by core.Author, progress func(api.Transfer)) (api.PulledSnapshot, error) {
	if req.Source != "" && req.Environment == "" {
		return api.PulledSnapshot{}, core.E("snapshot.pull", core.Invalid, nil, "a source is given, but no environment").WithHint("name it with --env")
	}
	pull := registry.PullRequest{Reference: req.Reference, NoMemory: req.NoMemory, Runtime: req.WithRuntime, Insecure: req.Insecure}
	if req.Environment != "" {
		pull.For = func(ctx context.Context, origin *registry.Origin, commit string) (core.EnvironmentID, error) {
			a := environment.Adoption{Name: req.Environment, Source: req.Source, Commit: commit}
			if origin != nil {
				a.Told = origin.Source
			}
			env, err := s.builder.Adopt(ctx, a)
			return env.ID, err
		}
	}
	// Base images are not collected meanwhile: it may stand on one that nothing
	// else does.
	s.ensured.mu.RLock()
	defer s.ensured.mu.RUnlock()
	got, err := s.registry.Pull(ctx, pull, told(progress))
	if err != nil {
		return api.PulledSnapshot{}, err
	}
	out := api.PulledSnapshot{Snapshot: got.Snapshot, Reference: got.Reference, Digest: got.Digest, Present: got.Present, Fetched: got.Fetched}
	if req.Environment != "" {
		env, err := s.builder.Use(ctx, got.Snapshot.Environment, got.Snapshot.ID)
		if err != nil {
			return out, err
		}
		out.Environment = &env
	}
	return out, nil
}
