package proving

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/proof/evidence"
	"drydock/internal/proof/exam"
	"drydock/internal/store"
)

func (p *Prover) dir(id core.EvidenceID) string {
	return filepath.Join(p.opts.Bundles, string(id))
}

// keep writes the bundle and then its row; each is harmless to repeat.
func (p *Prover) keep(ctx context.Context, id core.EvidenceID, session core.SessionID, run core.RunID, result exam.Result) error {
	summary, err := evidence.Write(ctx, p.dir(id), evidence.Input{ID: id, Result: result, Blobs: p.d.Blobs, Key: p.d.Key})
	if err != nil && !core.Is(err, core.Conflict) {
		return err
	}
	err = p.d.DB.CreateEvidence(ctx, store.Evidence{
		ID: id, Session: session, Run: run, Verdict: string(result.Verdict), Digest: summary.Digest, Created: time.Now().UTC(),
	})
	if core.Is(err, core.Conflict) {
		return nil
	}
	return err
}

// kept is the result of a proof that was made before, if there is one.
func (p *Prover) kept(ctx context.Context, id core.EvidenceID) (exam.Result, bool) {
	if _, err := p.d.DB.Evidence(ctx, id); err != nil {
		return exam.Result{}, false
	}
	m, err := evidence.ReadManifest(ctx, p.dir(id))
	return m.Result, err == nil
}

func (p *Prover) markdown(r exam.Result, id core.EvidenceID) string {
	link := func(a exam.Artifact) string {
		if p.opts.BaseURL == "" {
			return ""
		}
		return fmt.Sprintf("%s/api/v1/evidence/%s/files/%s", p.opts.BaseURL, id, a.Digest)
	}
	return evidence.Markdown(r, evidence.MarkdownOptions{Link: link, Bundle: fmt.Sprintf("`drydock evidence show %s`", id)})
}

func (p *Prover) found(ctx context.Context, id core.EvidenceID) (store.Evidence, error) {
	row, err := p.d.DB.Evidence(ctx, id)
	if err != nil {
		return row, err
	}
	if _, err := os.Stat(p.dir(id)); err != nil {
		return row, core.E("proving.evidence", core.NotFound, err, "the bundle of evidence %s is no longer there", id)
	}
	return row, nil
}

// Manifest is the manifest of a bundle as it was signed, and its digest.
func (p *Prover) Manifest(ctx context.Context, id core.EvidenceID) (json.RawMessage, string, error) {
	row, err := p.found(ctx, id)
	if err != nil {
		return nil, "", err
	}
	raw, err := os.ReadFile(filepath.Join(p.dir(id), evidence.ManifestName))
	if err != nil {
		return nil, "", core.E("proving.evidence", core.Unavailable, err, "manifest of evidence %s", id)
	}
	return raw, row.Digest, nil
}

// Result is what the exam of a bundle found; NotFound when the bundle is not
// kept any more.
func (p *Prover) Result(ctx context.Context, id core.EvidenceID) (exam.Result, error) {
	if _, err := p.found(ctx, id); err != nil {
		return exam.Result{}, err
	}
	m, err := evidence.ReadManifest(ctx, p.dir(id))
	return m.Result, err
}

// File opens one artifact that the manifest names by its digest.
func (p *Prover) File(ctx context.Context, id core.EvidenceID, digest string) (io.ReadCloser, int64, error) {
	if _, err := p.found(ctx, id); err != nil {
		return nil, 0, err
	}
	root, err := os.OpenRoot(p.dir(id))
	if err != nil {
		return nil, 0, core.E("proving.evidence", core.Unavailable, err, "bundle of evidence %s", id)
	}
	defer root.Close()
	name, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || len(name) != 64 || strings.Trim(name, "0123456789abcdef") != "" {
		return nil, 0, core.E("proving.evidence", core.Invalid, nil, "%q is not a digest of the form sha256:...", digest)
	}
	f, err := root.Open("artifacts/sha256/" + name)
	if err != nil {
		return nil, 0, core.E("proving.evidence", core.NotFound, nil, "evidence %s has no artifact %s", id, digest)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, core.E("proving.evidence", core.Unavailable, err, "artifact %s", digest)
	}
	return f, info.Size(), nil
}

// Bundle writes the whole bundle as a tar, byte for byte as it was signed.
func (p *Prover) Bundle(ctx context.Context, id core.EvidenceID, w io.Writer) error {
	if _, err := p.found(ctx, id); err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := out.AddFS(os.DirFS(p.dir(id))); err != nil {
		return core.E("proving.evidence", core.Unavailable, err, "bundle of evidence %s", id)
	}
	return out.Close()
}

// Rerun runs the exam of a bundle again, in clean rooms of the snapshot that
// it names.
func (p *Prover) Rerun(ctx context.Context, id core.EvidenceID, onward func(core.Event)) (evidence.RerunReport, error) {
	if _, err := p.found(ctx, id); err != nil {
		return evidence.RerunReport{}, err
	}
	m, err := evidence.ReadManifest(ctx, p.dir(id))
	if err != nil {
		return evidence.RerunReport{}, err
	}
	env, err := p.d.DB.Environment(ctx, m.Result.Exam.Environment)
	if err != nil {
		return evidence.RerunReport{Answer: evidence.Cannot, Reason: err.Error(), Before: m.Result.Verdict}, nil
	}
	repo, err := p.d.Workspaces.Mirror(ctx, env.ID)
	if err != nil {
		return evidence.RerunReport{}, err
	}
	return evidence.Rerun(ctx, m, func(ctx context.Context, ex exam.Exam) (exam.Result, error) {
		rooms, err := p.rooms(ctx, repo, ex, string(id))
		if err != nil {
			return exam.Result{}, err
		}
		return p.run(ctx, ex, rooms, repo, nil, onward) // no cache: everything runs again
	})
}
