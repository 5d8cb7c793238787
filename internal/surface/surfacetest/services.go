package surfacetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

type environments struct{ w *World }

func (w *World) env(nameOrID string) (*core.Environment, error) {
	return find(w.envs, "environment", nameOrID, func(e core.Environment) bool { return e.Name == nameOrID || string(e.ID) == nameOrID })
}

func (s environments) Get(_ context.Context, nameOrID string) (core.Environment, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	e, err := s.w.env(nameOrID)
	if err != nil {
		return core.Environment{}, err
	}
	return s.w.shown(*e), nil
}

// shown is an environment as a server shows it.
func (w *World) shown(e core.Environment) core.Environment {
	f := core.Freshness{State: core.EnvironmentFresh, Refresh: 30 * time.Minute, MaxAge: 7 * 24 * time.Hour, Commit: commitA, Head: commitA}
	for _, b := range w.builds {
		if b.Environment == e.ID {
			f.Failure = b.Failure
		}
	}
	for _, v := range w.snaps {
		if v.ID == e.Snapshot {
			f.Made, f.Checked = v.Created, v.Created
		}
	}
	f.Next, f.NextWhy = w.now.Add(30*time.Minute), "interval"
	switch {
	case f.Failure != nil:
		f.State, f.Failures, f.NextWhy = core.EnvironmentFailing, 1, "retry"
		f.Why = "the last build failed: " + f.Failure.Message
	case w.pinned[e.ID] != "":
		f.State, f.Pinned, f.PinnedBy, f.PinnedAt, f.Next, f.NextWhy = core.EnvironmentPinned, e.Snapshot, w.pinned[e.ID], w.now, time.Time{}, ""
		f.Why = f.PinnedBy + " went back to " + string(e.Snapshot)
	case e.Snapshot == "":
		f.State, f.Why, f.StaleSince = core.EnvironmentStale, "it has no good build yet", e.Created
	}
	e.Freshness = &f
	return e
}

func (s environments) Rollback(_ context.Context, nameOrID string, to core.SnapshotID, by core.Author) (core.Environment, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	e, err := s.w.env(nameOrID)
	if err != nil {
		return core.Environment{}, err
	}
	snap, err := find(s.w.snaps, "snapshot", string(to), func(v core.Snapshot) bool { return v.ID == to })
	if err != nil {
		return core.Environment{}, err
	}
	if snap.Environment != e.ID {
		return core.Environment{}, core.E("rollback", core.Invalid, nil, "snapshot %s is not of environment %s", to, e.Name)
	}
	e.Snapshot = to
	if s.w.pinned == nil {
		s.w.pinned = map[core.EnvironmentID]string{}
	}
	s.w.pinned[e.ID] = by.Handle
	return s.w.shown(*e), nil
}

func (s environments) List(_ context.Context, p core.Page) ([]core.Environment, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	envs, next, err := page(s.w.envs, p)
	for i, e := range envs {
		envs[i] = s.w.shown(e)
	}
	return envs, next, err
}

// Build plays a build; a source that ends in "broken" fails.
func (s environments) Build(_ context.Context, req server.BuildRequest) (core.Build, error) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	name := req.Name
	if name == "" {
		name = req.Source[strings.LastIndexByte(req.Source, '/')+1:]
	}
	env, err := w.env(name)
	if err != nil {
		if req.Source == "" {
			return core.Build{}, err
		}
		w.envs = append(w.envs, core.Environment{ID: core.EnvironmentID(w.id("env_")), Name: name, Source: req.Source, DefaultBranch: "main", Created: w.now, Updated: w.now})
		env = &w.envs[len(w.envs)-1]
	}
	b := core.Build{ID: core.BuildID(w.id("bld_")), Environment: env.ID, Commit: commitA, State: core.BuildRunning, Phases: []core.Phase{}, Created: w.now}
	w.builds = append(w.builds, b)
	id, broken := b.ID, strings.HasSuffix(env.Source, "broken")
	w.agents.Go(func() { w.playBuild(id, broken) })
	return b, nil
}

