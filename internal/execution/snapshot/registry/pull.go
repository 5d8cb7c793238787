package registry

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
)

// LabelPulled is the digest of the image that a snapshot was pulled from.
const LabelPulled = "pulled"

// PullRequest says what is to come here.
type PullRequest struct {
	Reference string
	// For says which environment it belongs to here; nil: none. It is asked
	// before anything large is fetched.
	For      func(ctx context.Context, origin *Origin, commit string) (core.EnvironmentID, error)
	NoMemory bool
	Runtime  bool // take programs that come with the memory image; they will run as root
	Insecure bool
}

// Pulled says what is on this host now.
type Pulled struct {
	Snapshot  core.Snapshot
	Reference string
	Digest    string
	Origin    *Origin // what the environment was where it was made
	Present   bool    // it was here already
	Fetched   int64   // bytes
	Labels    map[string]string
}

const (
	maxConfig = 8 << 20
	// What comes from elsewhere of a manifest must leave room for the rest.
	maxDescribed = 128 << 10
)

var commitOK = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})?$`)

// pulling is one pull.
type pulling struct {
	s    *Service
	req  PullRequest
	from *image.Remote
	say  *reporter

	digest string
	m      manifest
	d      described
	c      config
	mem    *memory
	memM   manifest

	env     core.EnvironmentID
	fetched counter
}

// Pull brings a snapshot here. It can be used when Pull returns, and not
// before; layers that are here are not fetched again.
func (s *Service) Pull(ctx context.Context, req PullRequest, report func(Progress)) (Pulled, error) {
	p := &pulling{s: s, req: req, say: &reporter{say: report}}
	var err error
	if p.from, err = s.deps.Images.Remote(ctx, req.Reference, image.Access{Insecure: req.Insecure}); err != nil {
		return Pulled{}, about(req.Reference, err)
	}
	defer p.from.Close()
	out, err := p.run(ctx)
	return out, about(req.Reference, err)
}

func (p *pulling) run(ctx context.Context) (Pulled, error) {
	if err := p.read(ctx); err != nil {
		return Pulled{}, err
	}
	out := Pulled{Reference: p.from.Name(), Digest: p.digest, Origin: p.d.Environment, Labels: p.d.Labels}
	if err := p.readMemory(ctx); err != nil {
		return Pulled{}, err
	}
	if p.req.For != nil {
		var err error
		if p.env, err = p.req.For(ctx, p.d.Environment, p.d.Commit); err != nil {
			return Pulled{}, err
		}
	}
	if row, ok := p.have(ctx); ok {
		out.Snapshot, out.Present = row, true
		return out, p.takePrograms(ctx)
	}
	row, err := p.fetch(ctx)
	if err != nil {
		return Pulled{}, err
	}
	p.note(row.ID)
	out.Snapshot, out.Fetched = row, p.fetched.load()
	return out, p.takePrograms(ctx)
}

func refuse(format string, args ...any) *core.Error {
	return core.E("snapshot.pull", core.Invalid, nil, format, args...)
}

// read reads and checks manifest, annotation and configuration.
func (p *pulling) read(ctx context.Context) error {
	what, _ := p.from.Identifier()
	d, raw, err := p.from.Manifest(ctx, what)
	if err != nil {
		return err
	}
	p.digest = d.Digest
	if err := decode(raw, &p.m, false); err != nil {
		return refuse("its manifest cannot be read: %v", err)
	}
	text, ok := p.m.Annotations[annotation]
	if len(text) > maxDescribed {
		return refuse("its description of the snapshot has %d bytes", len(text))
	}
	if !ok || p.m.MediaType != mediaManifest {
		return refuse("it is no snapshot that `drydock snapshot push` made").
			WithHint("an image of another kind can be the `base:` of a drydock.yaml")
	}
	if err := decode([]byte(text), &p.d, true); err != nil {
		return refuse("its description of the snapshot cannot be read: %v", err)
	}
	if p.d.Format != format {
		return refuse("its form is %d, this build reads %d", p.d.Format, format)
	}
	if len(p.d.Labels) > snapshot.MaxLabels-1 || p.d.Base < 0 || p.d.Base > len(p.m.Layers) || !commitOK.MatchString(p.d.Commit) {
		return refuse("its description of the snapshot makes no sense")
	}
	if n := len(p.m.Layers); n == 0 || n > snapshot.MaxLayers {
		return refuse("it has %d layers, not 1 to %d", n, snapshot.MaxLayers)
	}
	for _, l := range p.m.Layers {
		if err := p.check(l, mediaLayer); err != nil {
			return err
		}
	}
	if raw, err = p.small(ctx, p.m.Config, mediaConfig); err != nil {
		return err
	}
	if err := decode(raw, &p.c, false); err != nil {
		return refuse("its configuration cannot be read: %v", err)
	}
	if p.c.OS != "linux" || p.c.Architecture != runtime.GOARCH {
		return refuse("it is for %.20s/%.20s, this host is linux/%s", p.c.OS, p.c.Architecture, runtime.GOARCH)
	}
	if len(p.c.RootFS.DiffIDs) != len(p.m.Layers) || slices.ContainsFunc(p.c.RootFS.DiffIDs, func(id string) bool { return !image.IsDigest(id) }) {
		return refuse("its configuration does not name its layers")
	}
	return nil
}

// check refuses a descriptor before anything of it is fetched.
func (p *pulling) check(d image.Descriptor, mediaType string) error {
	switch {
	case d.MediaType != mediaType:
		return refuse("%s is of the kind %.100q, not %s", d.Digest, d.MediaType, mediaType)
	case !image.IsDigest(d.Digest):
		return refuse("%.100q is no digest", d.Digest)
	case d.Size <= 0 || d.Size > p.s.opts.BlobBytes:
		return core.E("snapshot.pull", core.Exhausted, nil, "blob %s is said to have %d bytes; from 1 to %d are taken", d.Digest, d.Size, p.s.opts.BlobBytes)
	}
	return nil
}

func (p *pulling) small(ctx context.Context, d image.Descriptor, mediaType string) ([]byte, error) {
	if err := p.check(d, mediaType); err != nil {
		return nil, err
	}
	if d.Size > maxConfig {
		return nil, refuse("configuration %s has %d bytes", d.Digest, d.Size)
	}
	r := p.from.Blob(ctx, d)
	defer r.Close()
	return io.ReadAll(r)
}

// have finds the snapshot that was pulled from the same image before.
func (p *pulling) have(ctx context.Context) (core.Snapshot, bool) {
	raw, err := os.ReadFile(p.noteFile())
	if err != nil {
		return core.Snapshot{}, false
	}
	id, err := core.ParseID[core.SnapshotID]("snp_", strings.TrimSpace(string(raw)))
	if err != nil {
		return core.Snapshot{}, false
	}
	_, release, err := p.s.deps.Snapshots.Acquire(ctx, id)
	if err != nil {
		return core.Snapshot{}, false
	}
	defer release()
	m, err := p.s.deps.Snapshots.Get(ctx, id)
	if err != nil || m.Labels[LabelPulled] != p.digest || m.Environment != p.env || m.Memory == nil && p.mem != nil {
		return core.Snapshot{}, false
	}
	return core.Snapshot{
		ID: id, Environment: m.Environment, Commit: m.Commit, State: core.SnapshotReady, Bytes: m.Layers[0].Bytes,
		Memory: m.Memory != nil, Created: m.Created,
	}, true
}

func (p *pulling) noteFile() string {
	return filepath.Join(p.s.pulled(), strings.TrimPrefix(p.digest, "sha256:")+string(p.env))
}

func (p *pulling) note(id core.SnapshotID) {
	if err := os.WriteFile(p.noteFile(), []byte(id), 0o600); err != nil {
		p.s.deps.Log.Warn("cannot note a pulled snapshot", "snapshot", id, "error", err)
	}
}

func badVariable(kv string) bool {
	name, _, ok := strings.Cut(kv, "=")
	return !ok || name == "" || strings.ContainsRune(kv, 0)
}

// fetch brings everything here and makes a snapshot of it.
func (p *pulling) fetch(ctx context.Context) (core.Snapshot, error) {
	labels := maps.Clone(p.d.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelPulled] = p.digest
	snaps := p.s.deps.Snapshots
	im, err := snaps.BeginImport(ctx, snapshot.Draft{
		Environment: p.env, Commit: p.d.Commit, Runtime: p.d.Runtime, Labels: labels,
		Image: snapshot.Image{User: p.d.Image.User, Env: slices.DeleteFunc(slices.Clone(p.d.Image.Env), badVariable)},
	})
	if err != nil {
		return core.Snapshot{}, err
	}
	brought, err := p.bring(ctx, im)
	var row core.Snapshot
	if err == nil {
		row, err = snaps.Imported(ctx, im, brought)
	}
	if err != nil {
		// It stays only if it was complete already.
		if undo := snaps.Abort(context.WithoutCancel(ctx), im.ID); undo != nil && !core.Is(undo, core.Conflict) {
			p.s.deps.Log.Error("what was pulled of a snapshot stays", "snapshot", im.ID, "error", undo)
		}
		return core.Snapshot{}, err
	}
	return row, nil
}

// bring writes all files of a snapshot aside.
func (p *pulling) bring(ctx context.Context, im overlay.Import) (overlay.Brought, error) {
	var out overlay.Brought
	n := len(p.m.Layers)
	lower, own := make(chan image.Image, 1), make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, p.s.opts.Parallel)
	below := func(ctx context.Context) ([]string, error) {
		select {
		case img := <-lower:
			lower <- img
			return img.Layers, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	group.Go(func() error {
		img, err := p.lower(ctx, slots)
		if err == nil {
			lower <- img
			for _, dir := range img.Layers {
				out.Base = append(out.Base, snapshot.Layer{Base: p.digest, Path: dir})
			}
		}
		return err
	})
	group.Go(func() error {
		err := p.unpack(ctx, p.blob(n-1, slots), im.Upper, below)
		if err == nil {
			close(own)
		}
		return err
	})
	if p.mem != nil {
		p.bringMemory(ctx, group, slots, im, func(ctx context.Context) ([]string, error) {
			dirs, err := below(ctx)
			if err != nil {
				return nil, err
			}
			select {
			case <-own:
				return append([]string{im.Upper}, dirs...), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, &out)
	}
	return out, group.Wait()
}

// blob is a layer of the image; at most as many as there are slots are open.
func (p *pulling) blob(i int, slots chan struct{}) image.Blob {
	what := fmt.Sprintf("layer %d of %d", i+1, len(p.m.Layers))
	return image.Blob{
		Descriptor: p.m.Layers[i], DiffID: p.c.RootFS.DiffIDs[i],
		Open: func(ctx context.Context) io.ReadCloser { return p.open(ctx, what, p.m.Layers[i], slots) },
	}
}

// lower brings every layer but the snapshot's own in, as a base image does.
func (p *pulling) lower(ctx context.Context, slots chan struct{}) (image.Image, error) {
	n := len(p.m.Layers)
	if n == 1 {
		return image.Image{}, nil
	}
	st := image.Stack{Digest: p.digest, Name: p.from.Name(), Limits: p.s.opts.Limits}
	for i := range n - 1 {
		st.Blobs = append(st.Blobs, p.blob(i, slots))
	}
	return p.s.deps.Images.Lay(ctx, st)
}

func (p *pulling) unpack(ctx context.Context, b image.Blob, dir string, below func(context.Context) ([]string, error)) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return core.E("snapshot.pull", core.Unavailable, err, "directory for %s", b.Digest)
	}
	// The root of a layer is the root of the machine.
	if err := os.Chmod(dir, 0o755); err != nil {
		return core.E("snapshot.pull", core.Unavailable, err, "directory for %s", b.Digest)
	}
	return p.s.deps.Images.Unpack(ctx, b, dir, p.s.opts.Limits, below)
}
