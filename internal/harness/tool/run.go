package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
)

type runInput struct {
	Command    string `json:"command"`
	Cwd        string `json:"cwd"`
	Timeout    number `json:"timeout"`
	Background bool   `json:"background"`
}

func runTitle(s *Set, in runInput) string {
	t := "$ " + in.Command
	if in.Cwd != "" && s.abs(in.Cwd) != s.opts.Root {
		t += " (in " + s.short(s.abs(in.Cwd)) + ")"
	}
	if in.Background {
		t += " &"
	}
	return t
}

func (s *Set) run(ctx context.Context, c Call) (Result, error) {
	var in runInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	if strings.TrimSpace(in.Command) == "" {
		return Result{}, tell("run needs a command")
	}
	if strings.ContainsRune(in.Command, 0) {
		return Result{}, tell("a command cannot hold a NUL byte")
	}
	cmd := Command{Key: c.Key, Shell: in.Command, Dir: s.abs(in.Cwd)}
	if !in.Background {
		cmd.Timeout = s.opts.Timeout
		if in.Timeout > 0 {
			cmd.Timeout = min(time.Duration(in.Timeout)*time.Second, s.opts.MaxTimeout)
		}
	}
	p, err := s.deps.Box.Start(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	if in.Background {
		return s.started(ctx, p)
	}
	p, err = s.wait(ctx, p.ID)
	if err != nil {
		return Result{}, err
	}
	res, err := s.shown(ctx, p)
	if err != nil {
		return Result{}, err
	}
	res.Wrote = true
	code := p.ExitCode
	res.ExitCode = &code
	switch {
	case p.TimedOut:
		res.head("timed out after %s and was killed; for longer work give a larger timeout, or run it in the background", cmd.Timeout)
		res.Failed = true
	case p.Signal != "":
		res.head("killed by signal %s (exit code %d)", p.Signal, code)
		res.Failed = true
	case code != 0:
		res.head("exit code %d", code)
		res.Failed = true
	case res.Output == "":
		res.head("exit code 0, no output")
	}
	return res, nil
}

// wait stops the command when the caller goes away: nothing may work on in a
// sandbox whose agent was stopped. A killed daemon sends no signal, so its
// successor finds the command running.
func (s *Set) wait(ctx context.Context, id string) (Process, error) {
	p, err := s.deps.Box.Wait(ctx, id)
	if err != nil && ctx.Err() != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.deps.Box.Signal(stop, id, "TERM") // the caller's reason is what counts
		return p, context.Cause(ctx)
	}
	return p, err
}

func (r *Result) head(format string, args ...any) {
	line := "[" + fmt.Sprintf(format, args...) + "]"
	if r.Output != "" {
		line += "\n"
	}
	r.Output = line + r.Output
	r.Content[0].Text = line + r.Content[0].Text
}

func (s *Set) started(ctx context.Context, p Process) (Result, error) {
	early, cancel := context.WithTimeout(ctx, s.opts.Settle)
	defer cancel()
	now, err := s.deps.Box.Wait(early, p.ID)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if now, err = s.deps.Box.Process(ctx, p.ID); err != nil {
			return Result{}, err
		}
	}
	res, err := s.shown(ctx, now)
	if err != nil {
		return Result{}, err
	}
	res.Wrote = true
	if !now.Running {
		code := now.ExitCode
		res.ExitCode, res.Failed = &code, code != 0
	}
	res.head("process %s %s; look at it and stop it with the tool process", now.ID, stateText(now))
	return res, nil
}

func stateText(p Process) string {
	switch {
	case p.Running:
		return "is running"
	case p.Signal != "":
		return "was killed by signal " + p.Signal
	}
	return fmt.Sprintf("ended with exit code %d", p.ExitCode)
}

