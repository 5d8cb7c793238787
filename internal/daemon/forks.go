package daemon

import (
	"context"
	"sync"
	"time"

	"drydock/internal/control/session"
	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// forks makes sessions out of one.
type forks struct {
	sessions   *session.Service
	workspaces *workspace.Manager
}

var _ server.Forks = forks{}

// startsAtOnce bounds how many sandboxes of one fork are restored side by side.
const startsAtOnce = 8

// Fork implements server.Forks.
func (f forks) Fork(ctx context.Context, id core.SessionID, by core.Author, req api.ForkSession) (api.Forked, error) {
	count := max(req.Count, 1)
	begin := time.Now()
	branched, err := f.workspaces.Branch(ctx, id)
	if err != nil {
		return api.Forked{}, err
	}
	children, err := f.sessions.Fork(ctx, id, branched.Snapshot, count, req.Prompt, by)
	if err != nil {
		return api.Forked{}, err
	}
	out := api.Forked{Parent: id, Snapshot: branched.Snapshot, Paused: branched.Paused, Children: make([]api.ForkedSession, len(children))}
	var wg sync.WaitGroup
	room := make(chan struct{}, startsAtOnce)
	for i, child := range children {
		out.Children[i].Session = child
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			c := &out.Children[i]
			var err error
			if c.From, err = f.workspaces.Start(ctx, child.ID); err != nil {
				c.Error = err.Error()
				return
			}
			c.Ready = time.Since(begin)
			if now, err := f.sessions.Get(ctx, child.ID); err == nil {
				c.Session = now
			}
		})
	}
	wg.Wait()
	return out, nil
}
