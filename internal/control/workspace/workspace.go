package workspace

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"drydock/internal/control/codechange"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/proof/check"
)

// Workspace is the open sandbox of a session.
type Workspace struct {
	m       *Manager
	session core.Session
	machine *environment.Machine
	repo    *mirror.Mirror
	recipe  recipe.Recipe
	place   string // commit that the sandbox's repository stands on

	catching *catching // nil: it has caught up
}

// Recipe implements codechange.Workspace.
func (w *Workspace) Recipe() recipe.Recipe { return w.recipe }

// Machine is the sandbox itself.
func (w *Workspace) Machine() *environment.Machine { return w.machine }

// Place is the commit that the sandbox's repository stands on.
func (w *Workspace) Place() string { return w.place }

func wipRef(id core.SessionID) string { return "refs/drydock/sessions/" + string(id) + "/wip" }

// Harvest implements codechange.Workspace.
func (w *Workspace) Harvest(ctx context.Context) (string, error) {
	if err := w.Ready(ctx); err != nil {
		return "", err
	}
	got, err := w.machine.Harvest(ctx, w.place)
	if err != nil {
		return "", err
	}
	ref := wipRef(w.session.ID)
	if got.Bundle == nil {
		at, err := w.repo.ReadRef(ctx, ref)
		if err != nil || at == got.Commit {
			return got.Commit, err
		}
		return got.Commit, w.repo.UpdateRef(ctx, ref, got.Commit, at)
	}
	commit, err := w.repo.FetchBundle(ctx, got.Bundle, environment.WipRef, ref)
	if closeErr := got.Bundle.Close(); err == nil {
		err = closeErr
	}
	return commit, err
}

// Run implements codechange.Workspace.
func (w *Workspace) Run(ctx context.Context, cmd codechange.Command) (codechange.CommandResult, error) {
	return w.run(ctx, cmd.Key, cmd.Shell, w.recipe.Workspace, cmd.Env, 30*time.Minute)
}

const outputLimit = 512 << 10

func (w *Workspace) run(ctx context.Context, key, shell, dir string, env []string, timeout time.Duration) (codechange.CommandResult, error) {
	if err := w.Ready(ctx); err != nil {
		return codechange.CommandResult{}, err
	}
	res, err := w.machine.Guest().Run(ctx, guest.Command{
		Key: key, Argv: []string{"/bin/sh", "-c", shell}, Dir: dir, Env: env, User: w.machine.User(),
		Timeout: timeout, Merge: true, Limit: outputLimit,
	})
	if err != nil {
		return codechange.CommandResult{}, w.machine.Explain(ctx, err)
	}
	return codechange.CommandResult{ExitCode: res.ExitCode, TimedOut: res.TimedOut, Output: strings.ToValidUTF8(string(res.Stdout), "?")}, nil
}

// RunCheck implements codechange.Workspace. What the check leaves behind is
// kept out of later harvests; edits it makes to tracked files are not hidden.
func (w *Workspace) RunCheck(ctx context.Context, key string, c recipe.Check, files []string) (codechange.CheckRun, error) {
	shell := c.Run
	if c.Changed != "" {
		if of := matching(c.Files, files); len(of) > 0 {
			shell = codechange.WithFiles(c.Changed, of)
		} else if len(files) > 0 {
			return codechange.CheckRun{Command: c.Changed, Report: check.Report{Format: c.Report.Kind}}, nil // nothing of its kind was edited
		}
	}
	if err := w.Ready(ctx); err != nil {
		return codechange.CheckRun{}, err
	}
	before, err := w.machine.Untracked(ctx)
	if err != nil {
		return codechange.CheckRun{}, err
	}
	dir := w.recipe.Path(c.Dir)
	if err := w.purge(ctx, c.Report); err != nil {
		return codechange.CheckRun{}, err
	}
	env := make([]string, 0, len(c.Env))
	for k, v := range c.Env {
		env = append(env, k+"="+v)
	}
	// The report is on standard output alone where it is the output; only then
	// are the streams kept apart.
	stdout := c.Report.Glob == "" && c.Report.Kind != "exit"
	res, err := w.machine.Guest().Run(ctx, guest.Command{
		Key: key, Argv: []string{"/bin/sh", "-c", shell}, Dir: dir, Env: env, User: w.machine.User(),
		Timeout: c.Timeout, Merge: !stdout, Limit: 8 << 20,
	})
	if err != nil {
		return codechange.CheckRun{}, w.machine.Explain(ctx, err)
	}
	run := codechange.CheckRun{Command: shell, Result: codechange.CommandResult{
		ExitCode: res.ExitCode, TimedOut: res.TimedOut, Output: strings.ToValidUTF8(string(res.Stdout)+string(res.Stderr), "?"),
	}}
	run.Report, err = w.report(ctx, c, res)
	if err != nil {
		return codechange.CheckRun{}, err
	}
	after, err := w.machine.Untracked(ctx)
	if err != nil {
		return codechange.CheckRun{}, err
	}
	return run, w.machine.Ignore(ctx, slices.DeleteFunc(after, func(f string) bool { return slices.Contains(before, f) }))
}

// matching are the files that a check's globs take; no globs take all.
func matching(globs, files []string) []string {
	if len(globs) == 0 {
		return files
	}
	var out []string
	for _, f := range files {
		if slices.ContainsFunc(globs, func(g string) bool { return codechange.GlobMatch(g, f) }) {
			out = append(out, f)
		}
	}
	return out
}

