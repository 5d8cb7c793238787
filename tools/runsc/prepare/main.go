// Command prepare makes the sources that runsc is built from: those of the pinned
// module with two differences.
//
// The system call filters are compiled beforehand, as in gVisor's own releases.
// Without that each sandbox and each of its file servers compiles its filter when
// it starts, a tenth of a second of work. And what amendments names is mended.
//
// It copies the module that go.mod names into a directory, puts the filters into
// the sources that are meant to hold them, and writes a go.mod beside it that
// builds from there. The filters come from gVisor's own generator; what they let
// through is not decided here. The same module gives the same program, wherever
// the directory is.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentry "gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

const path = "gvisor.dev/gvisor"

// packages whose programs are compiled beforehand.
var packages = []struct {
	dir      string
	programs func() ([]precompiledseccomp.Program, error)
}{
	{"runsc/boot/filter", sentry.PrecompiledPrograms},
	{"runsc/fsgofer/filter", gofer.PrecompiledPrograms},
}

// amendment replaces one line of the module that is there exactly once.
type amendment struct{ file, old, mended string }

var amendments = []amendment{
	// A frozen control group takes pending notifications back, and whoever asks for
	// one then is told ENOENT: the task is there, and will notify again. gVisor
	// takes it for the end of the task and ends the sandbox; for the answer to a
	// notification it was mended (google/gvisor#12820), for the question not.
	{
		"pkg/sentry/platform/systrap/syscall_thread_unsafe.go",
		"\t\tif errno == unix.EINTR && t.subproc.alive() {\n",
		"\t\tif (errno == unix.EINTR || errno == unix.ENOENT) && t.subproc.alive() {\n",
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prepare DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	root, err := module()
	if err != nil {
		return err
	}
	copied := filepath.Join(out, "gvisor")
	if err := os.CopyFS(copied, os.DirFS(root)); err != nil {
		return err
	}
	for _, p := range packages {
		programs, err := p.programs()
		if err != nil {
			return fmt.Errorf("filters of %s: %w", p.dir, err)
		}
		source := filepath.Join(copied, p.dir, "filter_precompiled.go")
		old, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		text, err := register(string(old), programs)
		if err != nil {
			return fmt.Errorf("%s of the module: %w", filepath.Join(p.dir, filepath.Base(source)), err)
		}
		if err := rewrite(source, text); err != nil {
			return err
		}
	}
	for _, a := range amendments {
		old, err := os.ReadFile(filepath.Join(copied, a.file))
		if err != nil {
			return err
		}
		if n := strings.Count(string(old), a.old); n != 1 {
			return fmt.Errorf("%s of the module has the line to be mended %d times: look whether gVisor has mended it", a.file, n)
		}
		if err := rewrite(filepath.Join(copied, a.file), strings.Replace(string(old), a.old, a.mended, 1)); err != nil {
			return err
		}
	}
	return goMod(out)
}

// rewrite replaces a file of the copy, which is read-only.
func rewrite(path, text string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// module is where the Go tools keep the sources of gVisor.
func module() (string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", path, err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// goMod writes a go.mod like the one here, that takes gVisor from beside it: by
// a relative path, which is written into the program.
func goMod(out string) error {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	mod = append(mod, "\nreplace "+path+" => ./gvisor\n"...)
	return errors.Join(
		os.WriteFile(filepath.Join(out, "go.mod"), mod, 0o644),
		os.WriteFile(filepath.Join(out, "go.sum"), sum, 0o644),
	)
}

// register puts the programs into a source that registers none. A source that
// is not as expected is an error: the filters must not be half there.
func register(source string, programs []precompiledseccomp.Program) (string, error) {
	const off, on = "PrecompilationDisabledAtBuildTime = true", "PrecompilationDisabledAtBuildTime = false"
	const before = "\tprecompiledPrograms = programs\n"
	if strings.Count(source, off) != 1 || strings.Count(source, before) != 1 {
		return "", errors.New("it is not the source of a build without compiled filters")
	}
	var add strings.Builder
	for _, p := range programs {
		if wanted(p.Name) {
			add.WriteString(p.Registration("\t", "precompiledseccomp", "programs"))
		}
	}
	if add.Len() == 0 {
		return "", errors.New("no filter of those compiled is wanted")
	}
	return strings.NewReplacer(off, on, before, add.String()+before).Replace(source), nil
}

// wanted leaves out what Drydock never starts: other platforms, devices handed
// through, the host's network. Such a start still works: it compiles its filter.
func wanted(name string) bool {
	for _, part := range []string{
		`Platform="ptrace"`, `Platform="slimvm"`, "HostNetwork=true", "NVProxy=true", "TPUProxy=true", "RDMAProxy=true", "CgoEnabled=true",
		"UDSOpenEnabled=true", "UDSCreateEnabled=true",
	} {
		if strings.Contains(name, part) {
			return false
		}
	}
	return true
}
