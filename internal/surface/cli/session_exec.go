package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

type sessionExecOptions struct {
	dir   string
	env   []string
	tty   bool
	stdin bool
}

func (a *app) newSessionExec() *cobra.Command {
	var o sessionExecOptions
	cmd := &cobra.Command{
		Use:   "exec SESSION -- COMMAND [ARG...]",
		Short: "Run a command in a session's sandbox",
		Long: `Run a command in the sandbox of a session. The exit code is that of the command.
Its output comes from the sandbox as it is: what a program there sends to a
terminal, your terminal gets.`,
		Example: `  drydock session exec last -- git status
  drydock session exec last --dir /workspace/web -- npm test
  tar c fixtures | drydock session exec last -i -- tar x
  drydock session exec last -t -- psql`,
		Args: between(2, -1, "SESSION", "COMMAND"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, args []string) error {
			return a.sessionExec(ctx, c, id, args, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "directory to run in (default: the workspace)")
	f.StringArrayVar(&o.env, "env", nil, "NAME=VALUE for the command; may be repeated")
	f.BoolVarP(&o.tty, "tty", "t", false, "give it a terminal")
	f.BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input on")
	return cmd
}

func (a *app) sessionExec(ctx context.Context, c *client.Client, id core.SessionID, argv []string, o sessionExecOptions) error {
	if o.tty {
		return a.terminalExec(ctx, c, id, api.ExecRequest{Argv: argv, Dir: o.dir, Env: o.env})
	}
	e := client.Exec{ExecRequest: api.ExecRequest{Argv: argv, Dir: o.dir, Env: o.env}, Out: a.env.Stdout, Err: a.env.Stderr}
	if o.stdin {
		e.In = a.env.Stdin
	}
	end, err := c.Exec(ctx, id, e)
	return execResult(end, err)
}

// terminalExec runs with a terminal of its own at the far end.
func (a *app) terminalExec(ctx context.Context, c *client.Client, id core.SessionID, req api.ExecRequest) error {
	if !a.terminal(a.env.Stdin) || a.env.Raw == nil {
		return core.E("cli.exec", core.Invalid, nil, "standard input is not a terminal").WithHint("leave out --tty, or pass input with -i")
	}
	restore, err := a.env.Raw()
	if err != nil {
		return err
	}
	defer restore()
	sizeCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := client.Exec{ExecRequest: req, In: a.env.Stdin, Out: a.env.Stdout, Err: io.Discard}
	e.PTY = &api.Size{Rows: 24, Cols: 80}
	if t := a.env.Getenv("TERM"); t != "" {
		e.Env = append(e.Env, "TERM="+t)
	}
	if a.env.Sizes != nil {
		sizes := a.env.Sizes(sizeCtx)
		select {
		case s, ok := <-sizes:
			if ok {
				e.PTY = &s
			}
		case <-ctx.Done():
		}
		e.Sizes = sizes
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-hangup:
			cancel()
		case <-stop:
		}
	}()
	end, err := c.Exec(ctx, id, e)
	return execResult(end, err)
}

func execResult(end api.ExecEnd, err error) error {
	if err != nil {
		return err
	}
	if end.ExitCode != 0 {
		return exit{end.ExitCode}
	}
	return nil
}
