package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock/internal/execution/tree"
)

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(dir, "d/big")
	if err := os.WriteFile(big, make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(big, filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(dir, "d/everything")); err != nil {
		t.Fatal(err)
	}
	use, err := tree.Measure(dir)
	if err != nil || use.Bytes < 1<<20 || use.Bytes > 1<<20+64<<10 || use.Files < 3 {
		t.Errorf("measured %+v, error %v", use, err)
	}
	if _, err := tree.Measure(filepath.Join(dir, "d/everything")); err == nil {
		t.Error("a link was followed")
	}
}

// deep makes a chain of directories longer than any path may be.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func TestVeryDeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 20))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	deep(t, dir, 5000)
	if _, err := tree.Measure(dir); !errors.Is(err, tree.ErrTooDeep) {
		t.Errorf("error %v", err)
	}
	if err := tree.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("it is still there")
	}
	if err := tree.Remove(dir); err != nil {
		t.Errorf("removing again: %v", err)
	}
}
