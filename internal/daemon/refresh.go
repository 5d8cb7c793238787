package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/capacity"
	"drydock/internal/execution/environment"
)

// openRefresher opens what keeps environments up to date.
func (d *Daemon) openRefresher() {
	d.refresher = environment.NewRefresher(environment.RefresherDeps{
		Rows: d.db, Build: d.builder.Build, Head: d.repos.Head, Allowed: d.mayBuild, Log: d.log,
	})
}

// mayBuild keeps the platform's own builds away while the host is full. What a
// person asks for waits for a place like everything else.
func (d *Daemon) mayBuild(ctx context.Context) error {
	if ok, why := d.capacity.Room(ctx, capacity.Build); !ok {
		return core.E("daemon.refresh", core.Exhausted, nil, "the host has no room for a build: %s", why)
	}
	return nil
}

// aged is what a session is told that starts from a snapshot that is too old;
// nil when it is not. Where a build can be had, it is asked for.
func (d *Daemon) aged(ctx context.Context, id core.EnvironmentID) *core.WarningData {
	env, err := d.builder.Get(ctx, string(id))
	if err != nil || env.Freshness == nil || !env.Freshness.Old {
		return nil
	}
	w := &core.WarningData{
		Code: "snapshot_old",
		Message: fmt.Sprintf("the snapshot of environment %s is %s old, more than %s", env.Name,
			span(time.Since(env.Freshness.Made)), span(env.Freshness.MaxAge)),
		Hint: "build it: drydock env build " + env.Name,
	}
	coming, err := d.refresher.Wanted(ctx, id)
	if err != nil {
		d.log.Warn("a build of an old environment could not be asked for", "environment", env.Name, "err", err)
	}
	if coming {
		w.Hint = "a build has been asked for; sessions after it start from the new snapshot"
	} else if env.Freshness.State == core.EnvironmentFailing {
		w.Hint = "its builds fail: drydock env show " + env.Name
	}
	return w
}

// span is a length of time in its largest unit.
func span(d time.Duration) string {
	for _, u := range []struct {
		d    time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / u.d); n == 1 {
			return "1 " + u.name
		} else if n > 1 {
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return "less than a minute"
}

// pushed looks at a repository whose branches may have moved.
func (d *Daemon) pushed(ctx context.Context, repository string) {
	env, err := d.db.Environment(ctx, repository)
	if err != nil {
		return // a repository without an environment
	}
	d.refresher.Poke(env.ID)
}

// watchPushes tells of pushes to the built-in forge once they are done.
func (d *Daemon) watchPushes(git http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		git.ServeHTTP(w, r)
		if name, ok := strings.CutSuffix(r.URL.Path, "/git-receive-pack"); ok && r.Method == http.MethodPost {
			d.pushed(context.WithoutCancel(r.Context()), strings.TrimSuffix(strings.Trim(name, "/"), ".git"))
		}
	})
}
