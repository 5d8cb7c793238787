package proving

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drydock/internal/control/codechange"
	"drydock/internal/control/event"
	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/proof/check"
	"drydock/internal/proof/evidence"
	"drydock/internal/proof/exam"
	"drydock/internal/store"
	"drydock/internal/store/blob"
)

// Deps are the parts a Prover speaks to.
type Deps struct {
	DB           *store.DB
	Events       *event.Log
	Workspaces   *workspace.Manager
	Git          *gitcmd.Git
	Cache        exam.Cache
	Photographer exam.Photographer
	Blobs        *blob.Store
	Key          evidence.Key
	Redact       func([]byte) []byte // takes secrets out of logs before they are hashed; may be nil
	Log          *slog.Logger
}

// Options of a Prover.
type Options struct {
	Scratch  string // directory for outputs on the host
	Runtime  string // build of the sandbox runtime, named in the evidence
	Bundles  string // directory of evidence bundles
	BaseURL  string // of the daemon, for links in a change's body; may be empty
	Reruns   int
	Parallel int // rooms at once in one exam
}

// Prover runs exams for sessions.
type Prover struct {
	d    Deps
	opts Options
}

// New returns a Prover.
func New(d Deps, opts Options) (*Prover, error) {
	if err := os.MkdirAll(opts.Scratch, 0o700); err != nil {
		return nil, core.E("proving.new", core.Unavailable, err, "directory %s", opts.Scratch)
	}
	// What rooms of an earlier process left is of no use.
	old, _ := filepath.Glob(filepath.Join(opts.Scratch, "room-*"))
	for _, dir := range old {
		_ = os.RemoveAll(dir)
	}
	return &Prover{d, opts}, nil
}

var _ codechange.Prover = (*Prover)(nil)

// Prove implements codechange.Prover. The evidence is named after the attempt,
// so that the same proof after a restart is the same evidence.
func (p *Prover) Prove(ctx context.Context, req codechange.ProofRequest) (codechange.Proof, error) {
	s, err := p.d.DB.Session(ctx, req.Job.Session.ID)
	if err != nil {
		return codechange.Proof{}, err
	}
	id := core.EvidenceID("evd_" + strings.TrimPrefix(req.Key, "att_"))
	if result, ok := p.kept(ctx, id); ok {
		return p.proof(result, id), nil
	}
	repo, err := p.d.Workspaces.Mirror(ctx, s.Environment)
	if err != nil {
		return codechange.Proof{}, err
	}
	authors, err := p.authors(ctx, s.ID)
	if err != nil {
		return codechange.Proof{}, err
	}
	from, err := p.snapshot(ctx, s)
	if err != nil {
		return codechange.Proof{}, err
	}
	ex, err := p.exam(ctx, s.Environment, from, repo, req.Base, req.Head, authors)
	if err != nil {
		return codechange.Proof{}, err
	}
	rooms, err := p.rooms(ctx, repo, ex, string(req.Job.Run.ID))
	if err != nil {
		return codechange.Proof{}, err
	}
	result, err := p.run(ctx, ex, rooms, repo, p.d.Cache, req.Onward)
	if err != nil {
		return codechange.Proof{}, err
	}
	if err := p.keep(ctx, id, s.ID, req.Job.Run.ID, result); err != nil {
		return codechange.Proof{}, err
	}
	if err := p.ask(ctx, id, s.ID, req.Job.Run.ID, req.Job.Prompt.Author.Handle, result); err != nil {
		return codechange.Proof{}, err
	}
	return p.proof(result, id), nil
}

func (p *Prover) authors(ctx context.Context, id core.SessionID) ([]string, error) {
	prompts, err := p.d.DB.Prompts(ctx, id)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, prompt := range prompts {
		if prompt.Run != "" && !slices.Contains(out, prompt.Author.Handle) {
			out = append(out, prompt.Author.Handle)
		}
	}
	return out, nil
}