func (w *World) playBuild(id core.BuildID, broken bool) {
	at := string(id)
	emit := func(d time.Duration, kind core.EventKind, data any) { w.Emit(at, d, core.NewEvent(kind, data)) }
	emit(0, core.EventBuildState, core.BuildData{State: core.BuildRunning})
	emit(800*time.Millisecond, core.EventPhase, core.Phase{Name: "mirror", Duration: 800 * time.Millisecond, Detail: "3f2a91c0de"})
	emit(0, core.EventPhase, core.Phase{Name: "base_image", Cached: true, Detail: "debian:bookworm, 4 packages"})
	emit(0, core.EventPhase, core.Phase{Name: "setup"})
	emit(time.Second, core.EventLog, core.LogData{Phase: "setup", Text: "$ npm ci\nadded 120 packages\n"})
	end := core.BuildData{State: core.BuildDone}
	if broken {
		emit(4*time.Second, core.EventLog, core.LogData{Phase: "setup", Text: "\x1b[31mnpm ERR!\x1b[0m missing script: build\n"})
		end = core.BuildData{State: core.BuildFailed, Failure: &core.Failure{
			Code: "setup_failed", Message: "setup ended with exit code 1", Command: "npm run build",
			Output: "npm ERR! missing script: build\n", Hint: "run it in the repository; the whole log: drydock env show broken --log",
		}}
	} else {
		emit(4*time.Second, core.EventPhase, core.Phase{Name: "setup", Duration: 5 * time.Second})
		emit(time.Second, core.EventService, core.ServiceData{Service: "db", State: "ready"})
		emit(time.Second, core.EventPhase, core.Phase{Name: "services", Duration: 2 * time.Second})
		emit(90*time.Millisecond, core.EventPhase, core.Phase{Name: "snapshot", Duration: 90 * time.Millisecond})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, _ := find(w.builds, "build", at, func(b core.Build) bool { return b.ID == id })
	env, _ := w.env(string(b.Environment))
	if !broken {
		end.Snapshot = core.SnapshotID(w.id("snp_"))
		env.Snapshot = end.Snapshot
		w.snaps = append(w.snaps, core.Snapshot{ID: end.Snapshot, Environment: env.ID, Build: id, State: core.SnapshotReady, Bytes: 3 << 20, Created: w.now})
	}
	b.State, b.Snapshot, b.Failure, b.Finished = end.State, end.Snapshot, end.Failure, w.now
	w.emit(at, 0, core.NewEvent(core.EventBuildState, end))
}

func (s environments) Builds(_ context.Context, id core.EnvironmentID, p core.Page) ([]core.Build, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var all []core.Build
	for _, b := range reversed(s.w.builds) {
		if b.Environment == id {
			all = append(all, b)
		}
	}
	return page(all, p)
}

func (s environments) GetBuild(_ context.Context, id core.BuildID) (core.Build, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	b, err := find(s.w.builds, "build", string(id), func(b core.Build) bool { return b.ID == id })
	if err != nil {
		return core.Build{}, err
	}
	return *b, nil
}

func (s environments) Recipe(context.Context, core.EnvironmentID) (api.Recipe, error) {
	return api.Recipe{File: "drydock.yaml", Commit: commitA, Text: "base: debian:bookworm\n"}, nil
}

func (s environments) Remove(_ context.Context, id core.EnvironmentID, _ core.Author) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for i, e := range s.w.envs {
		if e.ID == id {
			s.w.envs = append(s.w.envs[:i:i], s.w.envs[i+1:]...)
		}
	}
	return nil
}

type snapshots struct{ w *World }

func (s snapshots) Get(_ context.Context, id core.SnapshotID) (api.SnapshotDetail, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	v, err := find(s.w.snaps, "snapshot", string(id), func(v core.Snapshot) bool { return v.ID == id })
	if err != nil {
		return api.SnapshotDetail{}, err
	}
	return api.SnapshotDetail{
		Snapshot: *v, Users: []string{"environment shop"},
		Layers: []api.Layer{{Snapshot: id, Bytes: v.Bytes, Files: 12000}, {Base: "sha256:" + strings.Repeat("ab", 32)}},
		Image:  &api.MemoryImage{Bytes: 25 << 20, Runtime: "sha256:" + strings.Repeat("cd", 32), Services: []string{"db", "web"}, Users: []string{"environment shop"}, Created: v.Created},
	}, nil
}