// purge removes reports of earlier runs, so that none is taken for this one's.
func (w *Workspace) purge(ctx context.Context, r recipe.Report) error {
	if r.Glob == "" {
		return nil
	}
	found, err := w.machine.Glob(ctx, w.recipe.Workspace, r.Glob)
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := w.machine.Guest().Remove(ctx, f.Path, false); err != nil && !core.Is(err, core.NotFound) {
			return w.machine.Explain(ctx, err)
		}
	}
	return nil
}

const (
	maxReport  = 64 << 20
	maxReports = 2000
)

func (w *Workspace) report(ctx context.Context, c recipe.Check, res guest.Result) (check.Report, error) {
	opts := check.Options{Check: c.Name, Root: w.recipe.Workspace}
	if c.Report.Kind == check.FormatExit || c.Report.Kind == "" {
		return check.FromExit(opts, res.ExitCode, res.TimedOut, res.Stdout), nil
	}
	if c.Report.Glob == "" {
		return check.Read(c.Report.Kind, bytes.NewReader(res.Stdout), opts), nil
	}
	found, err := w.machine.Glob(ctx, w.recipe.Workspace, c.Report.Glob)
	if err != nil {
		return check.Report{}, err
	}
	var reports []check.Report
	total := int64(0)
	for i, f := range found {
		if total += f.Size; i >= maxReports || total > maxReport {
			break
		}
		data, _, err := w.machine.Guest().ReadFile(ctx, f.Path, 0, f.Size)
		if err != nil {
			return check.Report{}, w.machine.Explain(ctx, err)
		}
		reports = append(reports, check.Read(c.Report.Kind, bytes.NewReader(data), opts))
	}
	return check.Merge(reports...), nil
}

// Diff is the work of a session against its base, in git's format: the
// working tree of its sandbox, or what was last brought out.
func (m *Manager) Diff(ctx context.Context, id core.SessionID) (string, error) {
	s, err := m.d.DB.Session(ctx, id)
	if err != nil {
		return "", err
	}
	repo, err := m.Mirror(ctx, s.Environment)
	if err != nil {
		return "", err
	}
	if s.BaseCommit == "" {
		return "", core.E("workspace.diff", core.Unavailable, nil, "session %s has not started yet", id)
	}
	at := ""
	if w, err := m.Living(ctx, id); err == nil {
		at, _ = w.Harvest(ctx)
	}
	if at == "" {
		if at, err = repo.ReadRef(ctx, wipRef(id)); err != nil || at == "" {
			at = s.Head
		}
	}
	if at == "" {
		return "", nil
	}
	patch, err := repo.Diff(ctx, s.BaseCommit, at, mirror.DiffOptions{})
	return string(patch.Text), err
}

// ReadFile reads a file of the session: from its sandbox, or without one from
// its newest commit.
func (m *Manager) ReadFile(ctx context.Context, id core.SessionID, file string, limit int64) ([]byte, error) {
	if w, err := m.Living(ctx, id); err == nil {
		if !path.IsAbs(file) {
			file = path.Join(w.recipe.Workspace, file)
		}
		data, _, err := w.machine.Guest().ReadFile(ctx, file, 0, limit)
		return data, w.machine.Explain(ctx, err)
	}
	repo, commit, err := m.kept(ctx, id)
	if err != nil {
		return nil, err
	}
	data, _, err := repo.ShowFile(ctx, commit, strings.TrimPrefix(path.Clean(strings.TrimPrefix(file, recipe.DefaultWorkspace)), "/"), limit)
	return data, err
}

// kept is the newest commit of a session in the mirror.
func (m *Manager) kept(ctx context.Context, id core.SessionID) (*mirror.Mirror, string, error) {
	s, err := m.d.DB.Session(ctx, id)
	if err != nil {
		return nil, "", err
	}
	repo, err := m.Mirror(ctx, s.Environment)
	if err != nil {
		return nil, "", err
	}
	commit, err := repo.ReadRef(ctx, wipRef(id))
	if err != nil || commit == "" {
		commit = s.Head
	}
	if commit == "" {
		commit = s.BaseCommit
	}
	if commit == "" {
		return nil, "", core.E("workspace.files", core.Unavailable, nil, "session %s has not started yet", id)
	}
	return repo, commit, nil
}

// moved says what has to be run where the tree goes from one commit to another.
func (w *Workspace) moved(ctx context.Context, from, to string) (environment.Moved, error) {
	files, err := w.repo.ChangedFiles(ctx, from, to) // without a commit, from nothing
	if err != nil {
		return environment.Moved{}, fmt.Errorf("compare %s with %s: %w", from, to, err)
	}
	return environment.AfterMove(w.recipe, files, false), nil
}

// ListFiles lists a directory of the session's sandbox.
func (m *Manager) ListFiles(ctx context.Context, id core.SessionID, dir string) ([]guest.FileInfo, error) {
	w, err := m.Living(ctx, id)
	if err != nil {
		return nil, err
	}
	if !path.IsAbs(dir) {
		dir = path.Join(w.recipe.Workspace, dir)
	}
	list, err := w.machine.Guest().List(ctx, dir)
	return list, w.machine.Explain(ctx, err)
}