// snapshot is what the rooms of a session's proof are made from: the newest of
// its environment, or that of its selection, so that candidates are proven
// alike.
func (p *Prover) snapshot(ctx context.Context, s core.Session) (core.SnapshotID, error) {
	if s.Selection != "" {
		sel, err := p.d.DB.Selection(ctx, s.Selection)
		if err != nil {
			return "", err
		}
		if snap, err := p.d.DB.Snapshot(ctx, sel.Snapshot); err == nil && snap.State == core.SnapshotReady && !sel.State.Decided() {
			return snap.ID, nil
		}
	}
	env, err := p.d.DB.Environment(ctx, string(s.Environment))
	if err != nil {
		return "", err
	}
	if env.Snapshot == "" {
		return "", core.E("proving.exam", core.Unavailable, nil, "environment %s has no good build", env.Name).
			WithHint("build it: drydock env build %s", env.Source)
	}
	return env.Snapshot, nil
}

// exam turns the base's recipe into a request.
func (p *Prover) exam(ctx context.Context, envID core.EnvironmentID, from core.SnapshotID, repo *mirror.Mirror, base, head string, authors []string) (exam.Exam, error) {
	env, err := p.d.DB.Environment(ctx, string(envID))
	if err != nil {
		return exam.Exam{}, err
	}
	snap, err := p.d.DB.Snapshot(ctx, from)
	if err != nil {
		return exam.Exam{}, err
	}
	rec, _, err := environment.ReadRecipe(ctx, repo, base)
	if err != nil {
		return exam.Exam{}, err
	}
	ex := exam.Exam{
		Repository: env.Name, Environment: env.Name, Snapshot: string(snap.ID), SnapshotCommit: snap.Commit, Runtime: p.opts.Runtime,
		Base: base, Head: head, Checks: checks(rec), Setup: setup(rec), Services: len(rec.Services) > 0, PromptAuthors: authors,
	}
	for _, step := range rec.Setup {
		ex.SetupTimeout += step.Timeout
	}
	for _, page := range rec.Pages {
		ex.Pages = append(ex.Pages, exam.Page{
			Name: page.Name, URL: page.URL, Width: page.Width, Height: page.Height, Selector: page.Selector, Wait: page.Wait,
		})
	}
	if theirs, _, err := environment.ReadRecipe(ctx, repo, head); err == nil && theirs.Digest() != rec.Digest() {
		ex.BranchChecks, ex.BranchSetup = checks(theirs), setup(theirs)
	}
	return ex, nil
}

// rooms says where the rooms of an exam come from.
func (p *Prover) rooms(ctx context.Context, repo *mirror.Mirror, ex exam.Exam, owner string) (workspace.Rooms, error) {
	rec, _, err := environment.ReadRecipe(ctx, repo, ex.Base)
	if err != nil {
		return workspace.Rooms{}, err
	}
	snap, err := p.d.DB.Snapshot(ctx, core.SnapshotID(ex.Snapshot))
	if err != nil {
		return workspace.Rooms{}, err
	}
	if snap.State != core.SnapshotReady {
		return workspace.Rooms{}, core.E("proving.rooms", core.NotFound, nil, "snapshot %s is gone", snap.ID)
	}
	return workspace.Rooms{Manager: p.d.Workspaces, Repo: repo, Recipe: rec, Snapshot: snap.ID, Owner: owner, Scratch: p.opts.Scratch}, nil
}