func (s snapshots) Verify(ctx context.Context, id core.SnapshotID) (api.Verification, error) {
	v, err := s.Get(ctx, id)
	if err != nil {
		return api.Verification{}, err
	}
	return api.Verification{Snapshot: id, Parts: []api.VerifiedPart{
		{Name: "layer 0, " + string(id), Bytes: v.Bytes}, {Name: "memory image, pages.img", Bytes: v.Image.Bytes, Damage: "pages.img has 5 bytes, not 26214400"},
	}}, nil
}

func (s snapshots) List(_ context.Context, p core.Page) ([]core.Snapshot, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return page(reversed(s.w.snaps), p)
}

func (s snapshots) Remove(_ context.Context, id core.SnapshotID, _ core.Author) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, e := range s.w.envs {
		if e.Snapshot == id {
			return core.E("snapshot.remove", core.Conflict, nil, "snapshot %s is the newest good one of environment %s", id, e.Name)
		}
	}
	return nil
}

func (s snapshots) Collect(context.Context, bool) (api.Collected, error) {
	return api.Collected{
		Removed: []core.SnapshotID{"snp_000000000000000099"}, Bytes: 5 << 20,
		Kept: []api.Kept{{ID: "snp_000000000000000001", Bytes: 612 << 20, By: []string{"environment shop"}, Memory: []string{"environment shop"}}},
	}, nil
}

func (s snapshots) Push(ctx context.Context, id core.SnapshotID, req api.PushSnapshot, progress func(api.Transfer)) (api.PushedSnapshot, error) {
	if strings.HasPrefix(req.Reference, "away.example.com/") {
		return api.PushedSnapshot{}, core.E("snapshot.push", core.Unavailable, nil, "snapshot in %s: the registry cannot be reached", req.Reference)
	}
	progress(api.Transfer{What: "layer 1 of 2", State: "present", Digest: "sha256:1", Done: 5 << 20, Total: 5 << 20})
	progress(api.Transfer{What: "layer 2 of 2", State: "sending", Digest: "sha256:2", Done: 1 << 20, Total: 3 << 20})
	progress(api.Transfer{What: "layer 2 of 2", State: "done", Digest: "sha256:2", Done: 3 << 20, Total: 3 << 20})
	return api.PushedSnapshot{Snapshot: id, Reference: req.Reference, Digest: "sha256:abc", Layers: 2, Bytes: 8 << 20, Sent: 3 << 20}, ctx.Err()
}

func (s snapshots) Pull(_ context.Context, req api.PullSnapshot, _ core.Author, progress func(api.Transfer)) (api.PulledSnapshot, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	progress(api.Transfer{What: "layer 1 of 1", State: "fetching", Digest: "sha256:1", Total: 5 << 20})
	progress(api.Transfer{What: "layer 1 of 1", State: "done", Digest: "sha256:1", Done: 5 << 20, Total: 5 << 20})
	out := api.PulledSnapshot{
		Snapshot:  core.Snapshot{ID: core.SnapshotID(s.w.id("snp_")), State: core.SnapshotReady, Bytes: 5 << 20, Created: s.w.now},
		Reference: req.Reference, Digest: "sha256:abc", Fetched: 5 << 20,
	}
	s.w.snaps = append(s.w.snaps, out.Snapshot)
	if req.Environment != "" {
		e, err := s.w.env(req.Environment)
		if err != nil {
			return out, err
		}
		e.Snapshot = out.Snapshot.ID
		shown := s.w.shown(*e)
		out.Environment = &shown
	}
	return out, nil
}

// sandboxes shares List's name with snapshots, so it is a type of its own.
type sandboxes struct{ w *World }

func (s sandboxes) List(context.Context) ([]api.Sandbox, error) {
	return []api.Sandbox{{ID: "sbx_000000000000000001", State: core.SandboxRunning, Session: "ses_000000000000000001", Purpose: "session", Created: s.w.Now()}}, nil
}

