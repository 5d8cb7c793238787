package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
)

// PushRequest says what goes where.
type PushRequest struct {
	Snapshot  core.SnapshotID
	Reference string
	Origin    *Origin // the environment it was made for; may be nil
	NoMemory  bool
	Runtime   bool // the programs that the memory image is bound to, too
	Insecure  bool
}

// Pushed says what is in the registry now.
type Pushed struct {
	Snapshot  core.SnapshotID
	Reference string
	Digest    string // of the image
	Memory    string // digest of the memory image's artifact; "" without one
	Layers    int
	Bytes     int64 // of everything, packed
	Sent      int64 // of it, in this push
}

// pushing is one push.
type pushing struct {
	s    *Service
	req  PushRequest
	to   *image.Remote
	say  *reporter
	m    snapshot.Manifest
	dirs []string // of m.Layers
	mem  *overlay.Restorable

	bytes, sent atomic.Int64
}

// Push sends a snapshot with all it stands on. What is there already is not
// sent again; broken off anywhere, a second Push goes on. The tag is written
// last.
func (s *Service) Push(ctx context.Context, req PushRequest, report func(Progress)) (Pushed, error) {
	p := &pushing{s: s, req: req, say: &reporter{say: report}}
	release, err := p.acquire(ctx)
	if err != nil {
		return Pushed{}, err
	}
	defer release()
	access := image.Access{Push: true, Insecure: req.Insecure, From: s.mounts(req.Reference, p.m.Layers)}
	if p.to, err = s.deps.Images.Remote(ctx, req.Reference, access); err != nil {
		return Pushed{}, about(req.Reference, err)
	}
	defer p.to.Close()
	tag, ok := p.to.Identifier()
	if !ok {
		return Pushed{}, core.E("snapshot.push", core.Invalid, nil, "%s names a digest, which a push finds out itself", req.Reference).
			WithHint("give a tag: registry/repository:tag")
	}
	out, err := p.run(ctx, tag)
	return out, about(req.Reference, err)
}

// acquire keeps everything in its place for the time of the push.
func (p *pushing) acquire(ctx context.Context) (release func(), err error) {
	snaps := p.s.deps.Snapshots
	if !p.req.NoMemory {
		mem, release, err := snaps.AcquireMemory(ctx, p.req.Snapshot)
		if err == nil {
			if p.m, err = snaps.Get(ctx, p.req.Snapshot); err != nil {
				release()
				return nil, err
			}
			p.mem, p.dirs = &mem, mem.Layers
			if mem.Live {
				p.dirs = mem.Layers[1:]
			}
			return release, nil
		}
		if !core.Is(err, core.NotFound) {
			p.say.report(Progress{State: StateWarning, What: "the memory image stays here: " + err.Error()})
		}
	}
	p.dirs, release, err = snaps.Acquire(ctx, p.req.Snapshot)
	if err != nil {
		return nil, err
	}
	if p.m, err = snaps.Get(ctx, p.req.Snapshot); err != nil {
		release()
	}
	return release, err
}

// layerKey is the same for the same layer on the same ones.
func layerKey(layers []snapshot.Layer) string {
	parts := []string{"layer"}
	for _, l := range layers {
		parts = append(parts, string(l.Snapshot), strconv.FormatBool(l.Live), l.Base, l.Path, l.Sum)
	}
	return key(parts...)
}

// mounts are the repositories of the same registry that layers were sent to.
func (s *Service) mounts(reference string, layers []snapshot.Layer) []string {
	const most = 3
	host, rest, _ := strings.Cut(reference, "/")
	var out []string
	for i := range layers {
		p, _ := s.known(layerKey(layers[i:]))
		for _, at := range p.At {
			repo, ok := strings.CutPrefix(at, host+"/")
			if ok && !strings.HasPrefix(rest, repo+":") && !slices.Contains(out, repo) && len(out) < most {
				out = append(out, repo)
			}
		}
	}
	return out
}

