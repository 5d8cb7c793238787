package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"drydock/internal/core"
	"drydock/internal/execution/image"
)

// packFormat changes when the same layer begins to pack to other bytes.
const packFormat = "1"

// packed is what is known of something that was packed once.
type packed struct {
	Digest string   `json:"digest"`
	Size   int64    `json:"size"`
	DiffID string   `json:"diff_id"`
	At     []string `json:"at,omitempty"` // "registry/repository" that it was sent to
}

// source is something to pack and send.
type source struct {
	what string // for people
	key  string // the same key, the same content
	pack func(ctx context.Context, w io.Writer) error
}

func key(parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{packFormat}, parts...) {
		h.Write([]byte(p + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Service) known(key string) (packed, bool) {
	raw, err := os.ReadFile(filepath.Join(s.blobs(), key+".json"))
	var p packed
	if err != nil || json.Unmarshal(raw, &p) != nil || !image.IsDigest(p.Digest) || !image.IsDigest(p.DiffID) || p.Size <= 0 {
		return packed{}, false
	}
	return p, true
}

// learn keeps what is known; without it a layer is packed again.
func (s *Service) learn(key string, p packed, at string) {
	if at != "" && !slices.Contains(p.At, at) {
		p.At = append(p.At, at)
	}
	raw, err := json.Marshal(p)
	if err == nil {
		path := filepath.Join(s.blobs(), key+".json")
		if err = os.WriteFile(path+".new", raw, 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		s.deps.Log.Warn("cannot note what a layer packs to", "error", err)
	}
}

// sums counts and sums what is written.
type sums struct {
	h hash.Hash
	n int64
	w io.Writer
}

func (s *sums) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.h.Write(p[:n])
	s.n += int64(n)
	return n, err
}

func (s *sums) digest() string { return "sha256:" + hex.EncodeToString(s.h.Sum(nil)) }

// compress packs a source into a new file. The caller closes it; it has no
// name any more.
func (s *Service) compress(ctx context.Context, src source, report func(int64)) (*os.File, packed, error) {
	f, err := os.CreateTemp(s.tmp(), "blob-*")
	if err != nil {
		return nil, packed{}, core.E("snapshot.pack", core.Unavailable, err, "directory of packed snapshots")
	}
	p, err := func() (packed, error) {
		if err := os.Remove(f.Name()); err != nil {
			return packed{}, err
		}
		out := &sums{h: sha256.New(), w: f}
		// Blocks one after another, so that the same content is always the same
		// bytes; the second goroutine reads and sums meanwhile.
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(4<<20))
		if err != nil {
			return packed{}, err
		}
		plain := &sums{h: sha256.New(), w: z}
		if err := src.pack(ctx, &counting{plain, 0, report}); err != nil {
			_ = z.Close()
			return packed{}, err
		}
		if err := z.Close(); err != nil {
			return packed{}, err
		}
		return packed{Digest: out.digest(), Size: out.n, DiffID: plain.digest()}, nil
	}()
	if err != nil {
		_ = f.Close()
		return nil, packed{}, core.E("snapshot.pack", core.KindOf(err), err, "pack %s", src.what)
	}
	return f, p, nil
}

type counting struct {
	*sums
	said   int64
	report func(int64)
}

const reportEvery = 8 << 20

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.sums.Write(p)
	if c.n-c.said >= reportEvery {
		c.said = c.n
		c.report(c.n)
	}
	return n, err
}

// send brings a source into a repository, unless it is there.
func (s *Service) send(ctx context.Context, to *image.Remote, src source, say *reporter) (p packed, sent int64, err error) {
	here := to.Registry() + "/" + to.Repository()
	p, known := s.known(src.key)
	if known {
		if state, err := s.there(ctx, to, p); err != nil || state != "" {
			if err == nil {
				s.learn(src.key, p, here)
				say.report(Progress{src.what, state, p.Digest, p.Size, p.Size})
			}
			return p, 0, err
		}
	}
	say.report(Progress{What: src.what, State: StatePacking})
	f, again, err := s.compress(ctx, src, func(n int64) { say.report(Progress{What: src.what, State: StatePacking, Done: n}) })
	if err != nil {
		return p, 0, err
	}
	defer f.Close()
	again.At = p.At
	p = again
	s.learn(src.key, p, "")
	has, err := to.Has(ctx, p.Digest)
	if err != nil {
		return p, 0, err
	}
	if has {
		s.learn(src.key, p, here)
		say.report(Progress{src.what, StatePresent, p.Digest, p.Size, p.Size})
		return p, 0, nil
	}
	err = to.Upload(ctx, image.Descriptor{Digest: p.Digest, Size: p.Size}, f, func(done int64) {
		if done < p.Size {
			say.report(Progress{src.what, StateSending, p.Digest, done, p.Size})
		}
	})
	if err != nil {
		return p, 0, err
	}
	s.learn(src.key, p, here)
	say.report(Progress{src.what, StateDone, p.Digest, p.Size, p.Size})
	return p, p.Size, nil
}

// there says how a blob comes to be in a repository without sending it.
func (s *Service) there(ctx context.Context, to *image.Remote, p packed) (state string, err error) {
	has, err := to.Has(ctx, p.Digest)
	if err != nil || has {
		return StatePresent, err
	}
	for _, at := range p.At {
		repo, ok := strings.CutPrefix(at, to.Registry()+"/")
		if ok && repo != to.Repository() && to.Mount(ctx, p.Digest, repo) {
			return StateMounted, nil
		}
	}
	return "", nil
}

// sendSmall sends a blob that is in memory.
func sendSmall(ctx context.Context, to *image.Remote, mediaType string, raw []byte) (image.Descriptor, error) {
	d := image.Descriptor{MediaType: mediaType, Digest: image.Digest(raw), Size: int64(len(raw))}
	has, err := to.Has(ctx, d.Digest)
	if err != nil || has {
		return d, err
	}
	return d, to.Upload(ctx, d, readerAt(raw), func(int64) {})
}

type readerAt []byte

func (r readerAt) ReadAt(p []byte, at int64) (int, error) {
	if at >= int64(len(r)) {
		return 0, io.EOF
	}
	n := copy(p, r[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// unzip reads a zstd blob, of which no more than limit bytes may come.
func unzip(blob io.Reader, limit int64) (io.Reader, func(), error) {
	z, err := zstd.NewReader(blob, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, nil, err
	}
	return &limited{z, limit}, z.Close, nil
}

type limited struct {
	r    io.Reader
	left int64
}

var errMore = errors.New("it unpacks to more than it should")

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%w", errMore)
	}
	return n, err
}
