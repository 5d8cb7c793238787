// Package need asks for what a test cannot do without. On a bare laptop the
// test is skipped; where CI=true it fails, so that nothing is silently left
// out.
package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI must have it: "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}

// Root asks for the rights to make namespaces and mounts.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "needs root")
	}
}

// Program asks for a program on PATH and returns where it is.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "needs the program %q", name)
	}
	return path
}

// Bin asks for one of the project's own built binaries ("runsc",
// "drydock-init", "drydock"), made by `make build`.
func Bin(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			missing(t, "needs the module root")
		}
		dir = parent
	}
	path := filepath.Join(dir, "bin", name)
	if _, err := os.Stat(path); err != nil {
		missing(t, "needs %s; run `make build` first", path)
	}
	return path
}

// Runsc asks for root and a runsc binary.
func Runsc(t testing.TB) string {
	t.Helper()
	Root(t)
	return Bin(t, "runsc")
}

// Chromium asks for a browser.
func Chromium(t testing.TB) string {
	t.Helper()
	return Program(t, "chromium")
}
