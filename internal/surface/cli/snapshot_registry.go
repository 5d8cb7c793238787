package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newSnapshotPush() *cobra.Command {
	var req api.PushSnapshot
	cmd := &cobra.Command{
		Use: "push SNAPSHOT REF", Short: "Send a snapshot to a registry, as an OCI image",
		Long: `Send a snapshot to a registry: an OCI image with one zstd layer for each layer of
the snapshot, base image included, which any tool can run. Its memory image goes
beside it as an artifact that refers to the image.

SNAPSHOT may be the name of an environment: the snapshot it has now. What is in
the registry is not sent again, so a push that broke off goes on. The tag is
written last. Logins are those of ~/.docker/config.json on the daemon's machine,
or of the configuration.

A memory image can only be restored by the very builds of runsc and drydock-init
that made it. They stay here unless --with-runtime is given: a host with the same
build of Drydock has them, another starts the services from the files.`,
		Example: `  drydock snapshot push shop registry.example.com/team/shop:ready
  drydock snapshot push snp_... 127.0.0.1:5000/shop:v1 --no-memory`,
		Args: exactly("SNAPSHOT", "REF"), ValidArgsFunction: a.completeSnapshots,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := snapshotRef(ctx, c, args[0])
			if err != nil {
				return err
			}
			req.Reference = args[1]
			out, err := c.PushSnapshot(ctx, id, req, a.transfers())
			if err != nil {
				return err
			}
			if a.json {
				return a.document(out)
			}
			memory := "without a memory image"
			if out.Memory != "" {
				memory = "with its memory image"
			}
			return a.printf("%s pushed to %s, %s: %s in %s, %s of it sent\n%s\n", out.Snapshot, render.Line(out.Reference), memory,
				render.Bytes(out.Bytes), render.Count(out.Layers, "layer"), render.Bytes(out.Sent), render.Line(out.Digest))
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&req.NoMemory, "no-memory", false, "leave the memory image here")
	f.BoolVar(&req.WithRuntime, "with-runtime", false, "send the builds of runsc and drydock-init that the memory image is bound to")
	f.BoolVar(&req.Insecure, "insecure", false, "speak without TLS to a registry on another machine")
	return cmd
}

func (a *app) newSnapshotPull() *cobra.Command {
	var req api.PullSnapshot
	cmd := &cobra.Command{
		Use: "pull REF", Short: "Bring a snapshot here from a registry",
		Long: `Bring a snapshot here that drydock snapshot push sent to a registry. Everything is
checked against its digest on the way; the snapshot is not to be seen before it is
complete. Layers that are here are not fetched again.

With --env it becomes the snapshot of an environment: sessions start from it. An
environment that does not exist is made, of the repository that came with the
snapshot or that --source names.

Its memory image is restored where it fits: on a host with the same builds of
runsc and drydock-init. With --with-runtime those that were pushed beside it are
kept and used: programs from a registry, run as root on the daemon's machine. Do so
only if you trust whoever pushed them.`,
		Example: `  drydock snapshot pull registry.example.com/team/shop:ready --env shop
  drydock snapshot pull 127.0.0.1:5000/shop:v1 --no-memory`,
		Args: exactly("REF"),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			req.Reference = args[0]
			out, err := c.PullSnapshot(ctx, req, a.transfers())
			if err != nil {
				return err
			}
			if a.json {
				return a.document(out)
			}
			how := "pulled from " + render.Line(out.Reference) + ", " + render.Bytes(out.Fetched)
			if out.Present {
				how = "is here already, from " + render.Line(out.Reference)
			}
			if err := a.printf("%s %s\n", out.Snapshot.ID, how); err != nil || out.Environment == nil {
				return err
			}
			return a.printf("environment %s starts from it now\n", render.Line(out.Environment.Name))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Environment, "env", "", "environment whose snapshot it becomes")
	f.StringVar(&req.Source, "source", "", "repository of a new environment (default: the one that came with the snapshot)")
	f.BoolVar(&req.NoMemory, "no-memory", false, "only the files")
	f.BoolVar(&req.WithRuntime, "with-runtime", false, "keep the builds of runsc and drydock-init that come with it; they run as root")
	f.BoolVar(&req.Insecure, "insecure", false, "speak without TLS to a registry on another machine")
	return cmd
}

// snapshotRef finds a snapshot by its identifier, or as that of an environment.
func snapshotRef(ctx context.Context, c *client.Client, arg string) (core.SnapshotID, error) {
	if strings.HasPrefix(arg, "snp_") {
		return core.SnapshotID(arg), nil
	}
	env, err := c.Environment(ctx, arg)
	if err != nil {
		return "", err
	}
	if env.Snapshot == "" {
		return "", core.E("cli.push", core.NotFound, nil, "environment %s has no snapshot yet", env.Name).WithHint("drydock env build %s", env.Name)
	}
	return env.Snapshot, nil
}

// transfers prints what becomes of each part, and of large ones how far they
// are.
func (a *app) transfers() func(api.Transfer) {
	const step = 64 << 20
	state, shown := map[string]string{}, map[string]int64{}
	return func(t api.Transfer) {
		if t.State == "warning" {
			a.note("warning: %s\n", render.Line(t.What))
			return
		}
		if state[t.What] == t.State && t.Done-shown[t.What] < step {
			return
		}
		state[t.What], shown[t.What] = t.State, t.Done
		size := ""
		switch {
		case t.State == "packing" && t.Done > 0:
			size = render.Bytes(t.Done)
		case t.Total > 0 && t.Done < t.Total:
			size = render.Bytes(t.Done) + " of " + render.Bytes(t.Total)
		case t.Total > 0:
			size = render.Bytes(t.Total)
		}
		a.note("%s\n", strings.TrimRight(render.Line(t.What)+": "+render.Line(t.State)+" "+size, " "))
	}
}
