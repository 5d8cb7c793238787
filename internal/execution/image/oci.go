package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
)

const (
	ociFormat   = "oci 1"
	maxConfig   = 8 << 20
	pullTries   = 3
	ratioFrom   = 64 << 20 // bytes from which on the ratio of unpacked to packed counts
	refNameAnno = "org.opencontainers.image.ref.name"
)

// registry pulls an image by reference.
func (s *Store) registry(ctx context.Context, req Request) (Image, error) {
	ref, err := s.parseReference(req.Base, s.opts.Registry.Insecure)
	if err != nil {
		return Image{}, err
	}
	refKey := hash(ociFormat, "reference", ref.Name(), runtime.GOARCH)
	if _, exact := ref.(name.Digest); exact {
		if img, ok := s.load(refKey); ok {
			return img, nil
		}
	}
	auth, err := s.credentials(ref.Context().RegistryStr())
	if err != nil {
		return Image{}, err
	}
	rt, err := s.httpTransport(s.opts.Registry.Insecure, time.Minute)
	if err != nil {
		return Image{}, err
	}
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		defer c.CloseIdleConnections()
	}
	opts := []remote.Option{
		remote.WithContext(ctx), remote.WithAuth(auth), remote.WithTransport(rt), remote.WithUserAgent("drydock"),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}
	req.Progress("asking the registry for " + ref.Name())
	puller, err := remote.NewPuller(opts...)
	if err != nil {
		return Image{}, remoteError(err, "image "+ref.Name())
	}
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		err = remoteError(err, "image "+ref.Name())
		// A registry that is away does not stop work on what is here already.
		if img, ok := s.load(refKey); ok && core.Is(err, core.Unavailable) {
			s.log.Warn("registry is away, using the image pulled before", "image", ref.Name(), "digest", img.Digest, "cause", err)
			req.Progress("the registry is away; using what was pulled before")
			return img, nil
		}
		return Image{}, err
	}
	img, err := desc.Image()
	if err != nil {
		return Image{}, remoteError(err, "image "+ref.Name()+" for linux/"+runtime.GOARCH)
	}
	blobs, err := s.Remote(ctx, req.Base, Access{})
	if err != nil {
		return Image{}, err
	}
	defer blobs.Close()
	out, ids, err := s.take(ctx, img, req, func(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
		return blobs.Blob(ctx, Descriptor{Digest: d.Digest.String(), Size: d.Size}), nil
	})
	if err != nil {
		return Image{}, err
	}
	return out, s.save(refKey, out, ids)
}

// layout reads an image from an OCI layout: "DIR", "DIR:tag" or
// "DIR@sha256:...".
func (s *Store) layout(ctx context.Context, spec string, req Request) (Image, error) {
	dir, want := splitLayout(spec)
	bad := func(kind core.Kind, err error, why string) error {
		return core.E("image.layout", kind, err, "OCI layout %q: %s", spec, why)
	}
	if !filepath.IsAbs(dir) {
		return Image{}, bad(core.Invalid, nil, "the directory is not absolute")
	}
	index, err := layout.ImageIndexFromPath(dir)
	if errors.Is(err, os.ErrNotExist) {
		return Image{}, bad(core.NotFound, err, "there is none")
	}
	if err != nil {
		return Image{}, bad(core.Invalid, err, "it cannot be read")
	}
	img, err := pickImage(index, want, 0)
	if err != nil {
		return Image{}, bad(core.NotFound, err, "it holds no image for linux/"+runtime.GOARCH+" that fits")
	}
	out, _, err := s.take(ctx, img, req, func(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
		layer, err := img.LayerByDigest(d.Digest)
		if err != nil {
			return nil, err
		}
		return layer.Compressed()
	})
	return out, err
}

// splitLayout takes "DIR:tag" and "DIR@sha256:..." apart.
func splitLayout(spec string) (dir, want string) {
	if dir, digest, ok := strings.Cut(spec, "@sha256:"); ok {
		return dir, "sha256:" + digest
	}
	if i := strings.LastIndexByte(spec, ':'); i > strings.LastIndexByte(spec, '/') {
		return spec[:i], spec[i+1:]
	}
	return spec, ""
}