func checks(r recipe.Recipe) []exam.CheckSpec {
	var out []exam.CheckSpec
	for _, c := range r.Checks {
		run := c.Run
		for _, k := range sortedKeys(c.Env) {
			run = "export " + k + "=" + shellQuote(c.Env[k]) + "\n" + run
		}
		spec := exam.CheckSpec{Name: c.Name, Run: run, Dir: c.Dir, Timeout: c.Timeout, Optional: !c.Required}
		if c.Report.Kind != check.FormatExit {
			spec.Report = c.Report.String()
		}
		out = append(out, spec)
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// setup is one shell command that does what the recipe's set-up does.
func setup(r recipe.Recipe) string {
	var parts []string
	for _, s := range r.Setup {
		run := s.Run
		if len(s.Argv) > 0 {
			quoted := make([]string, len(s.Argv))
			for i, a := range s.Argv {
				quoted[i] = shellQuote(a)
			}
			run = strings.Join(quoted, " ")
		}
		parts = append(parts, "( cd "+shellQuote(r.Path(s.Dir))+"\n"+run+"\n)")
	}
	if len(parts) == 0 {
		return ""
	}
	return "set -e\n" + strings.Join(parts, "\n")
}

func (p *Prover) run(ctx context.Context, ex exam.Exam, rooms workspace.Rooms, repo *mirror.Mirror, cache exam.Cache, onward func(core.Event)) (exam.Result, error) {
	tell := func(r exam.RunRecord) {
		if onward == nil || r.Try > 1 {
			return
		}
		c := core.CheckData{
			Check: r.Check, Cell: string(r.Cell), Result: "green", Passed: r.Counts.Passed, Failed: r.Counts.Failed,
			Skipped: r.Counts.Skipped, Duration: r.Duration,
		}
		if c.Failed > 0 || r.ExitCode != 0 {
			c.Result = "red"
		}
		if r.Cached {
			c.Detail = "known from an earlier proof of the same base"
		}
		onward(core.NewEvent(core.EventCheck, c))
	}
	return exam.New(exam.Deps{
		Rooms: rooms, Repo: exam.GitRepo{Git: p.d.Git, Dir: repo.Dir()}, Cache: cache, Artifacts: evidence.Keeper{Blobs: p.d.Blobs, Redact: p.d.Redact},
		Photographer: p.d.Photographer, Log: p.d.Log,
	}, exam.Options{Reruns: p.opts.Reruns, Parallel: p.opts.Parallel, OnRun: tell}).Run(ctx, ex)
}

// proof says what a result means for the run.
func (p *Prover) proof(r exam.Result, id core.EvidenceID) codechange.Proof {
	out := codechange.Proof{
		Verdict: string(r.Verdict), Reasons: r.Reasons, NotShown: r.NotShown, Evidence: id, Markdown: p.markdown(r, id),
		Data: core.VerdictData{Verdict: string(r.Verdict), Reasons: r.Reasons, NotShown: r.NotShown, Evidence: id},
	}
	reports := false
	for _, c := range r.Checks {
		out.Data.Fixed += c.Classes[exam.ClassFixed]
		out.Data.Kept += c.Classes[exam.ClassKept]
		out.Data.Broken += c.Classes[exam.ClassBroken]
	}
	for _, c := range r.Exam.Checks {
		reports = reports || c.Report != ""
	}
	// Without a report of cases there is nothing that a new test could show.
	if r.Verdict == exam.Unproven && r.Code == exam.CodeNoTestFails && reports {
		out.Improvable = strings.Join(r.Reasons, "; ")
	}
	if r.Verdict == exam.Broken {
		out.Failures = failures(r)
	}
	return out
}

// failures tells the agent what it broke.
func failures(r exam.Result) string {
	var b strings.Builder
	for _, reason := range r.Reasons {
		fmt.Fprintf(&b, "%s\n", reason)
	}
	shown := 0
	for _, c := range r.Cases {
		if c.Class != exam.ClassBroken && c.Class != exam.ClassNewFlake {
			continue
		}
		if shown++; shown > 20 {
			b.WriteString("... and more\n")
			break
		}
		message := c.Message
		if len(message) > 1500 {
			message = message[:1500] + " [...]"
		}
		fmt.Fprintf(&b, "\n%s (check %s) is %s:\n%s\n", c.ID, c.ID.Check, c.Class, strings.ToValidUTF8(message, "?"))
	}
	return b.String()
}
