package evidence

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"drydock/internal/core"
	"drydock/internal/proof/exam"
	"drydock/internal/store/blob"
)

// Names inside a bundle.
const (
	ManifestName   = "manifest.json"
	StatementsName = "evidence.intoto.jsonl"
	artifactsDir   = "artifacts/sha256/"
	format         = "drydock-evidence/1"
)

// Input of a bundle.
type Input struct {
	ID     core.EvidenceID
	Result exam.Result
	Blobs  *blob.Store // where the result's artifacts lie
	Key    Key
	Now    time.Time // of the statement; zero means the result's end
}

// Manifest is the file of that name.
type Manifest struct {
	Format    string          `json:"format"`
	ID        core.EvidenceID `json:"id,omitempty"`
	Created   time.Time       `json:"created"`
	Result    exam.Result     `json:"result"`
	Artifacts []exam.Artifact `json:"artifacts"`
	// Lost are artifacts of an earlier exam of the same base that are no
	// longer kept.
	Lost []exam.Artifact `json:"lost,omitempty"`
}

// Summary of a written bundle.
type Summary struct {
	Digest     string // of manifest.json
	Statements int
	Artifacts  int
	Bytes      int64
}

// sink takes the files of a bundle.
type sink interface {
	file(name string, size int64, r io.Reader) error
}

// Write makes a bundle in a directory that must not exist yet. It is complete
// or absent: files are written aside and the directory is renamed.
func Write(ctx context.Context, dir string, in Input) (Summary, error) {
	const op = "evidence.write"
	if _, err := os.Lstat(dir); err == nil {
		return Summary{}, core.E(op, core.Conflict, nil, "bundle %s exists", dir)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return Summary{}, core.E(op, core.Unavailable, err, "make the directory %s", parent)
	}
	aside, err := os.MkdirTemp(parent, ".evidence-*")
	if err != nil {
		return Summary{}, core.E(op, core.Unavailable, err, "make a directory for a bundle")
	}
	defer func() { _ = os.RemoveAll(aside) }()
	summary, err := write(ctx, dirSink(aside), in)
	if err != nil {
		return Summary{}, err
	}
	if err := os.Rename(aside, dir); err != nil {
		return Summary{}, core.E(op, core.Unavailable, err, "move bundle %s into place", dir)
	}
	if f, err := os.Open(parent); err == nil {
		err = errors.Join(f.Sync(), f.Close())
		if err != nil {
			return Summary{}, core.E(op, core.Unavailable, err, "sync the directory %s", parent)
		}
	}
	return summary, nil
}

// WriteTar makes the same bundle as a tar stream.
func WriteTar(ctx context.Context, w io.Writer, in Input) (Summary, error) {
	tw := tar.NewWriter(w)
	summary, err := write(ctx, tarSink{tw}, in)
	if err != nil {
		return Summary{}, err
	}
	if err := tw.Close(); err != nil {
		return Summary{}, core.E("evidence.write", core.Unavailable, err, "finish the tar file")
	}
	return summary, nil
}

func write(ctx context.Context, to sink, in Input) (Summary, error) {
	const op = "evidence.write"
	if in.Now.IsZero() {
		in.Now = in.Result.Finished
	}
	m := Manifest{Format: format, ID: in.ID, Created: in.Now.UTC(), Result: in.Result, Artifacts: []exam.Artifact{}}
	seen := map[string]bool{}
	for _, a := range artifactsOf(in.Result) {
		if in.Blobs == nil || !in.Blobs.Has(a.Digest) {
			m.Lost = append(m.Lost, a)
			continue
		}
		m.Artifacts = append(m.Artifacts, a)
	}
	manifest, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return Summary{}, core.E(op, core.Internal, err, "manifest")
	}
	lines, err := signAll(in, m, manifest)
	if err != nil {
		return Summary{}, err
	}
	summary := Summary{Digest: digestOf(manifest), Statements: bytes.Count(lines, []byte{'\n'}), Bytes: int64(len(manifest) + len(lines))}
	for _, f := range []struct {
		name string
		data []byte
	}{{ManifestName, manifest}, {StatementsName, lines}} {
		if err := to.file(f.name, int64(len(f.data)), bytes.NewReader(f.data)); err != nil {
			return Summary{}, core.E(op, core.Unavailable, err, "write %s", f.name)
		}
	}
	for _, a := range m.Artifacts {
		if seen[a.Digest] {
			continue
		}
		seen[a.Digest] = true
		if err := ctx.Err(); err != nil {
			return Summary{}, core.E(op, core.KindOf(err), err, "bundle is not finished")
		}
		if err := copyArtifact(to, in.Blobs, a); err != nil {
			return Summary{}, err
		}
		summary.Artifacts++
		summary.Bytes += a.Size
	}
	return summary, nil
}

