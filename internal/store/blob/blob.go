// Package blob keeps bytes under the digest of what they are: logs, pictures,
// reports, bundles.
//
// It knows nothing of what the bytes mean and never removes any. A blob is
// absent or complete: it is written aside, synced and renamed. A digest that
// arrives from outside is parsed before it becomes a path.
//
// A Store is used by many goroutines, and by several processes, at once.
//
//	digest, size, err := blobs.Put(ctx, reader, 10<<20)
//	f, err := blobs.Open(digest)
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"drydock/internal/core"
)

const prefix = "sha256:"

// Store is a directory of blobs.
type Store struct {
	dir string
}

// New uses a directory and makes it if needed. What an interrupted Put left
// aside is removed, unless it is so new that another process may be at it.
func New(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return nil, core.E("blob.open", core.Invalid, err, "directory %q for blobs", dir)
	}
	s := &Store{dir: abs}
	if err := os.MkdirAll(s.aside(), 0o700); err != nil {
		return nil, core.E("blob.open", core.Unavailable, err, "make the directory %s for blobs", abs)
	}
	return s, s.sweep()
}

func (s *Store) aside() string { return filepath.Join(s.dir, "tmp") }

// Put stores what r holds, at most limit bytes, and returns its digest
// ("sha256:...") and size. The bytes are on disk when it returns. More than
// limit is Exhausted and stores nothing.
func (s *Store) Put(ctx context.Context, r io.Reader, limit int64) (digest string, size int64, err error) {
	f, err := os.CreateTemp(s.aside(), "put-*")
	if err != nil {
		return "", 0, core.E("blob.put", core.Unavailable, err, "make a file for a blob")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), removeIfThere(f.Name()))
		}
	}()
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(contextReader{ctx, r}, limit+1))
	if err != nil {
		if ctx.Err() != nil {
			return "", 0, core.E("blob.put", core.KindOf(ctx.Err()), context.Cause(ctx), "blob of %d bytes so far", size)
		}
		return "", 0, core.E("blob.put", core.Unavailable, err, "blob of %d bytes so far", size)
	}
	if size > limit {
		return "", 0, core.E("blob.put", core.Exhausted, nil, "blob is larger than its limit of %d bytes", limit)
	}
	digest = prefix + hex.EncodeToString(sum.Sum(nil))
	if err := s.keep(f, digest); err != nil {
		return "", 0, core.E("blob.put", core.Unavailable, err, "store blob %s", digest)
	}
	return digest, size, nil
}

func (s *Store) keep(f *os.File, digest string) error {
	path, err := s.Path(digest)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o400), f.Sync()); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(path)), syncDir(s.dir))
}

// Open reads a blob. One that is not there is NotFound.
func (s *Store) Open(digest string) (*os.File, error) {
	path, err := s.Path(digest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, core.E("blob.open", core.NotFound, nil, "blob %s does not exist", digest)
	case err != nil:
		return nil, core.E("blob.open", core.Unavailable, err, "open blob %s", digest)
	}
	return f, nil
}

// Has says whether a blob is there. A malformed digest is not.
func (s *Store) Has(digest string) bool {
	path, err := s.Path(digest)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Path is where a blob lies, whether or not it is there. It never leaves the
// store's directory: a digest is exactly "sha256:" and 64 lower-case hex digits.
func (s *Store) Path(digest string) (string, error) {
	body, ok := strings.CutPrefix(digest, prefix)
	if !ok || len(body) != sha256.Size*2 || strings.Trim(body, "0123456789abcdef") != "" {
		return "", core.E("blob.path", core.Invalid, nil, "%.80q is not a digest: want sha256: and 64 hex digits", digest)
	}
	return filepath.Join(s.dir, body[:2], body), nil
}

type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one Put
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
