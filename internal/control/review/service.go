package review

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/proof/exam"
	"drydock/internal/store"
)

// Changes reads changes; *change.Service has it.
type Changes interface {
	Get(ctx context.Context, ref string) (core.Change, error)
	Span(ctx context.Context, id core.ChangeID) (forge.Span, error)
	Rights(ctx context.Context, id core.ChangeID, who core.Author) (forge.Rights, error)
	Commits(ctx context.Context, id core.ChangeID) ([]forge.Commit, error)
	Approvals(ctx context.Context, id core.ChangeID) ([]core.ChangeApproval, error)
}

// Proofs reads evidence.
type Proofs interface {
	// Result of a bundle that is not kept is NotFound.
	Result(ctx context.Context, id core.EvidenceID) (exam.Result, error)
	File(ctx context.Context, id core.EvidenceID, digest string) (io.ReadCloser, int64, error)
}

// Prompts queues a prompt inside a transaction. wake is called after it.
type Prompts interface {
	PromptIn(ctx context.Context, tx *store.Tx, id core.SessionID, req core.NewPrompt) (prompt core.Prompt, wake func(), err error)
}

// Deps of a Service.
type Deps struct {
	Changes Changes
	Git     *gitcmd.Git
	Store   *store.DB
	Events  *event.Log
	Prompts Prompts
	Proofs  Proofs
	// MayMerge says why a change may not be merged beside what its forge says.
	// It may be nil.
	MayMerge func(ctx context.Context, c core.Change) error
	Log      *slog.Logger // default: nothing
}

// Options of a Service.
type Options struct {
	Protected []string // globs of paths that an agent may not touch
	Agent     string   // the name that comments address, default "drydock"
	Now       func() time.Time
}

// Service answers what people ask of changes.
type Service struct {
	d    Deps
	opts Options

	mu    sync.Mutex
	repos map[string]*mirror.Mirror // by directory

	diffs   cache[diffKey, *diff]
	results cache[core.EvidenceID, *exam.Result]
	maps    cache[mapKey, *mapping]
	answers cache[answerKey, *core.ThreadAnswer]
	steps   cache[mapKey, []mirror.Compared] // between commits
	logs    cache[mapKey, []mirror.Commit]
	commits cache[mapKey, bool] // that are there
}

// New makes a service.
func New(d Deps, opts Options) *Service {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Agent == "" {
		opts.Agent = "drydock"
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Service{
		d: d, opts: opts, repos: map[string]*mirror.Mirror{},
		diffs: newCache[diffKey, *diff](32), results: newCache[core.EvidenceID, *exam.Result](4),
		maps: newCache[mapKey, *mapping](500), answers: newCache[answerKey, *core.ThreadAnswer](2000),
		steps: newCache[mapKey, []mirror.Compared](64), logs: newCache[mapKey, []mirror.Commit](64), commits: newCache[mapKey, bool](5000),
	}
}

// repo opens the repository of a span.
func (s *Service) repo(ctx context.Context, dir string) (*mirror.Mirror, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.repos[dir]; m != nil {
		return m, nil
	}
	m, err := mirror.Open(ctx, mirror.Options{Git: s.d.Git, Dir: dir})
	if err != nil {
		return nil, err
	}
	s.repos[dir] = m
	return m, nil
}

// cache keeps the newest of what can be worked out again.
type cache[K comparable, V any] struct {
	mu    *sync.Mutex
	limit int
	have  map[K]V
	order *[]K
}

func newCache[K comparable, V any](limit int) cache[K, V] {
	return cache[K, V]{mu: &sync.Mutex{}, limit: limit, have: map[K]V{}, order: &[]K{}}
}

func (c cache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.have[k]
	return v, ok
}

func (c cache[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.have[k]; !ok {
		*c.order = append(*c.order, k)
	}
	c.have[k] = v
	for len(*c.order) > c.limit {
		delete(c.have, (*c.order)[0])
		*c.order = (*c.order)[1:]
	}
}

// result is what the evidence of a change says, or nil when there is none.
func (s *Service) result(ctx context.Context, id core.EvidenceID) (*exam.Result, error) {
	if id == "" {
		return nil, nil
	}
	if r, ok := s.results.get(id); ok {
		return r, nil
	}
	r, err := s.d.Proofs.Result(ctx, id)
	if core.Is(err, core.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.results.put(id, &r)
	return &r, nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}
