package codechange

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/proof/check"
)

// edited returns the files that differ between the base and the working tree.
func (d Deps) edited(ctx context.Context, v *blueprint.Visit, w Workspace) (*mirror.Mirror, string, []mirror.ChangedFile, error) {
	wip, err := w.Harvest(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	v.Data.Set(keyWip, wip)
	m, err := d.Workspaces.Mirror(ctx, v.Job.Session.Environment)
	if err != nil {
		return nil, "", nil, err
	}
	files, err := m.ChangedFiles(ctx, text(v, keyBase), wip)
	return m, wip, files, err
}

// lately returns the files that differ between the base and what was brought
// out last, at the end of the agent's turn or of the fixers. It asks the
// sandbox nothing: it only narrows what is run, and the scope gate looks again.
func (d Deps) lately(ctx context.Context, v *blueprint.Visit, w Workspace) (wip string, files []mirror.ChangedFile, err error) {
	if wip = text(v, keyWip); wip == "" {
		_, wip, files, err = d.edited(ctx, v, w)
		return wip, files, err
	}
	m, err := d.Workspaces.Mirror(ctx, v.Job.Session.Environment)
	if err != nil {
		return "", nil, err
	}
	files, err = m.ChangedFiles(ctx, text(v, keyBase), wip)
	return wip, files, err
}

// existing are the paths a formatter or linter can be called on.
func existing(files []mirror.ChangedFile) []string {
	var out []string
	for _, f := range files {
		if f.Status != mirror.Deleted && f.NewMode != "160000" && f.NewMode != "120000" {
			out = append(out, f.Path)
		}
	}
	return out
}

// WithFiles fills {files} with quoted paths. A command without the
// placeholder is left as it is.
func WithFiles(command string, files []string) string {
	quoted := make([]string, len(files))
	for i, f := range files {
		// "./" keeps a file called "-rf" from being an option.
		quoted[i] = "'" + strings.ReplaceAll("./"+f, "'", `'\''`) + "'"
	}
	return strings.ReplaceAll(command, "{files}", strings.Join(quoted, " "))
}

// maxFilesOnLine keeps a command line under the kernel's limit.
const maxFilesOnLine = 500

// autofix runs the recipe's fixers on what was edited. A fixer that fails is
// no fault: its check will say what is wrong.
func (d Deps) autofix(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	w, err := d.Workspaces.Open(ctx, v.Job)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	if !slices.ContainsFunc(w.Recipe().Checks, func(c recipe.Check) bool { return c.Fix != "" }) {
		return result("ok", "nothing to run")
	}
	before, files, err := d.lately(ctx, v, w)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	paths := existing(files)
	ran := 0
	for _, c := range w.Recipe().Checks {
		if c.Fix == "" || len(paths) == 0 || len(paths) > maxFilesOnLine && strings.Contains(c.Fix, "{files}") {
			continue
		}
		got, err := w.Run(ctx, Command{Key: fmt.Sprintf("%s/fix/%s", v.Attempt, c.Name), Shell: WithFiles(c.Fix, paths)})
		if err != nil {
			return blueprint.Outcome{}, fmt.Errorf("fix of check %s: %w", c.Name, err)
		}
		ran++
		if got.ExitCode != 0 {
			if err := d.emit(ctx, v, core.EventWarning, core.WarningData{
				Code: "autofix_failed", Message: fmt.Sprintf("%s: exit code %d: %s", c.Fix, got.ExitCode, tail(got.Output, 300)),
			}); err != nil {
				return blueprint.Outcome{}, err
			}
		}
	}
	if ran == 0 {
		return result("ok", "nothing to run")
	}
	m, after, _, err := d.edited(ctx, v, w)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	moved, err := m.ChangedFiles(ctx, before, after)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	return result("ok", "%d fixers ran, %d files changed by them", ran, len(moved))
}

// check runs the recipe's checks in the agent's own sandbox, narrowed to what
// was edited where they can be. It finds faults early; it proves nothing.
func (d Deps) check(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	w, err := d.Workspaces.Open(ctx, v.Job)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	_, files, err := d.lately(ctx, v, w)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	if len(files) == 0 {
		return result("green", "nothing was edited")
	}
	paths := existing(files)
	if len(paths) > maxFilesOnLine {
		paths = nil
	}
	var red []string
	ran := 0
	for _, c := range w.Recipe().Checks {
		start := time.Now()
		run, err := w.RunCheck(ctx, fmt.Sprintf("%s/check/%s", v.Attempt, c.Name), c, paths)
		if err != nil {
			return blueprint.Outcome{}, fmt.Errorf("check %s: %w", c.Name, err)
		}
		ran++
		data := core.CheckData{Check: c.Name, Result: "green", Duration: time.Since(start)}
		counts := run.Report.Count()
		data.Passed, data.Failed, data.Skipped = counts.Passed, counts.Failed, counts.Skipped
		if why := redness(run); why != "" {
			data.Result, data.Detail = "red", why
			red = append(red, failureText(c, run))
		}
		if err := d.emit(ctx, v, core.EventCheck, data); err != nil {
			return blueprint.Outcome{}, err
		}
	}
	if len(red) > 0 {
		v.Data.Set(keyRed, strings.Join(red, "\n\n"))
		v.Data.Set(keyBrief, repairBrief(strings.Join(red, "\n\n")))
		return result("red", "%d of %d checks red", len(red), ran)
	}
	v.Data.Set(keyRed, "")
	return result("green", "%d checks green", ran)
}

func redness(run CheckRun) string {
	failed := run.Report.Count().Failed
	switch {
	case run.Result.TimedOut:
		return "timed out"
	case failed > 0:
		return fmt.Sprintf("%d cases failed", failed)
	case run.Result.ExitCode != 0:
		return fmt.Sprintf("exit code %d", run.Result.ExitCode)
	}
	return ""
}

// failureText is what an agent gets to read of a red check: the failing cases
// with their messages, and the end of the output.
func failureText(c recipe.Check, run CheckRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Check %s is red (%s): %s\n", c.Name, redness(run), oneLine(run.Command))
	shown := 0
	for _, k := range run.Report.Cases {
		if k.Status != check.Fail && k.Status != check.Error {
			continue
		}
		if shown++; shown > 20 {
			b.WriteString("... and more\n")
			break
		}
		fmt.Fprintf(&b, "- %s: %s\n", strings.Join(slices.DeleteFunc([]string{k.ID.Suite, k.ID.Class, k.ID.Name}, func(s string) bool { return s == "" }), " > "), tail(k.Message, 1500))
	}
	if shown == 0 || len(run.Result.Output) < 4000 {
		fmt.Fprintf(&b, "Output (end):\n%s\n", tail(run.Result.Output, 6000))
	}
	return b.String()
}

func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < n/2 {
		s = s[i+1:]
	}
	return "[...] " + strings.ToValidUTF8(s, "")
}
