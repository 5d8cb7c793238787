package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

// told prints what became of one object.
func (a *app) told(id, what string, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]string{"id": id, "result": what})
	}
	return a.printf("%s %s\n", render.Line(id), what)
}

// each does the same to several objects, and goes on after a failure.
func (a *app) each(args []string, what string, f func(arg string) (id string, err error)) error {
	var ids []string
	var errs []error
	for _, arg := range args {
		id, err := f(arg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ids = append(ids, id)
		if !a.json {
			if err := a.told(id, what, nil); err != nil {
				return err
			}
		}
	}
	if a.json {
		if err := a.document(map[string]any{"result": what, "ids": append([]string{}, ids...)}); err != nil {
			return err
		}
	}
	for _, err := range errs[:max(0, len(errs)-1)] {
		a.printError(err)
	}
	if len(errs) > 0 {
		return errs[len(errs)-1]
	}
	return nil
}

// eachPage reads a log to its end.
func (a *app) eachPage(read func(after int64) (api.List[core.Event], error), f func(core.Event) error) error {
	var after int64
	for {
		page, err := read(after)
		if err != nil {
			return err
		}
		for _, ev := range page.Items {
			if err := f(ev); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		next, err := strconv.ParseInt(page.Next, 10, 64)
		if err != nil || next <= after {
			return core.E("cli.log", core.Internal, errors.Join(err), "the daemon's cursor %q leads nowhere", page.Next)
		}
		after = next
	}
}

// lastEvent is the number of the newest event of a session.
func lastEvent(ctx context.Context, c *client.Client, id core.SessionID) (int64, error) {
	var after int64
	for {
		page, err := c.SessionLog(ctx, id, after, core.MaxPage)
		if err != nil {
			return 0, err
		}
		if n := len(page.Items); n > 0 {
			after = page.Items[n-1].Seq
		}
		if page.Next == "" {
			return after, nil
		}
	}
}

// left ends a command that was interrupted while it watched: people are told
// how things go on, programs get the error.
func (a *app) left(err error, format string, args ...any) error {
	if a.json {
		return err
	}
	a.note("\n"+format, args...)
	return exit{core.ExitFailed}
}

func ensureNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

func cleanTitle(s string) string { return render.Cut(render.Line(s), 60) }

// changeRef is the shortest stable name of a change: ENVIRONMENT#NUMBER.
func changeRef(c core.Change, names func(core.EnvironmentID) string) string {
	if c.Environment != "" {
		if name := names(c.Environment); name != "" && name != string(c.Environment) {
			return name + "#" + strconv.FormatInt(c.Number, 10)
		}
	}
	return string(c.ID)
}
