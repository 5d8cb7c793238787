package image

import (
	"context"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"drydock/internal/core"
)

// Blob is one packed layer.
type Blob struct {
	Descriptor
	DiffID string // digest of what is in it
	Open   func(context.Context) io.ReadCloser
}

// Stack is a number of layers that somebody else knows the meaning of.
type Stack struct {
	Digest string // under which they are kept; of an image
	Name   string // for people
	Blobs  []Blob // bottom first
	Limits Limits
}

// Lay brings the layers of a stack in, those that are not there, and keeps them
// as an image. Directories are topmost first.
func (s *Store) Lay(ctx context.Context, st Stack) (Image, error) {
	st.Limits.fill()
	key := hash(ociFormat, "stack", st.Digest)
	if img, ok := s.load(key); ok {
		return img, nil
	}
	p := parts{limits: st.Limits}
	byDigest := map[v1.Hash]Blob{}
	for _, b := range st.Blobs {
		if !IsDigest(b.Digest) || !IsDigest(b.DiffID) {
			return Image{}, core.E("image.stack", core.Invalid, nil, "a layer of %s is not named by sha256", st.Name)
		}
		h := v1.Hash{Algorithm: "sha256", Hex: b.Digest[7:]}
		byDigest[h] = b
		p.layers = append(p.layers, v1.Descriptor{MediaType: types.MediaType(b.MediaType), Digest: h, Size: b.Size})
		p.diffIDs = append(p.diffIDs, b.DiffID[7:])
	}
	ids, err := s.pull(ctx, p, Request{Base: st.Name, Progress: func(string) {}}, func(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
		return byDigest[d.Digest].Open(ctx), nil
	})
	if err != nil {
		return Image{}, err
	}
	img := Image{Digest: st.Digest, Base: st.Name, Created: time.Now().UTC()}
	for _, id := range ids {
		img.Layers = append(img.Layers, s.layerDir(id))
	}
	img.OS = readOS(img.Layers)
	return img, s.save(key, img, ids)
}

// Unpack writes one layer into a directory that exists and is empty, in
// overlayfs form. Below says which directories lie below it, topmost first; it
// may wait for them.
func (s *Store) Unpack(ctx context.Context, b Blob, dir string, limits Limits, below func(context.Context) ([]string, error)) error {
	limits.fill()
	r, err := s.unpackInto(ctx, b, dir, limits, nil)
	if err != nil {
		return err
	}
	layers, err := below(ctx)
	if err != nil {
		return err
	}
	v, err := openView(layers)
	if err != nil {
		return core.E("image.unpack", core.Internal, err, "cannot open the layers below %s", b.Digest)
	}
	defer v.close()
	if !r.needs(v) {
		return nil
	}
	if err := clearDir(dir); err != nil {
		return core.E("image.unpack", core.Internal, err, "cannot empty %s", dir)
	}
	_, err = s.unpackInto(ctx, b, dir, limits, v)
	return err
}

func (s *Store) unpackInto(ctx context.Context, b Blob, dir string, limits Limits, lower *view) (report, error) {
	blob := b.Open(ctx)
	defer func() { _ = blob.Close() }()
	return s.unpackFrom(ctx, blob, "layer "+b.Digest, dir, b.DiffID[7:], lower, limits)
}