// shown reads a whole output, or its head and tail with a pointer to the rest.
func (s *Set) shown(ctx context.Context, p Process) (Result, error) {
	size := p.End - p.First
	if size <= int64(s.opts.Head+s.opts.Tail) {
		b, err := s.output(ctx, p.ID, p.First, int(size))
		if err != nil {
			return Result{}, err
		}
		res := text(plain(b))
		if p.First > 0 {
			res.Cut = true
			res.head("the first %s of the output are gone", bytesText(p.First))
		}
		return res, nil
	}
	head, err := s.output(ctx, p.ID, p.First, s.opts.Head)
	if err != nil {
		return Result{}, err
	}
	tail, err := s.output(ctx, p.ID, p.End-int64(s.opts.Tail), s.opts.Tail)
	if err != nil {
		return Result{}, err
	}
	head, tail = headCut(head), tailCut(tail)
	from, to := p.First+int64(len(head)), p.End-int64(len(tail))
	res := text(fmt.Sprintf("%s\n[... %s left out: bytes %d to %d of process %s; read them with process {\"id\":%q,\"action\":\"output\",\"offset\":%d} ...]\n%s",
		strings.TrimRight(plain(head), "\n"), bytesText(to-from), from, to, p.ID, p.ID, from, plain(tail)))
	res.Cut = true
	return res, nil
}

// output reads until it has what was asked for, since one read may return less.
func (s *Set) output(ctx context.Context, id string, offset int64, limit int) ([]byte, error) {
	var out []byte
	for len(out) < limit {
		b, err := s.deps.Box.Output(ctx, id, offset+int64(len(out)), limit-len(out))
		if err != nil {
			return nil, err
		}
		if len(b) == 0 {
			break
		}
		out = append(out, b...)
	}
	return out[:min(len(out), limit)], nil
}

type processInput struct {
	ID      string `json:"id"`
	Action  string `json:"action"`
	Offset  number `json:"offset"`
	Limit   number `json:"limit"`
	Seconds number `json:"seconds"`
}

func processTitle(_ *Set, in processInput) string {
	if in.Action == "" {
		in.Action = "output"
	}
	return in.Action + " of process " + in.ID
}

func (s *Set) process(ctx context.Context, c Call) (Result, error) {
	var in processInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	if in.ID == "" {
		return Result{}, tell("process needs the id that run gave")
	}
	switch in.Action {
	case "", "output":
		return s.page(ctx, in)
	case "wait":
		return s.waitFor(ctx, in)
	case "stop":
		return s.stop(ctx, in)
	}
	return Result{}, tell("action %q is not one of output, wait, stop", in.Action)
}

func (s *Set) page(ctx context.Context, in processInput) (Result, error) {
	p, err := s.deps.Box.Process(ctx, in.ID)
	if err != nil {
		return Result{}, err
	}
	if in.Offset == 0 && in.Limit == 0 {
		res, err := s.shown(ctx, p)
		if err == nil {
			res.head("process %s %s", p.ID, stateText(p))
		}
		return res, err
	}
	from := max(int64(in.Offset), p.First)
	limit := s.opts.Head + s.opts.Tail
	if in.Limit > 0 {
		limit = min(int(in.Limit), limit)
	}
	b, err := s.output(ctx, p.ID, from, limit)
	if err != nil {
		return Result{}, err
	}
	res := text(plain(b))
	res.head("process %s %s; bytes %d to %d of %d", p.ID, stateText(p), from, from+int64(len(b)), p.End)
	return res, nil
}

func (s *Set) waitFor(ctx context.Context, in processInput) (Result, error) {
	d := 30 * time.Second
	if in.Seconds > 0 {
		d = min(time.Duration(in.Seconds)*time.Second, s.opts.MaxTimeout)
	}
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	p, err := s.deps.Box.Wait(limited, in.ID)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if limited.Err() == nil {
			return Result{}, err
		}
		if p, err = s.deps.Box.Process(ctx, in.ID); err != nil {
			return Result{}, err
		}
	}
	res, err := s.shown(ctx, p)
	if err != nil {
		return Result{}, err
	}
	res.Wrote = true // what ran meanwhile may have
	res.head("process %s %s", p.ID, stateText(p))
	return res, nil
}

func (s *Set) stop(ctx context.Context, in processInput) (Result, error) {
	if err := s.deps.Box.Signal(ctx, in.ID, "TERM"); err != nil && !core.Is(err, core.Conflict) {
		return Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	p, err := s.deps.Box.Wait(limited, in.ID)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		if err = s.deps.Box.Signal(ctx, in.ID, "KILL"); err == nil {
			p, err = s.deps.Box.Wait(ctx, in.ID)
		}
	}
	if err != nil {
		return Result{}, err
	}
	res, err := s.shown(ctx, p)
	if err == nil {
		res.head("process %s %s", p.ID, stateText(p))
	}
	return res, err
}
