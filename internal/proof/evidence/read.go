package evidence

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"drydock/internal/core"
)

// Bounds of what is read of a bundle.
const (
	maxManifest   = 256 << 20
	maxStatements = 256 << 20
	maxEntries    = 20_000
	maxTotal      = 8 << 30
)

// held is what was found in a bundle.
type held struct {
	files      map[string]listed // every file, by name
	manifest   []byte
	statements []byte
	odd        []string // entries that are no plain files
}

// load reads a bundle, a directory or a tar file.
func load(ctx context.Context, p string) (*held, error) {
	const op = "evidence.read"
	info, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.E(op, core.NotFound, nil, "there is no bundle at %s", p)
	}
	if err != nil {
		return nil, core.E(op, core.Unavailable, err, "bundle %s", p)
	}
	h := &held{files: map[string]listed{}}
	if info.IsDir() {
		err = h.loadDir(ctx, p)
	} else {
		err = h.loadTar(ctx, p)
	}
	if err != nil {
		if _, known := errors.AsType[*core.Error](err); known {
			return nil, err
		}
		return nil, core.E(op, core.Invalid, err, "bundle %s", p)
	}
	return h, nil
}

func (h *held) loadDir(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	var total int64
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		if !d.Type().IsRegular() {
			h.odd = append(h.odd, name)
			return nil
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return h.take(name, f, &total)
	})
}

func (h *held) loadTar(ctx context.Context, p string) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return h.readTar(ctx, f)
}

func (h *held) readTar(ctx context.Context, r io.Reader) error {
	tr := tar.NewReader(r)
	var total int64
	for {
		head, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Clean(head.Name)
		switch {
		case head.Typeflag == tar.TypeDir:
		case head.Typeflag != tar.TypeReg, path.IsAbs(name), strings.HasPrefix(name, "../"):
			if h.odd = append(h.odd, name); len(h.odd) > maxEntries {
				return errTooMany
			}
		default:
			if err := h.take(name, tr, &total); err != nil {
				return err
			}
		}
	}
}

var (
	errTooMany = errors.New("more entries than a bundle can have")
	errTooBig  = errors.New("larger than a bundle can be")
)

// take hashes one file and keeps the two that are read.
func (h *held) take(name string, r io.Reader, total *int64) error {
	if len(h.files) >= maxEntries {
		return errTooMany
	}
	if _, twice := h.files[name]; twice {
		h.odd = append(h.odd, name+" (twice)")
		return nil
	}
	sum := sha256.New()
	var keep *[]byte
	limit := int64(maxTotal)
	switch name {
	case ManifestName:
		keep, limit = &h.manifest, maxManifest
	case StatementsName:
		keep, limit = &h.statements, maxStatements
	}
	in := io.TeeReader(io.LimitReader(r, limit+1), sum)
	var n int64
	var err error
	if keep != nil {
		*keep, err = io.ReadAll(in)
		n = int64(len(*keep))
	} else {
		n, err = io.Copy(io.Discard, in)
	}
	if err != nil {
		return err
	}
	if *total += n; n > limit || *total > maxTotal {
		return errTooBig
	}
	h.files[name] = listed{Name: name, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: n}
	return nil
}

// ReadManifest reads the manifest of a bundle without checking anything: see
// Verify.
func ReadManifest(ctx context.Context, p string) (Manifest, error) {
	h, err := load(ctx, p)
	if err != nil {
		return Manifest{}, err
	}
	return parseManifest(h.manifest)
}

func parseManifest(raw []byte) (Manifest, error) {
	var m Manifest
	if len(raw) == 0 {
		return m, core.E("evidence.read", core.Invalid, nil, "the bundle has no %s", ManifestName)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, core.E("evidence.read", core.Invalid, err, "%s", ManifestName)
	}
	if m.Format != format {
		return m, core.E("evidence.read", core.Invalid, nil, "the bundle has the format %.40q and this program reads %q", m.Format, format)
	}
	return m, nil
}
