package daemon

import (
	"context"
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

	mu   sync.Mutex
	open map[core.EnvironmentID]*mirror.Mirror
}

func newRepositories(f forge.Forge, git *gitcmd.Git, dir string) *repositories {
	return &repositories{forge: f, git: git, dir: dir, open: map[core.EnvironmentID]*mirror.Mirror{}}
}

// Import implements environment.Repositories.
func (r *repositories) Import(ctx context.Context, name, source string) (string, error) {
	repo, _, err := r.forge.EnsureRepository(ctx, forge.RepositorySpec{Name: name, Source: source})
	return repo.Location, err
}

// Mirror implements environment.Repositories.
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