func copyArtifact(to sink, blobs *blob.Store, a exam.Artifact) (err error) {
	_, body, ok := cutDigest(a.Digest)
	if !ok {
		return core.E("evidence.write", core.Internal, nil, "artifact %s has the digest %q", a.Name, a.Digest)
	}
	f, err := blobs.Open(a.Digest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := to.file(artifactsDir+body, a.Size, f); err != nil {
		return core.E("evidence.write", core.Unavailable, err, "write artifact %s", a.Name)
	}
	return nil
}

// artifactsOf lists every artifact of a result in a fixed order.
func artifactsOf(r exam.Result) []exam.Artifact {
	var out []exam.Artifact
	for _, run := range r.Runs {
		out = append(out, run.Artifacts...)
	}
	for _, p := range r.Pictures {
		for _, a := range []*exam.Artifact{p.Before, p.After, p.Difference} {
			if a != nil {
				out = append(out, *a)
			}
		}
	}
	return out
}

// signAll makes the lines of the statements file. The last one lists the
// digests of all before it.
func signAll(in Input, m Manifest, manifest []byte) ([]byte, error) {
	r := in.Result
	p := predicate{
		Created: in.Now.UTC(), Verdict: r.Verdict, Code: r.Code, Tier: r.Tier, Reasons: r.Reasons, NotShown: r.NotShown,
		Repository: r.Exam.Repository, Base: commitTree{r.Exam.Base, r.BaseTree}, Head: commitTree{r.Exam.Head, r.HeadTree},
		Environment: r.Exam.Environment, Snapshot: r.Exam.Snapshot, Runtime: r.Exam.Runtime,
		Cases: r.Cases, Acknowledged: r.Acknowledged, Commands: []command{}, Statements: []listed{}, Artifacts: []listed{},
		Manifest: listed{ManifestName, digestOf(manifest), int64(len(manifest))},
	}
	for _, run := range r.Runs {
		p.Commands = append(p.Commands, command{run.Cell, run.Try, run.Check, run.Command, run.ExitCode, run.Cached})
	}
	seen := map[string]bool{}
	for _, a := range m.Artifacts {
		if !seen[a.Digest] {
			seen[a.Digest] = true
			p.Artifacts = append(p.Artifacts, listed{a.Name, a.Digest, a.Size})
		}
	}
	var out []byte
	names, statements := testStatements(r)
	for i, s := range statements {
		line, err := in.Key.sign(s)
		if err != nil {
			return nil, core.E("evidence.write", core.Internal, err, "statement %s", names[i])
		}
		p.Statements = append(p.Statements, listed{names[i], digestOf(line), int64(len(line))})
		out = append(append(out, line...), '\n')
	}
	p.Counts = counts{Statements: len(p.Statements), Artifacts: len(p.Artifacts)}
	line, err := in.Key.sign(statement{Type: StatementType, Subject: subject(r), PredicateType: EvidenceType, Predicate: p})
	if err != nil {
		return nil, core.E("evidence.write", core.Internal, err, "the evidence statement")
	}
	return append(append(out, line...), '\n'), nil
}

type dirSink string

func (d dirSink) file(name string, size int64, r io.Reader) error {
	p := filepath.Join(string(d), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, size+1))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Sync(), f.Close())
}

type tarSink struct{ w *tar.Writer }

func (t tarSink) file(name string, size int64, r io.Reader) error {
	if err := t.w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Format: tar.FormatPAX}); err != nil {
		return err
	}
	n, err := io.Copy(t.w, io.LimitReader(r, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