func (p *pushing) run(ctx context.Context, tag string) (Pushed, error) {
	layers := make([]packed, len(p.m.Layers)) // bottom first
	var files []fileBlob
	var live packed
	if p.mem != nil {
		files = p.memoryFiles()
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(p.s.opts.Parallel)
	send := func(src source, into *packed) {
		group.Go(func() (err error) {
			*into, err = p.send(inner, src)
			return err
		})
	}
	for i := range p.m.Layers {
		n := len(layers) - i
		send(p.layer(fmt.Sprintf("layer %d of %d", n, len(layers)), p.m.Layers[i:], p.dirs[i:]), &layers[n-1])
	}
	if p.mem != nil && p.mem.Live {
		all := append([]snapshot.Layer{*p.m.Memory.Live}, p.m.Layers...)
		send(p.layer("files of the running state", all, p.mem.Layers), &live)
	}
	for i := range files {
		send(files[i].source, &files[i].packed)
	}
	if err := group.Wait(); err != nil {
		return Pushed{}, err
	}
	subject, raw, err := p.image(ctx, layers)
	if err != nil {
		return Pushed{}, err
	}
	out := Pushed{Snapshot: p.m.ID, Reference: p.to.Name(), Digest: subject.Digest, Layers: len(layers)}
	if p.mem != nil {
		if out.Memory, err = p.memory(ctx, subject, files, live); err != nil {
			return Pushed{}, err
		}
	}
	if _, err := p.to.PutManifest(ctx, tag, mediaManifest, raw); err != nil {
		return Pushed{}, err
	}
	out.Bytes, out.Sent = p.bytes.Load(), p.sent.Load()
	return out, nil
}

func (p *pushing) send(ctx context.Context, src source) (packed, error) {
	got, sent, err := p.s.send(ctx, p.to, src, p.say)
	p.bytes.Add(got.Size)
	p.sent.Add(sent)
	return got, err
}

// layer is the topmost of some layers.
func (p *pushing) layer(what string, layers []snapshot.Layer, dirs []string) source {
	return source{what, layerKey(layers), func(ctx context.Context, w io.Writer) error {
		return pack(ctx, w, dirs, func(text string) { p.say.report(Progress{State: StateWarning, What: text}) })
	}}
}

// image writes the manifest under its digest: nobody finds it without the tag.
func (p *pushing) image(ctx context.Context, layers []packed) (image.Descriptor, []byte, error) {
	m, config, err := compose(describe(p.m, p.req.Origin), layers)
	if err != nil {
		return image.Descriptor{}, nil, err
	}
	if _, err := sendSmall(ctx, p.to, mediaConfig, config); err != nil {
		return image.Descriptor{}, nil, err
	}
	return p.put(ctx, m)
}

func (p *pushing) put(ctx context.Context, m manifest) (image.Descriptor, []byte, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return image.Descriptor{}, nil, err
	}
	if len(raw) > image.MaxManifest {
		return image.Descriptor{}, nil, core.E("snapshot.push", core.Exhausted, nil, "the manifest has %d bytes, more than registries take", len(raw))
	}
	d := image.Descriptor{MediaType: mediaManifest, ArtifactType: m.ArtifactType, Digest: image.Digest(raw), Size: int64(len(raw))}
	refers, err := p.to.PutManifest(ctx, d.Digest, mediaManifest, raw)
	if err == nil && m.Subject != nil && !refers {
		listed := d
		listed.Annotations = m.Annotations
		err = p.to.Refer(ctx, m.Subject.Digest, listed)
	}
	return d, raw, err
}

// fileBlob is one file that goes with the memory image.
type fileBlob struct {
	source
	packed
	mediaType   string
	annotations map[string]string
}

func (p *pushing) memoryFiles() []fileBlob {
	mem := p.m.Memory
	var out []fileBlob
	for _, f := range mem.Files {
		path := filepath.Join(p.mem.Image.Dir, f.Name)
		out = append(out, fileBlob{
			mediaType: mediaMemoryFile, annotations: map[string]string{annoTitle: f.Name},
			source: source{
				what: "memory image, " + f.Name,
				key:  key("memory", string(p.m.ID), mem.Created.Format(time.RFC3339Nano), f.Name, f.Sum, strconv.FormatInt(f.Bytes, 10)),
				pack: func(ctx context.Context, w io.Writer) error {
					r, err := os.Open(path)
					if err != nil {
						return err
					}
					defer r.Close()
					return copyAll(ctx, w, r, f.Bytes)
				},
			},
		})
	}
	if !p.req.Runtime || p.s.deps.Programs == nil {
		return out
	}
	for _, prog := range programs(*mem) {
		out = append(out, fileBlob{
			mediaType: mediaProgram, annotations: map[string]string{annoKind: prog[0], annoDigest: prog[1]},
			source: source{
				what: "program " + prog[0], key: key("program", prog[0], prog[1]),
				pack: func(ctx context.Context, w io.Writer) error {
					r, size, err := p.s.deps.Programs.OpenProgram(prog[0], prog[1])
					if err != nil {
						return err
					}
					defer r.Close()
					return copyAll(ctx, w, r, size)
				},
			},
		})
	}
	return out
}

// programs that a memory image is bound to: kind and digest.
func programs(m snapshot.Memory) [][2]string {
	return [][2]string{{"runsc", m.Fit.Runtime}, {"drydock-init", m.Fit.Init}}
}

func copyAll(ctx context.Context, w io.Writer, r io.Reader, size int64) error {
	n, err := io.CopyBuffer(w, &breaking{ctx, io.LimitReader(r, size+1)}, make([]byte, 256<<10))
	if err == nil && n != size {
		err = fmt.Errorf("it has %d bytes, not %d", n, size)
	}
	return err
}

// breaking ends a copy with its context.
type breaking struct {
	ctx context.Context //nolint:containedctx // of one copy
	r   io.Reader
}

func (b *breaking) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

// memory writes the artifact of the memory image.
func (p *pushing) memory(ctx context.Context, subject image.Descriptor, files []fileBlob, live packed) (string, error) {
	config, err := json.Marshal(memory{Format: format, Memory: *p.m.Memory, LiveSum: live.DiffID})
	if err != nil {
		return "", err
	}
	m := manifest{
		SchemaVersion: 2, MediaType: mediaManifest, ArtifactType: mediaMemory, Subject: &subject,
		Annotations: map[string]string{annoCreated: p.m.Memory.Created.Format(time.RFC3339Nano)},
	}
	if m.Config, err = sendSmall(ctx, p.to, mediaMemoryJSON, config); err != nil {
		return "", err
	}
	for _, f := range files {
		m.Layers = append(m.Layers, image.Descriptor{MediaType: f.mediaType, Digest: f.Digest, Size: f.Size, Annotations: f.annotations})
	}
	if p.mem.Live {
		m.Layers = append(m.Layers, image.Descriptor{MediaType: mediaLayer, Digest: live.Digest, Size: live.Size})
	}
	d, _, err := p.put(ctx, m)
	return d.Digest, err
}
