package registry

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot/overlay"
)

const (
	maxReferrers = 50
	maxArtifact  = 32 // files of a memory image, and what goes with it
)

// readMemory finds the newest memory image that refers to the image. A damaged
// one is an error, none is not.
func (p *pulling) readMemory(ctx context.Context) error {
	if p.req.NoMemory {
		return nil
	}
	list, err := p.from.Referrers(ctx, p.digest)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(d image.Descriptor) bool { return d.ArtifactType != mediaMemory })
	if len(list) == 0 {
		return nil
	}
	newest := slices.MaxFunc(list[:min(len(list), maxReferrers)], func(a, b image.Descriptor) int {
		return made(a).Compare(made(b))
	})
	if !image.IsDigest(newest.Digest) {
		return refuse("%.100q is no digest", newest.Digest)
	}
	_, raw, err := p.from.Manifest(ctx, newest.Digest)
	if err != nil {
		return err
	}
	if err := decode(raw, &p.memM, false); err != nil {
		return refuse("manifest of the memory image cannot be read: %v", err)
	}
	if p.memM.Subject == nil || p.memM.Subject.Digest != p.digest || p.memM.ArtifactType != mediaMemory || len(p.memM.Layers) > maxArtifact {
		return refuse("the memory image %s belongs to another image", newest.Digest)
	}
	raw, err = p.small(ctx, p.memM.Config, mediaMemoryJSON)
	if err != nil {
		return err
	}
	if len(raw) > maxDescribed {
		return refuse("the description of the memory image has %d bytes", len(raw))
	}
	var mem memory
	if err := decode(raw, &mem, true); err != nil {
		return refuse("the description of the memory image cannot be read: %v", err)
	}
	if mem.Format != format {
		return refuse("the form of the memory image is %d, this build reads %d", mem.Format, format)
	}
	if err := p.checkMemory(mem); err != nil {
		return err
	}
	p.mem = &mem
	return nil
}

func made(d image.Descriptor) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, d.Annotations[annoCreated])
	return t
}

// checkMemory holds the artifact's blobs against its description.
func (p *pulling) checkMemory(mem memory) error {
	live := 0
	var names []string
	for _, l := range p.memM.Layers {
		if err := p.check(l, l.MediaType); err != nil {
			return err
		}
		switch l.MediaType {
		case mediaLayer:
			live++
		case mediaMemoryFile:
			names = append(names, l.Annotations[annoTitle])
		case mediaProgram:
		default:
			return refuse("the memory image has a part of the kind %.100q", l.MediaType)
		}
	}
	if (live == 1) != (mem.Memory.Live != nil) || live > 1 || live == 1 && !image.IsDigest(mem.LiveSum) {
		return refuse("the memory image does not have the files that it goes with")
	}
	if len(names) != len(mem.Memory.Files) {
		return refuse("the memory image has %d files and names %d", len(names), len(mem.Memory.Files))
	}
	for i, f := range mem.Memory.Files {
		if f.Name != names[i] || f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." || f.Name == "" || len(f.Name) > 100 || slices.Contains(names[:i], f.Name) {
			return refuse("%.100q is no file of a memory image", f.Name)
		}
		if f.Bytes < 0 || f.Bytes > p.s.opts.FileBytes {
			return core.E("snapshot.pull", core.Exhausted, nil, "%s of the memory image is said to have %d bytes; up to %d are taken", f.Name, f.Bytes, p.s.opts.FileBytes)
		}
	}
	return nil
}

// bringMemory adds what brings the memory image to a group.
func (p *pulling) bringMemory(ctx context.Context, group *errgroup.Group, slots chan struct{}, im overlay.Import, below func(context.Context) ([]string, error), out *overlay.Brought) {
	mem := p.mem.Memory
	out.Image = &sandbox.Image{Token: mem.Token, Fit: mem.Fit}
	out.Live, out.Services = mem.Live != nil, mem.Services
	group.Go(func() error {
		if err := os.Mkdir(im.Image, 0o700); err != nil {
			return core.E("snapshot.pull", core.Unavailable, err, "directory of the memory image")
		}
		inner, ctx := errgroup.WithContext(ctx)
		i := 0
		for _, l := range p.memM.Layers {
			if l.MediaType != mediaMemoryFile {
				continue
			}
			f := mem.Files[i]
			i++
			inner.Go(func() error {
				return p.file(ctx, l, "memory image, "+f.Name, filepath.Join(im.Image, f.Name), f.Bytes, slots)
			})
		}
		return inner.Wait()
	})
	for _, l := range p.memM.Layers {
		if l.MediaType != mediaLayer {
			continue
		}
		b := image.Blob{Descriptor: l, DiffID: p.mem.LiveSum, Open: func(ctx context.Context) io.ReadCloser {
			return p.open(ctx, "files of the running state", l, slots)
		}}
		group.Go(func() error {
			return p.unpack(ctx, b, im.LiveUpper, below)
		})
	}
}

// file fetches and unpacks one file of known size.
func (p *pulling) file(ctx context.Context, d image.Descriptor, what, path string, size int64, slots chan struct{}) error {
	blob := p.open(ctx, what, d, slots)
	defer blob.Close()
	plain, done, err := unzip(blob, size)
	if err != nil {
		return refuse("%s is damaged: %v", what, err)
	}
	defer done()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return core.E("snapshot.pull", core.Unavailable, err, "%s", what)
	}
	defer f.Close()
	n, err := io.CopyBuffer(f, plain, make([]byte, 256<<10))
	if err == nil {
		_, err = io.Copy(io.Discard, blob) // so that all of it was checked
	}
	if err != nil {
		return core.E("snapshot.pull", kindOf(err), err, "%s", what)
	}
	if n != size {
		return refuse("%s has %d bytes, not %d", what, n, size)
	}
	return f.Close()
}

// kindOf takes what no part of the program has named for damage.
func kindOf(err error) core.Kind {
	if k := core.KindOf(err); k != core.Internal {
		return k
	}
	return core.Invalid
}

// takePrograms keeps the programs that come with a memory image, if asked to.
func (p *pulling) takePrograms(ctx context.Context) error {
	if p.mem == nil || !p.req.Runtime || p.s.deps.Programs == nil {
		return nil
	}
	slots := make(chan struct{}, 1)
	for _, l := range p.memM.Layers {
		if l.MediaType != mediaProgram {
			continue
		}
		kind, digest := l.Annotations[annoKind], l.Annotations[annoDigest]
		if !slices.Contains(programs(p.mem.Memory), [2]string{kind, digest}) {
			return refuse("program %.50q with digest %.80q is not what the memory image is bound to", kind, digest)
		}
		blob := p.open(ctx, "program "+kind, l, slots)
		plain, done, err := unzip(blob, maxProgram)
		if err == nil {
			err = p.s.deps.Programs.KeepProgram(kind, digest, plain)
			done()
		}
		_ = blob.Close()
		if err != nil {
			return core.E("snapshot.pull", kindOf(err), err, "program %s", kind)
		}
	}
	return nil
}

const maxProgram = 1 << 30
