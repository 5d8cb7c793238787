package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Page asks for a part of a list; see core.Page.
type Page = core.Page

func pageQuery(p Page) url.Values {
	q := url.Values{}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	return q
}

func set(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

// Collect reads pages until there are no more, or limit entries (0: all).
func Collect[T any](limit int, read func(Page) (api.List[T], error)) ([]T, error) {
	items := []T{}
	p := Page{}
	for {
		p.Limit = core.MaxPage
		if limit > 0 {
			p.Limit = min(limit-len(items), core.MaxPage)
		}
		l, err := read(p)
		if err != nil {
			return nil, err
		}
		items = append(items, l.Items...)
		if l.Next == "" || (limit > 0 && len(items) >= limit) {
			return items, nil
		}
		p.Cursor = l.Next
	}
}

// Who tells whose token this is.
func (c *Client) Who(ctx context.Context) (api.Who, error) {
	return get[api.Who](ctx, c, "/whoami", nil)
}

// CreateSession makes a session; without a ClientID it gets one, and a broken
// connection is tried again once.
func (c *Client) CreateSession(ctx context.Context, req api.CreateSession) (api.CreatedSession, error) {
	if req.ClientID == "" {
		req.ClientID = NewClientID()
	}
	v, err := post[api.CreatedSession](ctx, c, "/sessions", req)
	if core.Is(err, core.Unavailable) && ctx.Err() == nil {
		v, err = post[api.CreatedSession](ctx, c, "/sessions", req)
	}
	return v, err
}

// CreateSelection makes a selection, with the same care as CreateSession.
func (c *Client) CreateSelection(ctx context.Context, req api.CreateSelection) (api.SelectionDetail, error) {
	if req.ClientID == "" {
		req.ClientID = NewClientID()
	}
	v, err := post[api.SelectionDetail](ctx, c, "/selections", req)
	if core.Is(err, core.Unavailable) && ctx.Err() == nil {
		v, err = post[api.SelectionDetail](ctx, c, "/selections", req)
	}
	return v, err
}

// SelectionQuery narrows a list of selections.
type SelectionQuery struct{ Environment, State, Owner string }

func (c *Client) Selections(ctx context.Context, f SelectionQuery, p Page) (api.List[core.Selection], error) {
	q := pageQuery(p)
	set(q, "environment", f.Environment)
	set(q, "state", f.State)
	set(q, "owner", f.Owner)
	return get[api.List[core.Selection]](ctx, c, "/selections", q)
}

func (c *Client) Selection(ctx context.Context, id core.SelectionID) (api.SelectionDetail, error) {
	return get[api.SelectionDetail](ctx, c, "/selections/"+seg(string(id)), nil)
}

func (c *Client) Pick(ctx context.Context, id core.SelectionID, session core.SessionID) (api.SelectionDetail, error) {
	return post[api.SelectionDetail](ctx, c, "/selections/"+seg(string(id))+"/pick", api.Pick{Session: string(session)})
}

// SessionQuery narrows a list of sessions.
type SessionQuery struct {
	Environment, State, Owner, Text string
	Archived                        bool
}

func (c *Client) Sessions(ctx context.Context, f SessionQuery, p Page) (api.List[core.Session], error) {
	q := pageQuery(p)
	set(q, "environment", f.Environment)
	set(q, "state", f.State)
	set(q, "owner", f.Owner)
	set(q, "text", f.Text)
	if f.Archived {
		q.Set("archived", "true")
	}
	return get[api.List[core.Session]](ctx, c, "/sessions", q)
}

func (c *Client) Session(ctx context.Context, id core.SessionID) (core.Session, error) {
	return get[core.Session](ctx, c, "/sessions/"+seg(string(id)), nil)
}

func (c *Client) Prompts(ctx context.Context, id core.SessionID) ([]core.Prompt, error) {
	l, err := get[api.List[core.Prompt]](ctx, c, "/sessions/"+seg(string(id))+"/prompts", nil)
	return l.Items, err
}

func (c *Client) Runs(ctx context.Context, id core.SessionID) ([]core.Run, error) {
	l, err := get[api.List[core.Run]](ctx, c, "/sessions/"+seg(string(id))+"/runs", nil)
	return l.Items, err
}

func (c *Client) Attempts(ctx context.Context, id core.RunID) ([]core.Attempt, error) {
	l, err := get[api.List[core.Attempt]](ctx, c, "/runs/"+seg(string(id))+"/attempts", nil)
	return l.Items, err
}

// Prompt queues a follow-up, with the same care as CreateSession.
func (c *Client) Prompt(ctx context.Context, id core.SessionID, req api.CreatePrompt) (core.Prompt, error) {
	if req.ClientID == "" {
		req.ClientID = NewClientID()
	}
	path := "/sessions/" + seg(string(id)) + "/prompts"
	v, err := post[core.Prompt](ctx, c, path, req)
	if core.Is(err, core.Unavailable) && ctx.Err() == nil {
		v, err = post[core.Prompt](ctx, c, path, req)
	}
	return v, err
}

func (c *Client) EditPrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, text string) (core.Prompt, error) {
	var v core.Prompt
	err := c.call(ctx, request{method: http.MethodPatch, path: promptPath(id, prompt), body: api.EditPrompt{Text: text}}, &v)
	return v, err
}

