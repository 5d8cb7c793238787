package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

type evidenceShowOptions struct {
	save  string
	rerun bool
	all   bool
}

func (o *evidenceShowOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.save, "save", "", "save every log, report and picture into this directory")
	cmd.Flags().BoolVar(&o.rerun, "rerun", false, "run the proof again and compare")
	cmd.Flags().BoolVar(&o.all, "all", false, "list every case, also those that stayed green")
}

func (a *app) newEvidenceShow() *cobra.Command {
	var o evidenceShowOptions
	cmd := &cobra.Command{
		Use: "show EVIDENCE", Short: "Show a bundle: verdict, checks, cases, artifacts",
		Example: `  drydock evidence show shop#1
  drydock evidence show evd_... --json | jq .manifest
  drydock evidence show shop#1 --save proof/`,
		Args: exactly("EVIDENCE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.evidence(ctx, c, args[0], o)
		}),
	}
	o.flags(cmd)
	return cmd
}

func (a *app) newChangeEvidence() *cobra.Command {
	var o evidenceShowOptions
	cmd := &cobra.Command{
		Use: "evidence CHANGE", Short: "Show what the verdict on a change rests on",
		Example: `  drydock change evidence shop#1
  drydock change evidence shop#1 --save proof/   # logs, reports, pictures
  drydock change evidence shop#1 --rerun         # run the proof again`,
		Args: exactly("CHANGE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.evidence(ctx, c, args[0], o)
		}),
	}
	o.flags(cmd)
	return cmd
}

func (a *app) evidence(ctx context.Context, c *client.Client, ref string, o evidenceShowOptions) error {
	id, err := evidenceRef(ctx, c, ref)
	if err != nil {
		return err
	}
	if o.rerun {
		return a.rerun(ctx, c, id)
	}
	ev, err := c.Evidence(ctx, id)
	if err != nil {
		return err
	}
	m := readManifest(ev.Manifest)
	if o.save != "" {
		return a.saveEvidence(ctx, c, id, m, o.save)
	}
	if a.json {
		return a.document(ev)
	}
	return a.printf("%s", m.text(a.style(a.env.Stdout), a.width(a.env.Stdout), string(id), ev.Digest, o.all))
}

// saveEvidence writes the manifest as it was signed and every artifact it
// names. Names come from a sandbox: they are made file names first.
func (a *app) saveEvidence(ctx context.Context, c *client.Client, id core.EvidenceID, m manifest, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return core.E("cli.save", core.Invalid, err, "make directory %s", dir)
	}
	saved := []map[string]string{}
	for _, f := range m.artifacts {
		path := filepath.Join(dir, f.fileName())
		if err := copyTo(path, 0o644, func(w io.Writer) error { return c.EvidenceFile(ctx, id, f.Digest, w) }); err != nil {
			return err
		}
		saved = append(saved, map[string]string{"name": f.Name, "digest": f.Digest, "path": path})
		if !a.json {
			if err := a.printf("%s\n", path); err != nil {
				return err
			}
		}
	}
	path := filepath.Join(dir, "manifest.json")
	if err := copyTo(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(m.raw)
		return written(err)
	}); err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]any{"manifest": path, "files": saved})
	}
	return a.printf("%s\n", render.Line(path))
}