func (s sandboxes) Capacity(context.Context) (api.Capacity, error) {
	return api.Capacity{
		State: "full: disk", Reason: "a new session waits for disk: the disk of the state directory has only 3 GiB left (reserve 5 GiB)", Hint: "it goes on by itself",
		Memory: api.Room{Total: 16 << 30, Used: 4 << 30, Sandboxes: 120 << 20, Promised: 392 << 20, Reserve: 1638 << 20, Free: 10 << 30},
		Disk:   api.Room{Total: 100 << 30, Used: 97 << 30, Reserve: 5 << 30}, Processors: 4, Busy: 2, BusyLimit: 64,
		Sandboxes: map[string]int{"session": 2}, Running: 2, RunningLimit: 4, Queued: 1,
		Waiting: []api.WaitingSandbox{{Purpose: "build", Owner: "bld_000000000000000001", For: "disk: only 3 GiB left", Since: s.w.Now().Add(-time.Minute)}},
	}, nil
}

type changes struct{ w *World }

func (s changes) Get(_ context.Context, ref string) (core.Change, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	c, err := s.w.change(ref)
	if err != nil {
		return core.Change{}, err
	}
	return *c, nil
}

func (w *World) change(ref string) (*core.Change, error) {
	return find(w.changes, "change", ref, func(c core.Change) bool {
		e, _ := w.env(string(c.Environment))
		n := fmt.Sprint(c.Number)
		return string(c.ID) == ref || n == ref || e != nil && e.Name+"#"+n == ref
	})
}

func (s changes) List(_ context.Context, f core.ChangeFilter, p core.Page) ([]core.Change, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var all []core.Change
	for _, c := range reversed(s.w.changes) {
		if (f.State == "" || f.State == c.State) && (f.Session == "" || f.Session == c.Session) {
			all = append(all, c)
		}
	}
	return page(all, p)
}

func (s changes) Commits(context.Context, core.ChangeID) ([]api.Commit, error) {
	return []api.Commit{{ID: commitB, Subject: "Apply the discount to the total", Author: "Alice Example", Email: "alice@example.com", Committer: "Drydock", Time: time.Date(2026, 1, 2, 15, 4, 30, 0, time.UTC)}}, nil
}
func (s changes) Diff(context.Context, core.ChangeID) (string, error) { return Patch, nil }

func (s changes) Comments(_ context.Context, id core.ChangeID) ([]core.Comment, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var out []core.Comment
	for _, c := range s.w.comments {
		if c.Change == id {
			out = append(out, c)
		}
	}
	return out, nil
}

func (s changes) ChangeApprovals(_ context.Context, id core.ChangeID) ([]core.ChangeApproval, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var out []core.ChangeApproval
	for _, a := range s.w.approved {
		if a.Change == id {
			out = append(out, a)
		}
	}
	return out, nil
}

func (s changes) Comment(_ context.Context, id core.ChangeID, by core.Author, body, path string, line int) (core.Comment, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	c := core.Comment{ID: core.CommentID(s.w.id("cmt_")), Change: id, Author: by, Body: body, Path: path, Line: line, Created: s.w.now}
	if strings.HasPrefix(body, "@drydock") {
		ch, _ := s.w.change(string(id))
		c.Prompt = s.w.queue(ch.Session, core.NewPrompt{Author: by, Text: body, Source: "comment:" + string(c.ID)}).ID
	}
	s.w.comments = append(s.w.comments, c)
	return c, nil
}

func (s changes) Approve(_ context.Context, id core.ChangeID, by core.Author, head, note string) (core.ChangeApproval, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	c, err := s.w.change(string(id))
	if err != nil {
		return core.ChangeApproval{}, err
	}
	for _, a := range c.Authors {
		if a.Handle == by.Handle {
			return core.ChangeApproval{}, core.E("change.approve", core.Denied, nil, "%s wrote the prompt of change #%d and may not approve it", by.Handle, c.Number).
				WithHint("ask somebody else")
		}
	}
	if head != c.Head {
		return core.ChangeApproval{}, core.E("change.approve", core.Conflict, nil, "change #%d is at %.10s, not at %.10s", c.Number, c.Head, head)
	}
	a := core.ChangeApproval{Change: id, By: by, Head: head, Note: note, Created: s.w.now}
	s.w.approved = append(s.w.approved, a)
	return a, nil
}