func (c *Client) RemovePrompt(ctx context.Context, id core.SessionID, prompt core.PromptID) error {
	return c.do(ctx, http.MethodDelete, promptPath(id, prompt), nil)
}

func (c *Client) MovePrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, position int) error {
	return c.do(ctx, http.MethodPost, promptPath(id, prompt)+"/move", api.MovePrompt{Position: position})
}

func promptPath(id core.SessionID, prompt core.PromptID) string {
	return "/sessions/" + seg(string(id)) + "/prompts/" + seg(string(prompt))
}

func (c *Client) Stop(ctx context.Context, id core.SessionID, reason string) error {
	return c.do(ctx, http.MethodPost, "/sessions/"+seg(string(id))+"/stop", api.Reason{Reason: reason})
}

func (c *Client) Continue(ctx context.Context, id core.SessionID) (core.Prompt, error) {
	return post[core.Prompt](ctx, c, "/sessions/"+seg(string(id))+"/continue", nil)
}

// Draft says that somebody has begun to type a prompt for an environment.
func (c *Client) Draft(ctx context.Context, environment string) (api.Draft, error) {
	return post[api.Draft](ctx, c, "/drafts", api.CreateDraft{Environment: environment})
}

// ReturnDraft gives it up.
func (c *Client) ReturnDraft(ctx context.Context, id core.DraftID) error {
	return c.do(ctx, http.MethodDelete, "/drafts/"+seg(string(id)), nil)
}

// Fork makes sessions that go on from where one is now.
func (c *Client) Fork(ctx context.Context, id core.SessionID, req api.ForkSession) (api.Forked, error) {
	return post[api.Forked](ctx, c, "/sessions/"+seg(string(id))+"/fork", req)
}

func (c *Client) Archive(ctx context.Context, id core.SessionID) error {
	return c.do(ctx, http.MethodDelete, "/sessions/"+seg(string(id)), nil)
}

func (c *Client) SetBudget(ctx context.Context, id core.SessionID, b core.Budget) (core.Session, error) {
	var v core.Session
	err := c.call(ctx, request{method: http.MethodPut, path: "/sessions/" + seg(string(id)) + "/budget", body: b}, &v)
	return v, err
}

func (c *Client) SessionDiff(ctx context.Context, id core.SessionID) (api.Diff, error) {
	return get[api.Diff](ctx, c, "/sessions/"+seg(string(id))+"/diff", nil)
}

func (c *Client) SessionFiles(ctx context.Context, id core.SessionID, path string) ([]api.FileInfo, error) {
	l, err := get[api.List[api.FileInfo]](ctx, c, "/sessions/"+seg(string(id))+"/files", url.Values{"path": {path}})
	return l.Items, err
}

