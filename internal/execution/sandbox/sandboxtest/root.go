package sandboxtest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// programs of the host that the small root holds.
var programs = []string{
	"sh", "cat", "cp", "dd", "echo", "false", "head", "id", "ln", "ls", "mkdir", "mv", "rm", "sleep", "stat", "sync", "touch", "true", "chmod", "env",
	"mknod", "readlink", "tail", "hostname", "seq",
}

// Root makes a small root file system in dir from programs of this host and
// the libraries they need. It takes some 10 MB and a few milliseconds.
func Root(t testing.TB, dir string) {
	t.Helper()
	for _, d := range []string{"usr/bin", "etc", "tmp", "root", "proc", "sys", "dev", "workspace"} {
		mkdir(t, filepath.Join(dir, d))
	}
	for _, l := range []string{"bin", "sbin"} {
		if err := os.Symlink("usr/bin", filepath.Join(dir, l)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "workspace/base.txt"), "base\n")
	mkdir(t, filepath.Join(dir, "workspace/tree0"))
	for _, leaf := range []string{"leaf0", "leaf1", "leaf2", "leaf3"} {
		write(t, filepath.Join(dir, "workspace/tree0", leaf), leaf)
	}
	copied := map[string]bool{}
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("the small root needs %s: %v", name, err)
		}
		copyFile(t, path, filepath.Join(dir, "usr/bin", name), 0o755)
		for _, lib := range libraries(t, path) {
			if !copied[lib] {
				copied[lib] = true
				copyFile(t, lib, filepath.Join(dir, lib), 0o755)
			}
		}
	}
	write(t, filepath.Join(dir, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	write(t, filepath.Join(dir, "etc/group"), "root:x:0:\nnogroup:x:65534:\n")
}

var libraryPath = regexp.MustCompile(`/[^ )]+`)

// libraries lists what the dynamic linker loads for a program.
func libraries(t testing.TB, path string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ldd", path).Output()
	if err != nil {
		return nil // static
	}
	return libraryPath.FindAllString(string(out), -1)
}

func mkdir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	mkdir(t, filepath.Dir(to))
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		t.Fatal(err)
	}
}
