package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
)

// repositories joins the forge and the mirrors: a source is taken into the
// forge, and the mirror follows the forge, where changes are merged.
type repositories struct {
	forge forge.Forge
	git   *gitcmd.Git
	dir   string
	log   *slog.Logger

	mu   sync.Mutex
	open map[core.EnvironmentID]*mirror.Mirror
}

func newRepositories(f forge.Forge, git *gitcmd.Git, dir string, log *slog.Logger) *repositories {
	return &repositories{forge: f, git: git, dir: dir, log: log, open: map[core.EnvironmentID]*mirror.Mirror{}}
}

// Refresh takes the source of an environment into the forge: branches move
// forward only, what has diverged is told and left alone.
func (r *repositories) Refresh(ctx context.Context, env core.Environment) error {
	_, got, err := r.forge.EnsureRepository(ctx, forge.RepositorySpec{Name: env.Name, Environment: env.ID, Source: env.Source})
	if err != nil {
		return err
	}
	for _, b := range got.Diverged {
		r.log.Warn("a branch went two ways", "environment", env.Name, "branch", b.Branch, "here", b.Here, "source", b.Source)
	}
	return nil
}

// Mirror opens the mirror of an environment. It follows the forge.
func (r *repositories) Mirror(ctx context.Context, env core.Environment) (*mirror.Mirror, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.open[env.ID]; m != nil {
		return m, nil
	}
	repo, err := r.forge.Repository(ctx, env.Name)
	if err != nil {
		return nil, err
	}
	m, err := mirror.Open(ctx, mirror.Options{Git: r.git, Dir: filepath.Join(r.dir, string(env.ID)+".git"), Source: repo.Location})
	if err != nil {
		return nil, err
	}
	r.open[env.ID] = m
	return m, nil
}