func (c *Client) Environments(ctx context.Context, p Page) (api.List[core.Environment], error) {
	return get[api.List[core.Environment]](ctx, c, "/environments", pageQuery(p))
}

func (c *Client) Environment(ctx context.Context, nameOrID string) (core.Environment, error) {
	return get[core.Environment](ctx, c, "/environments/"+seg(nameOrID), nil)
}

func (c *Client) RemoveEnvironment(ctx context.Context, nameOrID string) error {
	return c.do(ctx, http.MethodDelete, "/environments/"+seg(nameOrID), nil)
}

func (c *Client) RollbackEnvironment(ctx context.Context, nameOrID string, to core.SnapshotID) (core.Environment, error) {
	return post[core.Environment](ctx, c, "/environments/"+seg(nameOrID)+"/rollback", api.Rollback{Snapshot: string(to)})
}

func (c *Client) Recipe(ctx context.Context, nameOrID string) (api.Recipe, error) {
	return get[api.Recipe](ctx, c, "/environments/"+seg(nameOrID)+"/recipe", nil)
}

func (c *Client) Builds(ctx context.Context, nameOrID string, p Page) (api.List[core.Build], error) {
	return get[api.List[core.Build]](ctx, c, "/environments/"+seg(nameOrID)+"/builds", pageQuery(p))
}

func (c *Client) CreateBuild(ctx context.Context, req api.CreateBuild) (core.Build, error) {
	return post[core.Build](ctx, c, "/builds", req)
}

func (c *Client) Build(ctx context.Context, id core.BuildID) (core.Build, error) {
	return get[core.Build](ctx, c, "/builds/"+seg(string(id)), nil)
}

func (c *Client) Snapshots(ctx context.Context, p Page) (api.List[core.Snapshot], error) {
	return get[api.List[core.Snapshot]](ctx, c, "/snapshots", pageQuery(p))
}

func (c *Client) Snapshot(ctx context.Context, id core.SnapshotID) (api.SnapshotDetail, error) {
	return get[api.SnapshotDetail](ctx, c, "/snapshots/"+seg(string(id)), nil)
}

func (c *Client) RemoveSnapshot(ctx context.Context, id core.SnapshotID) error {
	return c.do(ctx, http.MethodDelete, "/snapshots/"+seg(string(id)), nil)
}

// VerifySnapshot reads everything of a snapshot that can be checked.
func (c *Client) VerifySnapshot(ctx context.Context, id core.SnapshotID) (api.Verification, error) {
	var v api.Verification
	err := c.call(ctx, request{method: http.MethodPost, path: "/snapshots/" + seg(string(id)) + "/verify"}, &v)
	return v, err
}

func (c *Client) CollectSnapshots(ctx context.Context, dry bool) (api.Collected, error) {
	var v api.Collected
	q := url.Values{}
	if dry {
		q.Set("dry_run", "true")
	}
	err := c.call(ctx, request{method: http.MethodPost, path: "/snapshots/collect", query: q}, &v)
	return v, err
}

func (c *Client) Sandboxes(ctx context.Context) ([]api.Sandbox, error) {
	l, err := get[api.List[api.Sandbox]](ctx, c, "/sandboxes", nil)
	return l.Items, err
}

// Capacity tells what the host has room for.
func (c *Client) Capacity(ctx context.Context) (api.Capacity, error) {
	return get[api.Capacity](ctx, c, "/capacity", nil)
}

// ChangeQuery narrows a list of changes.
type ChangeQuery struct{ Repository, State, Session string }

func (c *Client) Changes(ctx context.Context, f ChangeQuery, p Page) (api.List[core.Change], error) {
	q := pageQuery(p)
	set(q, "repository", f.Repository)
	set(q, "state", f.State)
	set(q, "session", f.Session)
	return get[api.List[core.Change]](ctx, c, "/changes", q)
}

