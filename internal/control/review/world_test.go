package review_test

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drydock/internal/control/event"
	"drydock/internal/control/review"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/delivery/forge"
	"drydock/internal/delivery/forge/forgetest"
	"drydock/internal/delivery/forge/local"
	"drydock/internal/gitcmd"
	"drydock/internal/proof/exam"
	"drydock/internal/store"
)

var (
	ana = core.Author{Handle: "ana", Name: "Ana", Email: "ana@example.com"}
	bo  = core.Author{Handle: "bo", Name: "Bo", Email: "bo@example.com"}
	cy  = core.Author{Handle: "cy", Name: "Cy", Email: "cy@example.com"}
)

// proofs has evidence in memory.
type proofs struct {
	mu      sync.Mutex
	results map[core.EvidenceID]exam.Result
	files   map[string]string
}

func (p *proofs) Result(_ context.Context, id core.EvidenceID) (exam.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.results[id]
	if !ok {
		return r, core.E("test", core.NotFound, nil, "evidence %s does not exist", id)
	}
	return r, nil
}

func (p *proofs) File(_ context.Context, _ core.EvidenceID, digest string) (io.ReadCloser, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, ok := p.files[digest]
	if !ok {
		return nil, 0, core.E("test", core.NotFound, nil, "no artifact %s", digest)
	}
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
}

type idle struct{}

func (idle) Execute(context.Context, session.Job) (session.Ending, error) {
	return session.Ending{}, nil
}

func (idle) Kill(context.Context, core.SessionID) error { return nil }

// crier brings what the forge is told into sessions, as the daemon does.
type crier struct {
	s   *session.Service
	db  *store.DB
	log *event.Log
}

func (c *crier) Prompt(ctx context.Context, id core.SessionID, p core.NewPrompt) (core.PromptID, error) {
	got, err := c.s.Prompt(ctx, id, p)
	return got.ID, err
}

func (c *crier) Record(ctx context.Context, id core.SessionID, key string, e core.Event) error {
	return c.db.Tx(ctx, func(tx *store.Tx) error {
		_, fresh, err := tx.IntendEffect(ctx, store.Effect{ID: "event:" + key, Kind: "event", Subject: string(id), Request: e.Data})
		if err != nil || !fresh {
			return err
		}
		_, err = c.log.AppendTx(ctx, tx, string(id), e)
		return err
	})
}

type world struct {
	*testing.T
	db       *store.DB
	log      *event.Log
	forge    *local.Forge
	changes  *change.Service
	sessions *session.Service
	proofs   *proofs
	svc      *review.Service
	tree     *forgetest.Tree
	session  core.SessionID
	change   core.Change
	base     string
}

// newWorld has a repository "shop" with these files and nothing else.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	git, err := gitcmd.New(gitcmd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, db: db, proofs: &proofs{results: map[core.EvidenceID]exam.Result{}, files: map[string]string{}}, tree: forgetest.NewTree(t)}
	w.log = event.New(db, event.Options{})
	t.Cleanup(func() { w.log.Close(); _ = db.Close() })
	if w.forge, err = local.New(local.Deps{Git: git, Records: db}, local.Options{Dir: filepath.Join(t.TempDir(), "forge")}); err != nil {
		t.Fatal(err)
	}
	if w.sessions, err = session.New(session.Deps{Store: db, Log: w.log, Executor: idle{}}, session.Options{}); err != nil {
		t.Fatal(err)
	}
	w.changes = change.New(change.Deps{Forge: w.forge, Effects: db, Sessions: &crier{w.sessions, db, w.log}}, change.Options{})
	w.svc = review.New(review.Deps{Changes: w.changes, Git: git, Store: db, Events: w.log, Prompts: w.sessions, Proofs: w.proofs}, review.Options{Protected: []string{"deploy/**"}})
	w.base = w.tree.Commit(cy, "start", files)
	if _, _, err := w.forge.EnsureRepository(t.Context(), forge.RepositorySpec{Name: "shop", Source: w.tree.Dir}); err != nil {
		t.Fatal(err)
	}
	w.makeSession()
	w.tree.Git("checkout", "--quiet", "-b", "work")
	return w
}

func (w *world) makeSession() {
	w.Helper()
	env := core.Environment{ID: core.NewEnvironmentID(), Name: "shop", Source: w.tree.Dir, DefaultBranch: "main"}
	if err := w.db.CreateEnvironment(w.Context(), env); err != nil {
		w.Fatal(err)
	}
	w.session = core.NewSessionID()
	s := core.Session{ID: w.session, Environment: env.ID, Title: "fix", State: core.SessionIdle, Owner: ana, Base: "main"}
	if err := w.db.CreateSession(w.Context(), s, ""); err != nil {
		w.Fatal(err)
	}
}

// open pushes HEAD and opens the change.
func (w *world) open() {
	w.Helper()
	head := w.tree.Head()
	w.push("", head)
	c, _, err := w.forge.OpenChange(w.Context(), forge.NewChange{
		Key: "k", Repository: "shop", Title: "Fix", Body: "b", Branch: "fix", Authors: []core.Author{ana}, Session: w.session,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.change = c
}

func (w *world) push(expected, commit string) {
	w.Helper()
	if err := w.forge.Push(w.Context(), forge.Push{Repository: "shop", Branch: "fix", Commit: commit, Expected: expected, From: w.tree.Dir}); err != nil {
		w.Fatal(err)
	}
}

// pushed moves the branch of the change to HEAD, by force if need be.
func (w *world) pushed() string {
	w.Helper()
	head := w.tree.Head()
	w.push(w.change.Head, head)
	c, err := w.forge.UpdateChange(w.Context(), w.change.ID, forge.ChangeUpdate{Head: &head})
	if err != nil {
		w.Fatal(err)
	}
	w.change = c
	return head
}

func (w *world) baseMoves(files map[string]string) {
	w.Helper()
	w.tree.Git("checkout", "--quiet", "main")
	w.tree.Commit(cy, "base moves", files)
	w.tree.Git("checkout", "--quiet", "work")
	if _, err := w.forge.Refresh(w.Context(), "shop"); err != nil {
		w.Fatal(err)
	}
}

func (w *world) files(from, to string) core.ChangeDiff {
	w.Helper()
	d, err := w.svc.Files(w.Context(), w.change.ID, bo, core.DiffRange{From: from, To: to})
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// patches are those of a range by path.
func (w *world) patches(from, to string, context int) map[string]string {
	w.Helper()
	d := w.files(from, to)
	p, err := w.svc.Patches(w.Context(), w.change.ID, bo, core.PatchRequest{DiffRange: core.DiffRange{From: from, To: to}, Context: context, Digest: d.Digest})
	if err != nil {
		w.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range p.Files {
		out[d.Items[f.N-1].Path] = f.Patch
	}
	if len(p.Files) != len(d.Items) || p.Next != "" {
		w.Fatalf("%d patches of %d files, next %q", len(p.Files), len(d.Items), p.Next)
	}
	return out
}

// said lists the events of the session in short.
func (w *world) said() string {
	w.Helper()
	events, err := w.log.Read(w.Context(), string(w.session), 0, 500)
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, e := range events {
		var d struct{ Action string }
		_ = json.Unmarshal(e.Data, &d)
		out = append(out, strings.TrimSpace(string(e.Kind)+" "+d.Action))
	}
	return strings.Join(out, ", ")
}

func (w *world) want(err error, kind core.Kind, words ...string) {
	w.Helper()
	if !core.Is(err, kind) {
		w.Fatalf("got %v, want an error of kind %s", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.Errorf("error %q does not name %q", err, word)
		}
	}
}
