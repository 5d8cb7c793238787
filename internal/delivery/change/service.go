package change

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/store"
)

// Effects is the journal of what is done to the outside world; *store.DB has it.
type Effects interface {
	IntendEffect(ctx context.Context, e store.Effect) (stored store.Effect, fresh bool, err error)
	FinishEffect(ctx context.Context, id string, state store.EffectState, response json.RawMessage) error
	Effect(ctx context.Context, id string) (store.Effect, error)
	OpenEffects(ctx context.Context) ([]store.Effect, error)
}

// Sessions is told what people did.
type Sessions interface {
	// Prompt queues a prompt. NewPrompt.ClientID makes a repetition harmless:
	// it returns the first prompt.
	Prompt(ctx context.Context, session core.SessionID, prompt core.NewPrompt) (core.PromptID, error)
	// Record appends an event to the session's log. A second one with the same
	// key is dropped; event and key enter in one transaction.
	Record(ctx context.Context, session core.SessionID, key string, e core.Event) error
}

// Deps of a Service.
type Deps struct {
	Forge    forge.Forge
	Effects  Effects
	Sessions Sessions
	Log      *slog.Logger // default: nothing
}

// Options of a Service.
type Options struct {
	Agent    string        // the name comments address, default "drydock"
	Interval time.Duration // between two looks at the forge, default 10 s
	Now      func() time.Time
}

// Service is the changes of all sessions.
type Service struct {
	forge    forge.Forge
	effects  Effects
	sessions Sessions
	log      *slog.Logger
	opts     Options
	wake     chan struct{}

	mu    sync.Mutex
	told  map[string]bool // keys of activities that were handed on in this life
	since time.Time
}