// Change finds one by identifier, ENVIRONMENT#NUMBER or NUMBER; so do the
// methods below.
func (c *Client) Change(ctx context.Context, ref string) (api.ChangeDetail, error) {
	return get[api.ChangeDetail](ctx, c, "/changes/"+seg(ref), nil)
}

func (c *Client) ChangeDiff(ctx context.Context, ref string) (api.Diff, error) {
	return get[api.Diff](ctx, c, "/changes/"+seg(ref)+"/diff", nil)
}

func (c *Client) Comment(ctx context.Context, ref string, req api.CreateComment) (core.Comment, error) {
	return post[core.Comment](ctx, c, "/changes/"+seg(ref)+"/comments", req)
}

func (c *Client) ApproveChange(ctx context.Context, ref, head, note string) (core.ChangeApproval, error) {
	return post[core.ChangeApproval](ctx, c, "/changes/"+seg(ref)+"/approve", api.ApproveChange{Head: head, Note: note})
}

func (c *Client) MergeChange(ctx context.Context, ref, method, head string) (core.Change, error) {
	return post[core.Change](ctx, c, "/changes/"+seg(ref)+"/merge", api.MergeChange{Method: method, Head: head})
}

func (c *Client) CloseChange(ctx context.Context, ref, reason string) (core.Change, error) {
	return post[core.Change](ctx, c, "/changes/"+seg(ref)+"/close", api.Reason{Reason: reason})
}

func (c *Client) ReopenChange(ctx context.Context, ref string) (core.Change, error) {
	return post[core.Change](ctx, c, "/changes/"+seg(ref)+"/reopen", nil)
}

func (c *Client) Approvals(ctx context.Context, state, session string, p Page) (api.List[api.Approval], error) {
	q := pageQuery(p)
	set(q, "state", state)
	set(q, "session", session)
	return get[api.List[api.Approval]](ctx, c, "/approvals", q)
}

// AnswerApproval says yes or no to a question.
func (c *Client) AnswerApproval(ctx context.Context, id core.ApprovalID, yes bool, note string) (api.Approval, error) {
	verb := "deny"
	if yes {
		verb = "approve"
	}
	return post[api.Approval](ctx, c, "/approvals/"+seg(string(id))+"/"+verb, api.Answer{Note: note})
}

func (c *Client) CreateToken(ctx context.Context, req api.CreateToken) (api.CreatedToken, error) {
	return post[api.CreatedToken](ctx, c, "/tokens", req)
}

func (c *Client) Tokens(ctx context.Context, p Page) (api.List[api.Token], error) {
	return get[api.List[api.Token]](ctx, c, "/tokens", pageQuery(p))
}

func (c *Client) RevokeToken(ctx context.Context, id core.TokenID) error {
	return c.do(ctx, http.MethodDelete, "/tokens/"+seg(string(id)), nil)
}

// Usage sums by "session", "environment" or "model".
func (c *Client) Usage(ctx context.Context, by string, since time.Time) (api.UsageReport, error) {
	q := url.Values{}
	set(q, "by", by)
	if !since.IsZero() {
		q.Set("since", since.UTC().Format(time.RFC3339))
	}
	return get[api.UsageReport](ctx, c, "/usage", q)
}

// LoginCode makes a one-use code that signs a browser in as the holder of the
// client's token.
func (c *Client) LoginCode(ctx context.Context) (api.LoginCode, error) {
	return post[api.LoginCode](ctx, c, "/login-codes", nil)
}

// Ports of a session: declared ones, and those that something listens on.
func (c *Client) Ports(ctx context.Context, id core.SessionID) (api.Ports, error) {
	return get[api.Ports](ctx, c, "/sessions/"+url.PathEscape(string(id))+"/ports", nil)
}

// OpenPreview makes a way into a preview for one browser.
func (c *Client) OpenPreview(ctx context.Context, id core.SessionID, req api.OpenPreview) (api.Preview, error) {
	return post[api.Preview](ctx, c, "/sessions/"+url.PathEscape(string(id))+"/previews", req)
}
