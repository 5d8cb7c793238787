package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Env is the world around the command line. What other packages do for it is
// handed in as functions; a nil one makes its command say that this binary
// cannot do it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Now    func() time.Time

	// Terminal tells whether a stream is one, and how wide it is; width 0 is
	// unknown.
	Terminal func(stream any) (is bool, width int)
	// Raw switches the terminal of standard input to raw mode.
	Raw func() (restore func(), err error)
	// Sizes sends the size of the terminal now and after each change.
	Sizes func(ctx context.Context) <-chan api.Size

	Version string

	Serve  func(ctx context.Context, opts ServeOptions) error
	Doctor func(ctx context.Context, opts DoctorOptions) ([]DoctorCheck, error)
	Demo   func(ctx context.Context, opts DemoOptions) (DemoHost, error)
	Verify func(ctx context.Context, opts VerifyOptions) (api.Verified, error)
	Config ConfigFuncs
	// OpenURL shows an address in a browser.
	OpenURL func(url string) error
}

// ServeOptions are the flags of serve; empty ones come from the configuration.
type ServeOptions struct {
	ConfigFile string
	State      string
	Listen     string
	Verbose    bool
	Stderr     io.Writer
	// Ready is called once the daemon answers, with its state directory.
	Ready func(url, state string)
}

// DoctorOptions are the flags of doctor.
type DoctorOptions struct {
	ConfigFile string
	State      string
}

// DoctorCheck is one thing that was looked at.
type DoctorCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning, failed
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do about it
}

// DemoOptions are the flags of demo.
type DemoOptions struct {
	State  string // directory; empty: a default of its own
	Model  string // empty: the scripted one
	Fresh  bool
	Stderr io.Writer
	Log    *slog.Logger
}

// DemoHost is a daemon made ready for the demo.
type DemoHost struct {
	URL, Token string // of a person who may review
	Source     string // repository to build the environment from
	Name       string // of the environment
	Task       string // the prompt
	Model      string // to ask for; empty: the default
	Flags      string // what to add to later commands, e.g. "--state DIR"
	Note       string // how the daemon goes on, for people
	Wait       bool   // the daemon ends with this process: stay until asked to end
	Pictures   string // directory to save pictures in
	Close      func() error
}

// VerifyOptions say what to check, and whom to trust: the public keys in the
// file Key or, without one, those of the daemon with this state directory.
type VerifyOptions struct {
	File  string
	Key   string
	State string
}

// ConfigFuncs read configuration files.
type ConfigFuncs struct {
	// Check returns every fault of a file.
	Check func(file string) []error
	// Show prints the settings in force; with defaults, the file is not read.
	Show func(file string, defaults bool, w io.Writer) error
	// Schema prints the JSON schema.
	Schema func(w io.Writer) error
}

// DefaultState is where the daemon keeps its state.
const DefaultState = "/var/lib/drydock"

// System is the real world. The functions of other packages are still to set.
func System() Env {
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now, //nolint:forbidigo // the command line reads the environment
		Terminal: func(stream any) (bool, int) {
			f, ok := stream.(*os.File)
			if !ok || !term.IsTerminal(int(f.Fd())) {
				return false, 0
			}
			w, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				w = 0
			}
			return true, w
		},
		Raw:   systemRaw,
		Sizes: systemSizes,
	}
}

func systemRaw() (func(), error) {
	fd := int(os.Stdin.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, core.E("cli.raw", core.Invalid, err, "standard input is not a terminal")
	}
	return func() { _ = term.Restore(fd, old) }, nil
}

func systemSizes(ctx context.Context) <-chan api.Size {
	out := make(chan api.Size, 1)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer close(out)
		defer signal.Stop(changed)
		for {
			if w, h, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
				select {
				case out <- api.Size{Rows: uint16(h), Cols: uint16(w)}: //nolint:gosec // a terminal is smaller
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// unicodeLocale says whether the locale lets us print more than ASCII; when
// nothing is set, it does.
func unicodeLocale(getenv func(string) string) bool {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(key)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}
