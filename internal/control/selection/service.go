package selection

import (
	"context"
	"log/slog"
	"time"

	"drydock/internal/control/event"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/store"
)

// Sessions is the life of sessions.
type Sessions interface {
	CreateSelection(ctx context.Context, req core.NewSelection, at session.Start) (core.Selection, error)
	Stop(ctx context.Context, id core.SessionID, by core.Author, reason string) (core.Session, error)
	ArchiveFor(ctx context.Context, id core.SessionID, by core.Author, reason string) (core.Session, error)
}

// Changes are what sessions deliver. Get takes an identifier.
type Changes interface {
	Get(ctx context.Context, ref string) (core.Change, error)
	List(ctx context.Context, filter core.ChangeFilter, page core.Page) ([]core.Change, string, error)
	Comment(ctx context.Context, c forge.NewComment) (core.Comment, error)
	Close(ctx context.Context, id core.ChangeID, by core.Author) (core.Change, error)
}

// Deps of a Service.
type Deps struct {
	Store    *store.DB
	Log      *event.Log
	Sessions Sessions
	Changes  Changes
	// Start fixes the branch ("" is the default one) and the commit that a new
	// selection starts from.
	Start  func(ctx context.Context, env core.Environment, base string) (branch, commit string, err error)
	Seeded func(model string) bool  // whether a model takes a seed; nil: all do
	Known  func(model string) error // refuses a model that nobody provides; may be nil
	Logger *slog.Logger             // default: discards
}

// Options of a Service.
type Options struct {
	Interval time.Duration // between two looks at what is left to do; default 1 s
}

// Service is all selections.
type Service struct {
	d    Deps
	opts Options
	wake chan struct{}
	told map[core.SelectionID]string // the last error of each; of Step alone
}

// New makes a Service; nothing runs before Run.
func New(d Deps, opts Options) *Service {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Seeded == nil {
		d.Seeded = func(string) bool { return true }
	}
	if opts.Interval <= 0 {
		opts.Interval = time.Second
	}
	return &Service{d: d, opts: opts, wake: make(chan struct{}, 1), told: map[core.SelectionID]string{}}
}

// Create makes a selection with its sessions. What it answers is stored.
func (s *Service) Create(ctx context.Context, req core.NewSelection) (core.Selection, error) {
	if err := session.CheckSelection(&req); err != nil {
		return core.Selection{}, err
	}
	earlier, err := session.EarlierSelection(ctx, s.d.Store.Reader, req)
	if err == nil || !core.Is(err, core.NotFound) {
		return earlier, err
	}
	for _, m := range req.Models {
		if s.d.Known == nil {
			break
		}
		if err := s.d.Known(m); err != nil { // before N sessions find out
			return core.Selection{}, err
		}
	}
	env, err := s.d.Store.Environment(ctx, req.Environment)
	if core.Is(err, core.NotFound) {
		return core.Selection{}, core.E("selection.create", core.NotFound, nil, "environment %s does not exist", req.Environment).
			WithHint("see `drydock env list`, or make it with `drydock env build`")
	}
	if err != nil {
		return core.Selection{}, err
	}
	branch, commit, err := s.d.Start(ctx, env, req.Base)
	if err != nil {
		return core.Selection{}, err
	}
	return s.d.Sessions.CreateSelection(ctx, req, session.Start{Base: branch, Commit: commit, Seeded: s.d.Seeded})
}

// Get finds a selection.
func (s *Service) Get(ctx context.Context, id core.SelectionID) (core.Selection, error) {
	return s.d.Store.Selection(ctx, id)
}

// List pages through selections, newest first.
func (s *Service) List(ctx context.Context, f core.SelectionFilter, p core.Page) ([]core.Selection, string, error) {
	return s.d.Store.Selections(ctx, f, p)
}

// Compare is the sessions of a selection in figures, best first.
func (s *Service) Compare(ctx context.Context, id core.SelectionID) (core.Selection, []core.Candidate, error) {
	sel, err := s.d.Store.Selection(ctx, id)
	if err != nil {
		return sel, nil, err
	}
	list, err := s.candidates(ctx, sel)
	if err != nil {
		return sel, nil, err
	}
	out := make([]core.Candidate, 0, len(list))
	for _, m := range list {
		out = append(out, m.Candidate)
	}
	return sel, out, nil
}

// Run does what is left to do, now and then and when woken, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.opts.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.Step(ctx)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-tick.C:
		}
	}
	return nil
}

func (s *Service) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
