package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
)

func (a *app) newServe() *cobra.Command {
	var o ServeOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon in the foreground. It needs root: it makes namespaces, mounts
and network rules. Without a configuration file it uses SQLite, the built-in
forge and gVisor. It writes its address and the first token (readable by its
user only) into the state directory, where the other commands find them.`,
		Example: `  sudo drydock serve
  sudo drydock serve --config /etc/drydock.yaml --listen 127.0.0.1:7447
  sudo drydock serve --state /srv/drydock`,
		Args: noArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error { return a.serve(ctx, o) }),
	}
	f := cmd.Flags()
	f.StringVar(&o.ConfigFile, "config", "", "configuration file (default /etc/drydock/drydock.yaml if it exists)")
	f.StringVar(&o.Listen, "listen", "", "address to answer on (default that of the configuration)")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "log more")
	return cmd
}

func (a *app) serve(ctx context.Context, o ServeOptions) error {
	if a.env.Serve == nil {
		return a.without("a daemon")
	}
	o.State = first(a.state, a.env.Getenv("DRYDOCK_STATE"))
	o.Stderr = a.env.Stderr
	o.Ready = func(url, state string) {
		a.note("drydock answers at %s (state: %s)\n", url, state)
		if state != a.stateDir() {
			a.note("other commands find it with --state %s\n", state)
		}
	}
	return a.env.Serve(ctx, o)
}

func (a *app) without(what string) error {
	return core.E("cli.run", core.Unavailable, nil, "this binary was built without %s", what)
}
