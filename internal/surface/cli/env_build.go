package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

type envBuildOptions struct {
	name, ref string
	fresh     bool
	detach    bool
}

func (a *app) newEnvBuild() *cobra.Command {
	var o envBuildOptions
	cmd := &cobra.Command{
		Use:   "build URL|PATH|NAME",
		Short: "Build an environment from a repository",
		Long: `Build an environment: clone a mirror of the repository, make a machine from its
drydock.yaml (or devcontainer.json), run the setup, start the services, and keep
the result as a snapshot that sessions start from.

A build goes on from the snapshot before where base image and recipe are the same:
it checks out the new commit, and runs setup again only where a lock file changed
(or what on_sync of drydock.yaml says). Where nothing changed it does nothing.
--fresh begins from scratch, with a fresh base image.

Environments are also built by themselves: at the interval of their recipe
(refresh, 30m), and when their base branch has moved.

A path is one on the daemon's machine. The name of an environment that exists
builds it again. A failed build leaves the last good one in use.`,
		Example: `  drydock env build https://git.example.com/team/shop
  drydock env build . --name shop
  drydock env build shop --fresh          # from scratch, with a fresh base image
  drydock env build shop --detach --json`,
		Args:              exactly("URL, PATH or NAME"),
		ValidArgsFunction: a.completeEnvironments,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.envBuild(ctx, c, args[0], o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the environment (default: last part of the address)")
	f.StringVar(&o.ref, "ref", "", "branch, tag or commit (default: the default branch)")
	f.BoolVar(&o.fresh, "fresh", false, "from scratch and with a fresh base image, even if nothing has changed")
	f.BoolVarP(&o.detach, "detach", "d", false, "do not wait for the build")
	return cmd
}

func (a *app) envBuild(ctx context.Context, c *client.Client, source string, o envBuildOptions) error {
	req, err := buildRequest(ctx, c, source, o)
	if err != nil {
		return err
	}
	b, err := c.CreateBuild(ctx, req)
	if err != nil {
		return err
	}
	if o.detach {
		if a.json {
			return a.document(b)
		}
		return a.printf("%s\n", b.ID)
	}
	b, err = a.watchBuild(ctx, c, b)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.document(b); err != nil {
			return err
		}
	}
	if b.State != core.BuildDone {
		return exit{core.ExitFailed}
	}
	return nil
}

// buildRequest tells an environment's name from a source. A path becomes
// absolute, since the daemon does not stand where we do.
func buildRequest(ctx context.Context, c *client.Client, source string, o envBuildOptions) (api.CreateBuild, error) {
	req := api.CreateBuild{Source: source, Name: o.name, Ref: o.ref, Fresh: o.fresh}
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		abs, err := filepath.Abs(source)
		if err != nil {
			return req, core.E("cli.build", core.Invalid, err, "path %s", source)
		}
		req.Source = abs
		return req, nil
	}
	env, err := c.Environment(ctx, source)
	switch {
	case err == nil:
		req.Source, req.Name = "", env.Name
	case !core.Is(err, core.NotFound) && !core.Is(err, core.Invalid):
		return req, err
	}
	return req, nil
}

// watchBuild shows a build until it ends. Leaving does not end it.
func (a *app) watchBuild(ctx context.Context, c *client.Client, b core.Build) (core.Build, error) {
	err := a.showBuild(ctx, c, b)
	if err != nil && !errors.Is(err, context.Canceled) {
		return b, err
	}
	if err != nil {
		return b, a.left(err, "The build %s goes on. Look at it with: drydock env show %s\n", b.ID, b.Environment)
	}
	return c.Build(ctx, b.ID)
}
