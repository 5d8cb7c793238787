package environment

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/gitcmd/mirror"
)

// Moved says what has to be run after a tree has moved from one commit to
// another.
type Moved struct {
	Steps []recipe.Sync
	Why   string // for people, also when nothing has to be run
}

// AfterMove finds it. sameRecipe says that what was set up is known to be what
// rec sets up; otherwise a change of the recipe's file is one of setup.
func AfterMove(rec recipe.Recipe, changed []mirror.ChangedFile, sameRecipe bool) Moved {
	var files []string
	for _, f := range changed {
		files = append(files, f.Path)
		if f.OldPath != "" && f.OldPath != f.Path {
			files = append(files, f.OldPath)
		}
	}
	var m Moved
	if !sameRecipe {
		if i := slices.IndexFunc(files, func(f string) bool { return slices.Contains(recipe.Files(), f) }); i >= 0 {
			m.Steps, m.Why = setupSteps(rec), files[i]+" changed"
		}
	}
	switch {
	case len(rec.OnSync) > 0:
		var run []string
		for _, s := range rec.OnSync {
			if s.Wanted(files) {
				m.Steps = append(m.Steps, s)
				run = append(run, s.Name)
			}
		}
		switch {
		case len(run) > 0 && m.Why != "":
			m.Why += "; " + strings.Join(run, ", ")
		case len(run) > 0:
			m.Why = strings.Join(run, ", ")
		case m.Why == "":
			m.Why = "nothing of on_sync is for what changed"
		}
	case m.Why != "":
	default:
		why := setupNeeds(rec, files)
		if why == "" {
			m.Why = "no lock file changed"
			break
		}
		m.Steps, m.Why = setupSteps(rec), why
	}
	return m
}

// setupNeeds says why setup has to be run again, or "".
func setupNeeds(rec recipe.Recipe, files []string) string {
	for _, f := range files {
		if IsManifest(f) {
			return f + " changed"
		}
	}
	for _, f := range files {
		for _, s := range rec.Setup {
			if uses(s, f) {
				return f + ", which setup uses, changed"
			}
		}
	}
	return ""
}

var (
	makeRE     = regexp.MustCompile(`(^|[^a-z0-9_./-])g?make([^a-z0-9_./-]|$)`)
	makefileRE = regexp.MustCompile(`^((GNUm|M|m)akefile|.*\.mk)$`)
)

// uses says whether a step seems to read a file: it names it, or runs make.
// Seeing a use where there is none costs time only.
func uses(s recipe.Step, file string) bool {
	text := s.Run + "\n" + strings.Join(s.Argv, "\n")
	base := path.Base(file)
	return strings.Contains(text, base) && len(base) > 3 || makefileRE.MatchString(base) && makeRE.MatchString(text)
}

func setupSteps(rec recipe.Recipe) []recipe.Sync {
	var out []recipe.Sync
	for _, s := range rec.Setup {
		out = append(out, recipe.Sync{Step: s})
	}
	return out
}

// Sync runs the commands that follow a moved tree, one after the other. It may
// have started services; StartServices starts the others.
func (m *Machine) Sync(ctx context.Context, steps []recipe.Sync) error {
	return m.sync(ctx, steps, m.runStep)
}

// sync is Sync with another way to run a step.
func (m *Machine) sync(ctx context.Context, steps []recipe.Sync, run func(context.Context, recipe.Step) error) error {
	for _, s := range steps {
		if err := m.startOnly(ctx, s.After); err != nil {
			return err
		}
		if err := run(ctx, s.Step); err != nil {
			return err
		}
	}
	return nil
}

// runStep runs one command of the recipe.
func (m *Machine) runStep(ctx context.Context, s recipe.Step) error {
	cmd := m.stepCommand(s, setupTimeout)
	res, err := m.guest.Run(ctx, cmd)
	if err != nil {
		return m.Explain(ctx, err)
	}
	if res.ExitCode != 0 {
		out := strings.ToValidUTF8(string(res.Stdout), "?")
		return core.E("environment.sync", core.Conflict, nil, "%s of the recipe ended with %d: %s", s.Name, res.ExitCode, out[max(0, len(out)-2000):]).
			WithHint("the commit changes dependencies; setup, or what on_sync says, must work for it too")
	}
	return nil
}

const setupTimeout = 30 * time.Minute

// stepCommand is a step as the guest runs it.
func (m *Machine) stepCommand(s recipe.Step, timeout time.Duration) guest.Command {
	cmd := guest.Command{Argv: s.Argv, Dir: m.recipe.Path(s.Dir), User: m.User(), Timeout: s.Timeout, Merge: true}
	if s.Run != "" {
		cmd.Argv = []string{"sh", "-e", "-c", s.Run}
	}
	if cmd.Timeout <= 0 {
		cmd.Timeout = timeout
	}
	return cmd
}

// startOnly starts services, and those that they come after, and waits until
// they are ready. What runs already goes on.
func (m *Machine) startOnly(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	running, err := m.guest.Services(ctx)
	if err != nil {
		return m.Explain(ctx, err)
	}
	want := slices.Clone(names)
	for _, s := range running {
		want = append(want, s.Name)
	}
	part := m.recipe
	part.Services = nil
	for _, s := range slices.Backward(m.recipe.StartOrder()) {
		if slices.Contains(want, s.Name) {
			part.Services = append(part.Services, s)
			want = append(want, s.After...)
		}
	}
	states, err := m.guest.StartServices(ctx, part.GuestServices())
	if err == nil || ctx.Err() != nil {
		return err
	}
	err = m.Explain(ctx, err)
	if _, dead := errors.AsType[*DeadError](err); dead {
		return err
	}
	for _, s := range states {
		if s.State == "failed" {
			return &ServiceError{Service: s.Name, Detail: s.Detail, Output: m.serviceOutput(ctx, s), Err: err}
		}
	}
	return fmt.Errorf("services %s: %w", strings.Join(names, ", "), err)
}