// New makes a service; nothing runs before Watch.
func New(deps Deps, opts Options) *Service {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Agent == "" {
		opts.Agent = "drydock"
	}
	if opts.Interval <= 0 {
		opts.Interval = 10 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Service{
		forge: deps.Forge, effects: deps.Effects, sessions: deps.Sessions, log: deps.Log, opts: opts,
		wake: make(chan struct{}, 1), told: map[string]bool{},
	}
}

// List pages through changes, newest first.
func (s *Service) List(ctx context.Context, filter core.ChangeFilter, page core.Page) ([]core.Change, string, error) {
	return s.forge.Changes(ctx, filter, page)
}

// Get finds a change by identifier, by "repository#number", or by a bare number
// where only one repository has a change of that number.
func (s *Service) Get(ctx context.Context, ref string) (core.Change, error) {
	const op = "change.get"
	if strings.HasPrefix(ref, "chg_") {
		id, err := core.ParseID[core.ChangeID]("chg_", ref)
		if err != nil {
			return core.Change{}, err
		}
		return s.forge.Change(ctx, id)
	}
	repository, text, named := strings.Cut(ref, "#")
	if !named {
		repository, text = "", ref
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return core.Change{}, core.E(op, core.Invalid, nil, "%q does not name a change", clip(ref, 100)).
			WithHint("use its identifier, its number, or ENVIRONMENT#NUMBER")
	}
	if repository != "" {
		return s.forge.ChangeByNumber(ctx, repository, number)
	}
	return s.byNumber(ctx, number)
}

func (s *Service) byNumber(ctx context.Context, number int64) (core.Change, error) {
	const op = "change.get"
	var found []core.Change
	for page := (core.Page{Limit: core.MaxPage}); ; {
		repositories, next, err := s.forge.Repositories(ctx, page)
		if err != nil {
			return core.Change{}, err
		}
		for _, r := range repositories {
			c, err := s.forge.ChangeByNumber(ctx, r.Name, number)
			switch {
			case err == nil:
				found = append(found, c)
			case !core.Is(err, core.NotFound):
				return core.Change{}, err
			}
		}
		if page.Cursor = next; next == "" {
			break
		}
	}
	switch len(found) {
	case 0:
		return core.Change{}, core.E(op, core.NotFound, nil, "change %d does not exist", number)
	case 1:
		return found[0], nil
	}
	return core.Change{}, core.E(op, core.Invalid, nil, "change %d exists in %s and in %s", number, found[0].Repository, found[1].Repository).
		WithHint("write %s#%d", found[0].Repository, number)
}

// Commits lists those of a change, oldest first.
func (s *Service) Commits(ctx context.Context, id core.ChangeID) ([]forge.Commit, error) {
	return s.forge.Commits(ctx, id)
}

// Diff is what a change changes.
func (s *Service) Diff(ctx context.Context, id core.ChangeID, opts forge.DiffOptions) (forge.Diff, error) {
	return s.forge.Diff(ctx, id, opts)
}

// Span tells between which commits a change lies.
func (s *Service) Span(ctx context.Context, id core.ChangeID) (forge.Span, error) {
	return s.forge.Span(ctx, id)
}

// Rights says what somebody may do with a change as it stands.
func (s *Service) Rights(ctx context.Context, id core.ChangeID, who core.Author) (forge.Rights, error) {
	return s.forge.Rights(ctx, id, who)
}

// Comments lists those of a change, oldest first.
func (s *Service) Comments(ctx context.Context, id core.ChangeID) ([]core.Comment, error) {
	return s.forge.Comments(ctx, id)
}

// Approvals lists those that count for the head as it is now.
func (s *Service) Approvals(ctx context.Context, id core.ChangeID) ([]core.ChangeApproval, error) {
	return s.forge.Approvals(ctx, id)
}

// Branch is where a branch stands on the forge, "" when it does not exist.
func (s *Service) Branch(ctx context.Context, repository, branch string) (string, error) {
	return s.forge.Branch(ctx, repository, branch)
}

// Repository finds one on the forge: where it is fetched from, its default branch.
func (s *Service) Repository(ctx context.Context, name string) (forge.Repository, error) {
	return s.forge.Repository(ctx, name)
}

// EnsureRepository makes or finds the repository of an environment and brings
// it up to its source.
func (s *Service) EnsureRepository(ctx context.Context, spec forge.RepositorySpec) (forge.Repository, forge.Refreshed, error) {
	return s.forge.EnsureRepository(ctx, spec)
}

// Comment writes a comment and hands it on: to the agent as a prompt if it is
// addressed, otherwise to the session as an event. The comment stands also when
// handing on fails; Watch does it later.
func (s *Service) Comment(ctx context.Context, c forge.NewComment) (core.Comment, error) {
	comment, err := s.forge.Comment(ctx, c)
	if err != nil {
		return core.Comment{}, err
	}
	change, err := s.forge.Change(ctx, c.Change)
	if err == nil {
		err = s.tell(ctx, forge.Activity{Key: "comment:" + string(comment.ID), Kind: forge.Commented, Change: change, By: comment.Author, Comment: &comment})
	}
	if err != nil {
		s.log.Warn("comment is handed on later", "comment", comment.ID, "err", err)
	}
	return comment, nil
}

// Approve records an approval of the head.
func (s *Service) Approve(ctx context.Context, a forge.NewApproval) (core.ChangeApproval, error) {
	approval, err := s.forge.Approve(ctx, a)
	if err != nil {
		return core.ChangeApproval{}, err
	}
	change, err := s.forge.Change(ctx, a.Change)
	if err != nil {
		return approval, err
	}
	return approval, s.record(ctx, change, "approved:"+string(change.ID)+":"+approval.Head+":"+a.By.Handle, "approved", a.By)
}

// Merge brings a change into its base.
func (s *Service) Merge(ctx context.Context, m forge.MergeRequest) (core.Change, error) {
	request := mergeEffect{Change: m.Change, By: m.By, Method: m.Method}
	change, err := once(ctx, s, "change.merge", "merge:"+string(m.Change), "", request, func() (core.Change, error) { return s.forge.Merge(ctx, m) })
	if err != nil {
		return core.Change{}, err
	}
	return change, s.record(ctx, change, mergedKey(change.ID), "merged", m.By)
}

type mergeEffect struct {
	Change core.ChangeID `json:"change"`
	By     core.Author   `json:"by"`
	Method forge.Method  `json:"method"`
}

func mergedKey(id core.ChangeID) string { return "merge:" + string(id) }

// Close closes a change; its branch stays.
func (s *Service) Close(ctx context.Context, id core.ChangeID, by core.Author) (core.Change, error) {
	change, err := s.forge.Close(ctx, id, by)
	if err != nil {
		return core.Change{}, err
	}
	return change, s.record(ctx, change, s.momentKey("closed", change), "closed", by)
}

// Reopen opens a closed change again.
func (s *Service) Reopen(ctx context.Context, id core.ChangeID, by core.Author) (core.Change, error) {
	change, err := s.forge.Reopen(ctx, id, by)
	if err != nil {
		return core.Change{}, err
	}
	return change, s.record(ctx, change, s.momentKey("reopened", change), "reopened", by)
}

// momentKey is for what may happen again and again.
func (s *Service) momentKey(what string, c core.Change) string {
	return what + ":" + string(c.ID) + ":" + strconv.FormatInt(c.Updated.UnixNano(), 36)
}

// record appends an event about a change to its session, if it has one.
func (s *Service) record(ctx context.Context, c core.Change, key, action string, by core.Author) error {
	if c.Session == "" {
		return nil
	}
	e := core.NewEvent(core.EventChange, core.ChangeData{Change: c.ID, Number: c.Number, Action: action, Title: c.Title, Head: c.Head, By: by.Handle})
	e.Actor = by.Handle
	if e.Actor == "" {
		e.Actor = "platform"
	}
	return s.sessions.Record(ctx, c.Session, key, e)
}

// Standing is the newest change of a session.
type Standing struct {
	Change core.Change
	Found  bool
	// Merged says that the next prompt starts a new branch from the base.
	Merged bool
}

// Standing tells where a session's delivery stands.
func (s *Service) Standing(ctx context.Context, session core.SessionID) (Standing, error) {
	list, _, err := s.forge.Changes(ctx, core.ChangeFilter{Session: session}, core.Page{Limit: 1})
	if err != nil || len(list) == 0 {
		return Standing{}, err
	}
	return Standing{Change: list[0], Found: true, Merged: list[0].State == core.ChangeMerged}, nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// Rejudge puts a new judgement of the same head into a change: a person has
// acknowledged findings. facts replaces what stood above the prompt's words.
func (s *Service) Rejudge(ctx context.Context, id core.ChangeID, evidence core.EvidenceID, verdict, facts string) error {
	c, err := s.forge.Change(ctx, id)
	if err != nil {
		return err
	}
	body := c.Body
	if i := strings.Index(body, AskedHeading); i >= 0 {
		body = strings.TrimRight(facts, "\n") + "\n\n" + body[i:]
	}
	body = strings.ReplaceAll(body, "Evidence `"+string(c.Evidence)+"`", "Evidence `"+string(evidence)+"`")
	_, err = s.forge.UpdateChange(ctx, id, forge.ChangeUpdate{Body: &body, Evidence: &evidence, Verdict: &verdict})
	return err
}

// AskedHeading begins the part of a change's body that quotes the prompt; what
// stands above it are the platform's facts.
const AskedHeading = "### Asked by "
