package environment

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
)

var (
	nameOK  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9-]{0,62}$`)
	nameBad = regexp.MustCompile(`[^a-zA-Z0-9]+`)
)

// environment finds the one that a request means, or makes it. It fills in
// req.Source.
func (b *Builder) environment(ctx context.Context, req *BuildRequest) (core.Environment, error) {
	const op = "environment.build"
	if req.Source == "" && req.Name == "" {
		return core.Environment{}, core.E(op, core.Invalid, nil, "neither a source nor the name of an environment is given")
	}
	if req.Source == "" {
		env, err := b.deps.DB.Environment(ctx, req.Name)
		req.Source = env.Source
		return env, err
	}
	name := req.Name
	if name == "" {
		// The source may be the name of an environment that exists.
		if env, err := b.deps.DB.Environment(ctx, req.Source); err == nil {
			req.Source = env.Source
			return env, nil
		}
		name = DefaultName(req.Source)
	}
	if !nameOK.MatchString(name) {
		return core.Environment{}, core.E(op, core.Invalid, nil, "%q is not a name of an environment: letters, digits and dashes, at most 63", clip(name, 80)).
			WithHint("give it a name with --name")
	}
	source, err := gitcmd.ParseSource(req.Source)
	if err != nil {
		return core.Environment{}, err
	}
	req.Source = source.URL
	env, err := b.deps.DB.Environment(ctx, name)
	if err == nil {
		if env.Source != req.Source && env.Snapshot == "" {
			// It never was of any use: a mistyped source is simply put right.
			return b.deps.DB.UpdateEnvironment(ctx, env.ID, func(e *core.Environment) error {
				e.Source = req.Source
				return nil
			})
		}
		if env.Source != req.Source {
			return env, core.E(op, core.Conflict, nil, "environment %s is of another repository, %s", name, env.Source).
				WithHint("give this one another name with --name")
		}
		return env, nil
	}
	if !core.Is(err, core.NotFound) {
		return env, err
	}
	now := time.Now().UTC()
	env = core.Environment{ID: core.NewEnvironmentID(), Name: name, Source: req.Source, Created: now, Updated: now}
	return env, b.deps.DB.CreateEnvironment(ctx, env)
}

// DefaultName is the last part of a repository's URL or path, as a name of an
// environment; it may be "".
func DefaultName(source string) string {
	source = strings.TrimRight(source, "/")
	if i := strings.IndexAny(source, "?#"); i >= 0 {
		source = source[:i]
	}
	base := path.Base(strings.ReplaceAll(source, ":", "/"))
	base = strings.TrimSuffix(base, ".git")
	base = strings.Trim(nameBad.ReplaceAllString(base, "-"), "-")
	return strings.Trim(clipName(base), "-")
}

func clipName(s string) string {
	if len(s) > 63 {
		return s[:63]
	}
	return s
}

// Get finds an environment by name or identifier.
func (b *Builder) Get(ctx context.Context, nameOrID string) (core.Environment, error) {
	env, err := b.deps.DB.Environment(ctx, nameOrID)
	if err != nil {
		return env, err
	}
	envs, err := b.withFreshness(ctx, env)
	if err != nil {
		return env, err
	}
	return envs[0], nil
}

// List lists environments, newest first.
func (b *Builder) List(ctx context.Context, page core.Page) ([]core.Environment, string, error) {
	envs, next, err := b.deps.DB.Environments(ctx, page)
	if err != nil {
		return nil, "", err
	}
	envs, err = b.withFreshness(ctx, envs...)
	return envs, next, err
}

// Builds lists those of an environment, newest first.
func (b *Builder) Builds(ctx context.Context, id core.EnvironmentID, page core.Page) ([]core.Build, string, error) {
	return b.deps.DB.Builds(ctx, id, page)
}

// GetBuild finds one.
func (b *Builder) GetBuild(ctx context.Context, id core.BuildID) (core.Build, error) {
	return b.deps.DB.Build(ctx, id)
}

// OpenLog opens the whole output of a build, as far as it has come.
func (b *Builder) OpenLog(ctx context.Context, id core.BuildID) (io.ReadCloser, error) {
	if _, err := b.deps.DB.Build(ctx, id); err != nil {
		return nil, err
	}
	f, err := os.Open(b.logFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.E("environment.log", core.NotFound, nil, "build %s has no log", id)
	}
	if err != nil {
		return nil, core.E("environment.log", core.Internal, err, "log of build %s", id)
	}
	return f, nil
}

func (b *Builder) logFile(id core.BuildID) string {
	return filepath.Join(b.opts.Dir, string(id)+".log")
}

// RecipeText is the file an environment was last built from.
type RecipeText struct {
	File   string
	Commit string
	Text   string
}

// Recipe reads the file that the environment's snapshot was built from, or,
// without a snapshot, the one at the head of its default branch.
func (b *Builder) Recipe(ctx context.Context, id core.EnvironmentID) (RecipeText, error) {
	env, err := b.deps.DB.Environment(ctx, string(id))
	if err != nil {
		return RecipeText{}, err
	}
	m, err := b.deps.Mirror(ctx, env)
	if err != nil {
		return RecipeText{}, err
	}
	commit := ""
	if env.Snapshot != "" {
		if manifest, err := b.deps.Snapshots.Get(ctx, env.Snapshot); err == nil {
			commit = manifest.Commit
		}
	}
	if commit == "" {
		if commit, err = m.Resolve(ctx, "HEAD"); err != nil {
			return RecipeText{}, err
		}
	}
	for _, file := range recipe.Files() {
		data, err := readFile(ctx, m, commit, file)
		if core.Is(err, core.NotFound) {
			continue
		}
		return RecipeText{File: file, Commit: commit, Text: string(data)}, err
	}
	return RecipeText{}, core.E("environment.recipe", core.NotFound, nil, "environment %s has no recipe at commit %s", env.Name, commit)
}

const maxRecipe = 1 << 20

func readFile(ctx context.Context, m *mirror.Mirror, commit, file string) ([]byte, error) {
	data, info, err := m.ShowFile(ctx, commit, file, maxRecipe)
	if err != nil {
		return nil, err
	}
	if info.Mode == "120000" {
		return nil, core.E("environment.recipe", core.Invalid, nil, "%s is a symbolic link", file).WithHint("make it a file")
	}
	return data, nil
}

// ReadRecipe reads the recipe of a repository at a commit.
func ReadRecipe(ctx context.Context, m *mirror.Mirror, commit string) (recipe.Recipe, recipe.Source, error) {
	return recipe.Detect(ctx, func(path string) ([]byte, error) { return readFile(ctx, m, commit, path) })
}

// Remove removes an environment with its builds; its snapshots go with the
// next collection. While sessions name it, it is a Conflict. A build of it that
// runs is stopped first.
func (b *Builder) Remove(ctx context.Context, id core.EnvironmentID, _ core.Author) error {
	env, err := b.deps.DB.Environment(ctx, string(id))
	if err != nil {
		return err
	}
	sessions, _, err := b.deps.DB.Sessions(ctx, core.SessionFilter{Environment: env.ID, Archived: true}, core.Page{Limit: 1})
	if err != nil {
		return err
	}
	if len(sessions) > 0 {
		return core.E("environment.remove", core.Conflict, nil, "environment %s is used by session %s", env.Name, sessions[0].ID)
	}
	b.naming.Lock()
	defer b.naming.Unlock()
	open, err := b.deps.DB.OpenBuilds(ctx)
	if err != nil {
		return err
	}
	for _, build := range open {
		if build.Environment == env.ID {
			if err := b.Stop(ctx, build.ID); err != nil {
				return err
			}
		}
	}
	for cursor := ""; ; {
		builds, next, err := b.deps.DB.Builds(ctx, env.ID, core.Page{Limit: core.MaxPage, Cursor: cursor})
		if err != nil {
			return err
		}
		for _, build := range builds {
			_ = os.Remove(b.logFile(build.ID))
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	return b.deps.DB.DeleteEnvironment(ctx, env.ID)
}