var errNoImage = errors.New("no image fits")

// pickImage finds the image of this machine's platform under a tag or digest,
// or the only one.
func pickImage(index v1.ImageIndex, want string, depth int) (v1.Image, error) {
	if depth > 3 {
		return nil, errNoImage
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range manifest.Manifests {
		named := want == "" || d.Digest.String() == want || d.Annotations[refNameAnno] == want || strings.HasSuffix(d.Annotations[refNameAnno], ":"+want)
		switch {
		case d.MediaType.IsIndex():
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			deeper := want
			if named {
				deeper = ""
			}
			if img, err := pickImage(inner, deeper, depth+1); err == nil {
				return img, nil
			}
		case d.MediaType.IsImage() && named && (d.Platform == nil || d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH):
			img, err := index.Image(d.Digest)
			if err != nil {
				return nil, err
			}
			// A layout on disk is not checked by whoever reads it.
			if got, err := img.Digest(); err != nil || got != d.Digest {
				return nil, fmt.Errorf("manifest %s is damaged", d.Digest)
			}
			return img, nil
		}
	}
	return nil, errNoImage
}

// opener begins the download of a layer.
type opener func(context.Context, v1.Descriptor) (io.ReadCloser, error)

// parts of an image that were checked.
type parts struct {
	digest  v1.Hash
	config  *v1.ConfigFile
	layers  []v1.Descriptor // bottom first
	diffIDs []string        // in hex
	limits  Limits
}

func (s *Store) inspect(img v1.Image, base string) (parts, error) {
	p := parts{limits: s.opts.Limits}
	bad := func(err error, why string) (parts, error) {
		return p, core.E("image.inspect", core.Invalid, err, "image %s is refused: %s", base, why)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return p, remoteError(err, "manifest of "+base)
	}
	if p.digest, err = img.Digest(); err != nil {
		return bad(err, "its manifest cannot be read")
	}
	if manifest.Config.Size > maxConfig || !manifest.Config.MediaType.IsConfig() {
		return bad(nil, "its configuration is too large or of an unknown kind; is it an image?")
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return p, remoteError(err, "configuration of "+base)
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != manifest.Config.Digest.Hex {
		return bad(nil, "its configuration does not have the digest that the manifest names")
	}
	p.config = &v1.ConfigFile{}
	if err := json.Unmarshal(raw, p.config); err != nil {
		return bad(err, "its configuration cannot be read")
	}
	if p.config.OS != "linux" || p.config.Architecture != runtime.GOARCH {
		return bad(nil, fmt.Sprintf("it is for %s/%s, this host is linux/%s", p.config.OS, p.config.Architecture, runtime.GOARCH))
	}
	if len(manifest.Layers) == 0 || len(manifest.Layers) > s.opts.Limits.Layers || len(manifest.Layers) != len(p.config.RootFS.DiffIDs) {
		return bad(nil, fmt.Sprintf("it has %d layers and names %d; from 1 to %d are taken", len(manifest.Layers), len(p.config.RootFS.DiffIDs), s.opts.Limits.Layers))
	}
	for i, l := range manifest.Layers {
		id := p.config.RootFS.DiffIDs[i]
		if !l.MediaType.IsLayer() || !l.MediaType.IsDistributable() || len(l.URLs) > 0 {
			return bad(nil, fmt.Sprintf("layer %s is of the kind %q", l.Digest, l.MediaType))
		}
		if id.Algorithm != "sha256" || !isHex(id.Hex) {
			return bad(nil, "a layer is not named by sha256")
		}
		p.layers = append(p.layers, l)
		p.diffIDs = append(p.diffIDs, id.Hex)
	}
	return p, nil
}

// take brings every layer of an image in and keeps the image under its digest.
func (s *Store) take(ctx context.Context, img v1.Image, req Request, open opener) (Image, []string, error) {
	p, err := s.inspect(img, req.Base)
	if err != nil {
		return Image{}, nil, err
	}
	key := hash(ociFormat, "digest", p.digest.String())
	if out, ok := s.load(key); ok {
		out.Base = req.Base
		ids := make([]string, 0, len(out.Layers))
		for _, l := range out.Layers {
			ids = append(ids, filepath.Base(l))
		}
		return out, ids, nil
	}
	ids, err := s.pull(ctx, p, req, open)
	if err != nil {
		return Image{}, nil, err
	}
	out := Image{
		Digest: p.digest.String(), Base: req.Base, Created: time.Now().UTC(),
		User: p.config.Config.User, WorkDir: p.config.Config.WorkingDir,
		Cmd: append(slices.Clone(p.config.Config.Entrypoint), p.config.Config.Cmd...),
	}
	for _, kv := range p.config.Config.Env {
		if name, _, ok := strings.Cut(kv, "="); ok && name != "" && !strings.ContainsRune(kv, 0) {
			out.Env = append(out.Env, kv)
		}
	}
	for _, id := range ids {
		out.Layers = append(out.Layers, s.layerDir(id))
	}
	out.OS = readOS(out.Layers)
	return out, ids, s.save(key, out, ids)
}

// pull returns the layers' names, topmost first.
func (s *Store) pull(ctx context.Context, p parts, req Request, open opener) ([]string, error) {
	reports := make([]report, len(p.layers))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(s.opts.Registry.Parallel)
	say := serial(req.Progress)
	for i, l := range p.layers {
		group.Go(func() error {
			r, err := s.layer(inner, p.diffIDs[i], p.diffIDs[i], l, nil, p.limits, open, func() {
				say(fmt.Sprintf("layer %d of %d (%d MiB)", i+1, len(p.layers), (l.Size+1<<20-1)>>20))
			})
			reports[i] = r
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var ids []string // topmost first
	for i := range p.layers {
		id, err := s.fit(ctx, p, i, ids, reports[i], open, say)
		if err != nil {
			return nil, err
		}
		// One directory may stand in a stack once. The upper place says all that
		// the lower one did.
		ids = slices.DeleteFunc(ids, func(have string) bool { return have == id })
		ids = slices.Insert(ids, 0, id)
	}
	return ids, nil
}

// fit returns the layer to use on top of those given: itself, or a version of
// it that was unpacked with sight of them.
func (s *Store) fit(ctx context.Context, p parts, i int, below []string, r report, open opener, say func(string)) (string, error) {
	id := p.diffIDs[i]
	if !r.Links && len(r.Implicit) == 0 {
		return id, nil
	}
	dirs := make([]string, 0, len(below))
	for _, b := range below {
		dirs = append(dirs, s.layerDir(b))
	}
	v, err := openView(dirs)
	if err != nil {
		return "", core.E("image.fit", core.Internal, err, "cannot open the layers below %s", id)
	}
	defer v.close()
	if !r.needs(v) {
		return id, nil
	}
	fitted := hash(append([]string{"fitted", id}, below...)...)
	_, err = s.layer(ctx, fitted, id, p.layers[i], v, p.limits, open, func() {
		say(fmt.Sprintf("layer %d of %d again, for links into those below", i+1, len(p.layers)))
	})
	return fitted, err
}

func serial(f func(string)) func(string) {
	turn := make(chan struct{}, 1)
	return func(s string) {
		turn <- struct{}{}
		defer func() { <-turn }()
		f(s)
	}
}

func (s *Store) reportPath(id string) string { return filepath.Join(s.dir, "images", id+".layer") }

func (s *Store) readReport(id string) (report, bool) {
	var r report
	raw, err := os.ReadFile(s.reportPath(id))
	return r, err == nil && json.Unmarshal(raw, &r) == nil && s.haveLayer(id)
}

// layer brings one layer in under the name id, unless it is there. Equal
// layers are fetched by one at a time.
func (s *Store) layer(ctx context.Context, id, diffID string, d v1.Descriptor, lower *view, limits Limits, open opener, starting func()) (report, error) {
	if r, ok := s.readReport(id); ok {
		return r, nil
	}
	lock, err := s.lock(ctx, id)
	if err != nil {
		return report{}, err
	}
	defer lock.release()
	if r, ok := s.readReport(id); ok {
		return r, nil
	}
	starting()
	for try := 1; ; try++ {
		r, err := s.fetch(ctx, id, diffID, d, lower, limits, open)
		if err == nil || try >= pullTries || !core.Is(err, core.Unavailable) || ctx.Err() != nil {
			return r, err
		}
		s.log.Warn("download of a layer broke off, trying again", "layer", d.Digest.String(), "try", try, "cause", err)
	}
}

// fetch downloads, unpacks, checks and promotes a layer.
func (s *Store) fetch(ctx context.Context, id, diffID string, d v1.Descriptor, lower *view, limits Limits, open opener) (report, error) {
	work, done, err := s.stage()
	if err != nil {
		return report{}, err
	}
	defer done()
	blob, err := open(ctx, d)
	if err != nil {
		return report{}, remoteError(err, "layer "+d.Digest.String())
	}
	defer func() { _ = blob.Close() }()
	r, err := s.unpackFrom(ctx, blob, "layer "+d.Digest.String(), work, diffID, lower, limits)
	if err != nil {
		return report{}, err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return report{}, core.E("image.pull", core.Internal, err, "cannot describe layer %s", d.Digest)
	}
	if err := writeFile(s.reportPath(id), raw); err != nil {
		return report{}, core.E("image.pull", core.Internal, err, "cannot describe layer %s", d.Digest)
	}
	return r, s.promote(work, id)
}

// unpackFrom unpacks a blob and says what was wrong with it: the way here, or
// what is in it.
func (s *Store) unpackFrom(ctx context.Context, blob io.Reader, what, dir, diffID string, lower *view, limits Limits) (report, error) {
	src := &packed{r: blob}
	r, err := s.unpackBlob(ctx, src, dir, diffID, lower, limits)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return r, core.E("image.pull", core.KindOf(ctx.Err()), ctx.Err(), "pulling %s was interrupted", what)
	case src.err != nil: // the stream broke before its content could be judged
		return r, remoteError(src.err, what)
	}
	return r, core.E("image.pull", core.KindOf(err), err, "%s is refused", what)
}

// unpackBlob undoes the compression on the way and compares the digest of what
// came out.
func (s *Store) unpackBlob(ctx context.Context, src *packed, dir, diffID string, lower *view, limits Limits) (report, error) {
	plain, closePlain, err := decompress(bufio.NewReaderSize(src, 64<<10))
	if err != nil {
		return report{}, err
	}
	defer closePlain()
	sum := sha256.New()
	counted := &bounded{r: io.TeeReader(plain, sum), src: src, limits: limits}
	r, err := unpack(ctx, counted, dir, lower, limits)
	if err != nil {
		return report{}, err
	}
	if _, err := io.Copy(io.Discard, counted); err != nil { // padding after the end mark
		return report{}, streamError(err)
	}
	if _, err := io.Copy(io.Discard, src); err != nil { // so that the whole blob was checked
		return report{}, streamError(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != diffID {
		return report{}, core.E("image.unpack", core.Invalid, nil, "its content has the digest %s, the image names %s", got, diffID)
	}
	return r, nil
}

// decompress recognises gzip and zstd by their first bytes.
func decompress(r *bufio.Reader) (io.Reader, func(), error) {
	head, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, streamError(err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, streamError(err)
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

// packed counts packed bytes and remembers how the stream broke.
type packed struct {
	r   io.Reader
	n   int64
	err error
}

func (c *packed) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// bounded refuses a stream that unpacks to too much, or out of too little.
type bounded struct {
	r      io.Reader
	src    *packed
	n      int64
	limits Limits
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	// Headers and holes come on top of what files may hold.
	if b.n > 2*b.limits.LayerBytes {
		return 0, core.E("image.unpack", core.Exhausted, nil, "a layer unpacks to more than %d bytes", b.limits.LayerBytes)
	}
	if b.n > ratioFrom && b.n/b.limits.Ratio > b.src.n {
		return 0, core.E("image.unpack", core.Exhausted, nil, "a layer unpacks to more than %d times its size", b.limits.Ratio)
	}
	return n, err
}
