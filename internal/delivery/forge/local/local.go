package local

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/store"
)

// Records is what the forge keeps beside git; *store.DB has it.
type Records interface {
	RepositoryRecords
	ChangeRecords
	CommentRecords
}

// RepositoryRecords are those of repositories.
type RepositoryRecords interface {
	CreateRepository(ctx context.Context, r store.Repository) error
	Repository(ctx context.Context, name string) (store.Repository, error)
	Repositories(ctx context.Context, p core.Page) ([]store.Repository, string, error)
	UpdateRepository(ctx context.Context, name string, change func(*store.Repository) error) (store.Repository, error)
}

// ChangeRecords are those of changes and their approvals.
type ChangeRecords interface {
	CreateChange(ctx context.Context, effectKey string, ch core.Change) (core.Change, bool, error)
	Change(ctx context.Context, id core.ChangeID) (core.Change, error)
	ChangeByNumber(ctx context.Context, repository string, number int64) (core.Change, error)
	Changes(ctx context.Context, f core.ChangeFilter, p core.Page) ([]core.Change, string, error)
	ChangesOfBranch(ctx context.Context, repository, branch string) ([]core.Change, error)
	UpdateChange(ctx context.Context, id core.ChangeID, change func(*core.Change) error) (core.Change, error)
	AddChangeApproval(ctx context.Context, a core.ChangeApproval) error
	ChangeApprovals(ctx context.Context, change core.ChangeID) ([]core.ChangeApproval, error)
}

// CommentRecords are those of comments.
type CommentRecords interface {
	CreateComment(ctx context.Context, effectKey string, cm core.Comment) (core.Comment, bool, error)
	Comments(ctx context.Context, change core.ChangeID) ([]core.Comment, error)
	UpdateComment(ctx context.Context, id core.CommentID, change func(*core.Comment) error) (core.Comment, error)
}

// Deps of a Forge.
type Deps struct {
	Git     *gitcmd.Git
	Records Records
	Log     *slog.Logger // default: nothing
}

// Options of a Forge.
type Options struct {
	Dir        string // absolute; repositories are NAME.git below it
	URL        string // of the page of Drydock, for links; "" gives changes no link
	Committer  core.Author
	NoApproval bool // merging needs nobody's approval
	Now        func() time.Time
}

// Forge is the built-in forge.
type Forge struct {
	git     *gitcmd.Git
	records Records
	log     *slog.Logger
	opts    Options

	mu    sync.Mutex
	open  map[string]*repo
	apart map[core.ChangeID]string // head and base that were found not to be merged
}

var _ forge.Forge = (*Forge)(nil)

// repo is an open bare repository. mu serialises what this process does to its
// branches; other processes are kept out by compare and swap.
type repo struct {
	*mirror.Mirror
	mu sync.Mutex
}

// New opens the forge; nothing is fetched.
func New(deps Deps, opts Options) (*Forge, error) {
	const op = "forge.new"
	if !filepath.IsAbs(opts.Dir) {
		return nil, core.E(op, core.Invalid, nil, "directory %q of the forge is not absolute", opts.Dir)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Committer.Name == "" {
		opts.Committer = core.Author{Handle: "drydock", Name: "Drydock", Email: "drydock@localhost"}
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, core.E(op, core.Internal, err, "directory %s of the forge", opts.Dir)
	}
	return &Forge{git: deps.Git, records: deps.Records, log: deps.Log, opts: opts, open: map[string]*repo{}, apart: map[core.ChangeID]string{}}, nil
}

// Name of the forge.
func (f *Forge) Name() string { return "local" }

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`)

func checkName(name string) error {
	if len(name) > 100 || !repositoryName.MatchString(name) {
		return core.E("forge.repository", core.Invalid, nil, "%q is not a repository name", clip(name, 100)).
			WithHint("use letters, digits, dash, underscore and single dots")
	}
	return nil
}

func (f *Forge) path(name string) string { return filepath.Join(f.opts.Dir, name+".git") }

// repo opens the repository of a record that exists.
func (f *Forge) repo(ctx context.Context, name string) (*repo, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.open[name]; r != nil {
		return r, nil
	}
	m, err := mirror.Open(ctx, mirror.Options{Git: f.git, Dir: f.path(name)})
	if err != nil {
		return nil, err
	}
	// Who pushes by path is known from the log of the branch.
	if _, err := f.git.Run(ctx, m.Dir(), "config", "core.logAllRefUpdates", "always"); err != nil {
		return nil, err
	}
	r := &repo{Mirror: m}
	f.open[name] = r
	return r, nil
}

// refs of the forge's own, hidden from people.
const (
	heads       = "refs/heads/"
	ownPrefix   = "refs/drydock/"
	sourceHeads = ownPrefix + "source/heads/"
	sourceTags  = ownPrefix + "source/tags/"
	platform    = ownPrefix + "platform/" // where the platform last pushed a branch
	changeRefs  = ownPrefix + "changes/"  // NUMBER/head keeps commits, NUMBER/merge says that it was merged
)

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}

// mailbox makes an author fit for a commit.
func mailbox(a core.Author, when time.Time) mirror.Signature {
	s := mirror.Signature{Name: a.Name, Email: a.Email, When: when}
	if s.Name == "" {
		s.Name = a.Handle
	}
	if s.Email == "" {
		s.Email = a.Handle + "@localhost"
	}
	return s
}
