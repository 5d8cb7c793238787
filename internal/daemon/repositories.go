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
	seen map[core.EnvironmentID]string // where the source last was, by Head
}

func newRepositories(f forge.Forge, git *gitcmd.Git, dir string, log *slog.Logger) *repositories {
	return &repositories{forge: f, git: git, dir: dir, log: log, open: map[core.EnvironmentID]*mirror.Mirror{}, seen: map[core.EnvironmentID]string{}}
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

// Head is where the base branch of an environment stands. The source is asked
// for one name, and fetched from only if that has moved.
func (r *repositories) Head(ctx context.Context, env core.Environment) (string, error) {
	if env.DefaultBranch == "" {
		return "", nil // it was never built
	}
	here, err := r.forge.Branch(ctx, env.Name, env.DefaultBranch)
	if err != nil {
		return "", err
	}
	m, err := r.Mirror(ctx, env)
	if err != nil {
		return "", err
	}
	there, err := m.RemoteRef(ctx, env.Source, "refs/heads/"+env.DefaultBranch)
	if err != nil {
		// What is merged here is news also while the source is away.
		r.log.Debug("the source of an environment does not answer", "environment", env.Name, "err", err)
		return here, nil
	}
	r.mu.Lock()
	known := r.seen[env.ID] == there
	r.mu.Unlock()
	if there == "" || there == here || known {
		return here, nil
	}
	if err := r.Refresh(ctx, env); err != nil {
		return "", err
	}
	r.mu.Lock()
	r.seen[env.ID] = there
	r.mu.Unlock()
	return r.forge.Branch(ctx, env.Name, env.DefaultBranch)
}