func (s changes) Merge(_ context.Context, id core.ChangeID, _ core.Author, _, _ string) (core.Change, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	c, err := s.w.change(string(id))
	if err != nil {
		return core.Change{}, err
	}
	if c.State != core.ChangeOpen {
		return core.Change{}, core.E("change.merge", core.Conflict, nil, "change #%d is %s", c.Number, c.State)
	}
	for _, a := range s.w.approved {
		if a.Change == id && a.Head == c.Head {
			c.State, c.Merge = core.ChangeMerged, "c0ffee0123456789c0ffee0123456789c0ffee01"
			return *c, nil
		}
	}
	return core.Change{}, core.E("change.merge", core.NeedsApproval, nil, "change #%d is not approved", c.Number).WithHint("drydock change approve shop#%d", c.Number)
}

func (s changes) set(id core.ChangeID, state core.ChangeState) (core.Change, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	c, err := s.w.change(string(id))
	if err != nil {
		return core.Change{}, err
	}
	if c.State == core.ChangeMerged {
		return core.Change{}, core.E("change", core.Conflict, nil, "change #%d is merged", c.Number)
	}
	c.State = state
	return *c, nil
}

func (s changes) Close(_ context.Context, id core.ChangeID, _ core.Author, _ string) (core.Change, error) {
	return s.set(id, core.ChangeClosed)
}

func (s changes) Reopen(_ context.Context, id core.ChangeID, _ core.Author) (core.Change, error) {
	return s.set(id, core.ChangeOpen)
}

func (s changes) ListApprovals(_ context.Context, f server.ApprovalFilter, p core.Page) ([]api.Approval, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var all []api.Approval
	for _, a := range s.w.approvals {
		if f.State == "" || f.State == a.State {
			all = append(all, a)
		}
	}
	return page(all, p)
}

func (s changes) AnswerApproval(_ context.Context, id core.ApprovalID, by core.Author, yes bool, note string) (api.Approval, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	a, err := find(s.w.approvals, "approval", string(id), func(a api.Approval) bool { return a.ID == id })
	if err != nil {
		return api.Approval{}, err
	}
	if a.AskedBy == by.Handle {
		return api.Approval{}, core.E("approval", core.Denied, nil, "approval %s comes from your own prompt", id)
	}
	a.State, a.DecidedBy, a.Note = core.ApprovalDenied, by.Handle, note
	if yes {
		a.State = core.ApprovalApproved
	}
	return *a, nil
}

type evidence struct{ w *World }

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s evidence) Manifest(_ context.Context, id core.EvidenceID) (json.RawMessage, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	m, ok := s.w.evidence[id]
	if !ok {
		return nil, "", core.E("evidence", core.NotFound, nil, "evidence %s does not exist", id)
	}
	return m, digestOf(m), nil
}

func (s evidence) Open(_ context.Context, digest string) (io.ReadCloser, int64, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	b, ok := s.w.blobs[digest]
	if !ok {
		return nil, 0, core.E("blob", core.NotFound, nil, "blob %s does not exist", digest)
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

func (s evidence) File(ctx context.Context, _ core.EvidenceID, digest string) (io.ReadCloser, int64, error) {
	return s.Open(ctx, digest)
}

func (s evidence) Bundle(_ context.Context, id core.EvidenceID, w io.Writer) error {
	_, err := fmt.Fprintf(w, "tar of %s", id)
	return err
}

func (s evidence) Rerun(_ context.Context, _ core.EvidenceID, _ core.Author, progress func(core.Event)) (api.Rerun, error) {
	progress(core.NewEvent(core.EventCheck, core.CheckData{Check: "test", Cell: "B", Result: "passed", Passed: 42, Duration: time.Second}))
	return api.Rerun{Result: "same"}, nil
}

func (s evidence) Usage(context.Context, string, time.Time) (api.UsageReport, error) {
	row := api.UsageRow{Key: "shop", Sessions: 2, Usage: core.Usage{Input: 120_000, CacheRead: 900_000, Output: 8_000, Calls: 31}, Cost: core.Cost{Known: 412_000}}
	total := row
	total.Key = ""
	return api.UsageReport{Total: total, Rows: []api.UsageRow{row}, Verdicts: map[string]int64{"proven": 1, "handed_over": 1}, Outcomes: map[string]int64{"done": 1, "handed_over": 1}}, nil
}

func (s evidence) Backup(_ context.Context, w io.Writer) error {
	_, err := w.Write([]byte("backup bytes"))
	return err
}
