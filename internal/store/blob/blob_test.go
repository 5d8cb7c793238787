package blob_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"drydock/internal/core"
	"drydock/internal/store/blob"
)

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func open(t testing.TB) (*blob.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blob.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func filesIn(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPutAndOpen(t *testing.T) {
	s, dir := open(t)
	for _, content := range []string{"", "hello", strings.Repeat("x", 1<<20)} {
		for range 2 { // the same again is the same blob
			digest, size, err := s.Put(t.Context(), strings.NewReader(content), 1<<20)
			if err != nil || digest != digestOf(content) || size != int64(len(content)) {
				t.Fatalf("put: %s %d %v", digest, size, err)
			}
		}
		f, err := s.Open(digestOf(content))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || string(got) != content {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := filesIn(t, dir); n != 3 {
		t.Errorf("%d files, want 3", n)
	}
	if _, err := s.Open(digestOf("absent")); !core.Is(err, core.NotFound) {
		t.Errorf("absent: %v", err)
	}
	if !s.Has(digestOf("hello")) || s.Has(digestOf("absent")) {
		t.Error("Has is wrong")
	}
}

func TestAFailedPutLeavesNothing(t *testing.T) {
	s, dir := open(t)
	if _, _, err := s.Put(t.Context(), strings.NewReader("123456"), 5); !core.Is(err, core.Exhausted) {
		t.Errorf("over the limit: %v", err)
	}
	if _, _, err := s.Put(t.Context(), iotest.ErrReader(errors.New("boom")), 5); !core.Is(err, core.Unavailable) {
		t.Errorf("broken reader: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Put(ctx, strings.NewReader("x"), 5); !core.Is(err, core.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if n := filesIn(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestManyPutTheSame(t *testing.T) {
	s, dir := open(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, _, err := s.Put(t.Context(), strings.NewReader("same"), 10); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := filesIn(t, dir); n != 1 {
		t.Errorf("%d files, want 1", n)
	}
}

func TestOldLeftOversAreRemoved(t *testing.T) {
	_, dir := open(t)
	old, young := filepath.Join(dir, "tmp", "put-1"), filepath.Join(dir, "tmp", "put-2")
	for _, f := range []string{old, young} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(old, yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.New(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Error("the old one is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("the young one is gone")
	}
}

func FuzzDigest(f *testing.F) {
	s, dir := open(f)
	f.Add("sha256:" + strings.Repeat("a", 64))
	f.Add("sha256:../../../../etc/passwd")
	f.Add("sha256:" + strings.Repeat("../", 21) + "x")
	f.Add("sha256:" + strings.Repeat("A", 64))
	f.Add("")
	f.Fuzz(func(t *testing.T, digest string) {
		path, err := s.Path(digest)
		if err != nil {
			if !core.Is(err, core.Invalid) || s.Has(digest) {
				t.Errorf("%q: %v", digest, err)
			}
			return
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(rel) || len(rel) != 67 {
			t.Errorf("%q leads to %s", digest, path)
		}
	})
}
