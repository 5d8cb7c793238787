package session

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/store"
)

// Deps of a Service.
type Deps struct {
	Store    *store.DB
	Log      *event.Log
	Executor Executor
	// Drafted hears of a session that is to get the sandbox of a draft, before
	// anybody works on it. It may be nil.
	Drafted  func(id core.SessionID, draft core.DraftID)
	Capacity Capacity     // of the host; nil has room for everything
	Logger   *slog.Logger // default: discards
}

// Options of a Service; zero values are replaced by the defaults.
type Options struct {
	// Instance names this daemon across restarts: its own leases of an earlier
	// life are taken over at once. No two living daemons of one store may have
	// the same. Default: a random one, and then leases must expire first.
	Instance   string
	MaxRunning int // sessions running at once; default 4
	// PerUser and PerEnvironment bound how many of MaxRunning one person and
	// one environment may have; 0 is no bound. A run that was begun goes on
	// whatever they say.
	PerUser, PerEnvironment int

	Lease     time.Duration // how long a silent runner keeps its session; default 30 s
	Heartbeat time.Duration // default a third of Lease
	Poll      time.Duration // how often other daemons' work is looked for; default 2 s

	StopGrace     time.Duration // between asking a run to stop and Executor.Kill; default 20 s
	KillGrace     time.Duration // after it, before the run is stopped without its runner; default 20 s
	BudgetGrace   time.Duration // a run over its time may reach its next model call; default 2 min
	ShutdownGrace time.Duration // how long Run waits for runners at the end; default 30 s

	Blueprint string // defaults of new sessions
	Agent     string
	Model     string
	Budget    core.Budget
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if o.Instance == "" {
		o.Instance = rand.Text()
	}
	if o.MaxRunning <= 0 {
		o.MaxRunning = 4
	}
	def(&o.Lease, 30*time.Second)
	def(&o.Heartbeat, o.Lease/3)
	def(&o.Poll, 2*time.Second)
	def(&o.StopGrace, 20*time.Second)
	def(&o.KillGrace, 20*time.Second)
	def(&o.BudgetGrace, 2*time.Minute)
	def(&o.ShutdownGrace, 30*time.Second)
	if o.Blueprint == "" {
		o.Blueprint = "code-change"
	}
	if o.Agent == "" {
		o.Agent = "builtin"
	}
	return o
}

// Service is the life of all sessions of one store.
type Service struct {
	db       *store.DB
	log      *event.Log
	executor Executor
	drafted  func(core.SessionID, core.DraftID)
	capacity Capacity
	logger   *slog.Logger
	opts     Options

	wakeup chan struct{} // holds at most one: there may be something to claim

	mu   sync.Mutex
	jobs map[core.SessionID]*running
}

// New makes a Service. Nothing runs until Run.
func New(deps Deps, opts Options) (*Service, error) {
	if deps.Store == nil || deps.Log == nil || deps.Executor == nil {
		return nil, core.E("session.new", core.Internal, nil, "a session service needs a store, a log and an executor")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	opts = opts.withDefaults()
	if opts.Heartbeat*2 > opts.Lease {
		return nil, core.E("session.new", core.Invalid, nil, "heartbeat %v is more than half of the lease %v", opts.Heartbeat, opts.Lease)
	}
	return &Service{
		db: deps.Store, log: deps.Log, executor: deps.Executor, drafted: deps.Drafted, capacity: deps.Capacity, logger: deps.Logger, opts: opts,
		wakeup: make(chan struct{}, 1), jobs: map[core.SessionID]*running{},
	}, nil
}

// Get finds a session and says how it stands. The reason of one that waits for
// a runner tells its place.
func (s *Service) Get(ctx context.Context, id core.SessionID) (core.Session, error) {
	session, err := s.db.Session(ctx, id)
	if err != nil {
		return session, err
	}
	return s.ShowOne(ctx, session)
}

// List pages through sessions, newest first; see Get.
func (s *Service) List(ctx context.Context, f core.SessionFilter, p core.Page) ([]core.Session, string, error) {
	list, next, err := s.db.Sessions(ctx, f, p)
	if err != nil {
		return nil, "", err
	}
	return list, next, s.Show(ctx, s.db.Reader, list)
}

// Prompts lists a session's prompts in the order of its queue.
func (s *Service) Prompts(ctx context.Context, id core.SessionID) ([]core.Prompt, error) {
	if _, err := s.db.Session(ctx, id); err != nil {
		return nil, err
	}
	return s.db.Prompts(ctx, id)
}

// Runs lists a session's runs, oldest first.
func (s *Service) Runs(ctx context.Context, id core.SessionID) ([]core.Run, error) {
	if _, err := s.db.Session(ctx, id); err != nil {
		return nil, err
	}
	return s.db.Runs(ctx, id)
}

// Attempts lists those of a run, oldest first.
func (s *Service) Attempts(ctx context.Context, run core.RunID) ([]core.Attempt, error) {
	if _, err := s.db.Run(ctx, run); err != nil {
		return nil, err
	}
	return s.db.Attempts(ctx, run)
}

// wake makes Run look for work now.
func (s *Service) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}
