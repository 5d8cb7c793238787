// Command bench measures what Drydock adds to the things it is made of, and
// prints a table of ratios.
//
// Every performance figure stands beside a floor: the same work done without
// Drydock, in the same run, in turn with it. A figure without a floor says
// nothing on another machine, so none is printed alone but parts of a sum.
// docs/performance.md says what each floor is.
//
// It needs root, runsc, drydock-init and mmdebstrap (`make build`, `make
// setup`), makes everything below a directory of its own, and removes it.
//
//	go run ./bench -out bin/bench.json [-only REGEX] [-n N] [-quick] [--json]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

type options struct {
	out     string
	only    string
	n       int
	quick   bool
	json    bool
	verbose bool
	bin     string
}

// group is one set of rows that are measured together.
type group struct {
	name  string
	about string
	run   func(ctx context.Context, b *bench) error
}

func groups() []group {
	return []group{
		{"create", "a sandbox from a base image, against runsc alone", benchCreate},
		{"restore", "a sandbox from a snapshot, against runsc alone", benchRestore},
		{"exec", "a command in a running sandbox, against runsc exec", benchExec},
		{"events", "the event log, against plain SQLite and plain channels", benchEvents},
		{"build", "a small environment, against the same steps in a chroot", benchBuild},
		{"session", "a whole scripted session, against git and the check by hand", benchSession},
		{"memory", "services out of a memory image, against runsc alone, files and a build", benchMemory},
		{"fork", "a fork of a sandbox with services, against runsc alone", benchFork},
		{"clones", "many sandboxes restored at once, against runsc alone", benchClones},
		{"density", "clones until the first is refused, against the memory there is", benchDensity},
		{"warm", "a sandbox out of the warm pool, against one that is there", benchWarm},
		{"inside", "what agents run in a sandbox, against the same in a chroot", benchInside},
		{"rebuild", "examples/shop built again, against from scratch", benchRebuild},
		{"shop", "the services of examples/shop in a sandbox, against the same in a chroot", benchShop},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // the signal handler needs no undoing here
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.out, "out", "", "write the rows as JSON into this file")
	f.StringVar(&o.only, "only", "", "measure only groups whose name this regular expression matches")
	f.IntVar(&o.n, "n", 0, "repetitions of each measurement (default: enough for a steady median)")
	f.BoolVar(&o.quick, "quick", false, "few repetitions: to see that it works")
	f.BoolVar(&o.json, "json", false, "print the rows as JSON instead of a table")
	f.BoolVar(&o.verbose, "v", false, "say what is being done, and what parts it took")
	f.StringVar(&o.bin, "bin", "bin", "where runsc and drydock-init are")
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: bench [flags]; groups:")
		for _, g := range groups() {
			fmt.Fprintf(stderr, "  %-8s  %s\n", g.name, g.about)
		}
		f.PrintDefaults()
	}
	return o, f.Parse(args)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		if err == flag.ErrHelp { //nolint:errorlint // documented to be exactly this
			return nil
		}
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	b := &bench{opts: o, progress: stderr}
	if err := b.prepare(); err != nil {
		return err
	}
	defer func() {
		if closeErr := b.close(ctx); err == nil {
			err = closeErr
		}
	}()
	b.add(row{Name: "machine: load before", Value: load(), Unit: "tasks", Note: fmt.Sprintf("%d cores", runtime.NumCPU())})
	for _, g := range groups() {
		if !only.MatchString(g.name) {
			continue
		}
		b.say("%s: %s", g.name, g.about)
		start := time.Now()
		if err := g.run(ctx, b); err != nil {
			// What was measured before is not lost.
			return errors.Join(fmt.Errorf("%s: %w", g.name, err), b.report(stdout))
		}
		b.say("%s took %s", g.name, time.Since(start).Round(time.Second))
	}
	b.add(row{Name: "machine: load after", Value: load(), Unit: "tasks", Note: fmt.Sprintf("%d cores", runtime.NumCPU())})
	return b.report(stdout)
}

// bench is one run.
type bench struct {
	opts     options
	progress io.Writer
	rows     []row
	dir      string // everything is below
	runsc    string
	init     string
	log      *slog.Logger
	base     *base    // shared by the groups that need it
	world    *daemons // so is this
	shop     *live    // and this
}

// prepare looks for what is needed before anything is made.
func (b *bench) prepare() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("it makes namespaces and mounts, which needs root: sudo make bench")
	}
	for _, p := range []string{"mmdebstrap", "ip", "nft", "git", "chroot", "unshare"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("the program %q is missing: make setup", p)
		}
	}
	for name, path := range map[string]*string{"runsc": &b.runsc, "drydock-init": &b.init} {
		abs, err := filepath.Abs(filepath.Join(b.opts.bin, name))
		if err != nil {
			return err
		}
		if _, err := os.Stat(abs); err != nil {
			return fmt.Errorf("%s is missing: make build", abs)
		}
		*path = abs
	}
	b.log = slog.New(slog.DiscardHandler)
	if b.opts.verbose {
		b.log = slog.New(slog.NewTextHandler(b.progress, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	// Short, because runsc puts sockets below it.
	dir, err := os.MkdirTemp("", "dd-bench-")
	b.dir = dir
	return err
}

// close removes everything that was made.
func (b *bench) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	var failed error
	keep := func(err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("not all is removed: %w", err)
		}
	}
	if b.shop != nil {
		b.shop.builder.Close()
	}
	if b.base != nil {
		keep(b.base.close(ctx))
	}
	if b.world != nil {
		keep(b.world.close(ctx))
	}
	if failed == nil { // else mounts may stand below it
		keep(os.RemoveAll(b.dir))
	}
	return failed
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// times is how often something is measured.
func (b *bench) times(full, quick int) int {
	switch {
	case b.opts.n > 0:
		return b.opts.n
	case b.opts.quick:
		return quick
	}
	return full
}

func (b *bench) add(r row) { b.rows = append(b.rows, r) }

func (b *bench) report(stdout io.Writer) error {
	data, err := json.MarshalIndent(b.rows, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if b.opts.out != "" {
		if err := os.MkdirAll(filepath.Dir(b.opts.out), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(b.opts.out, data, 0o644); err != nil {
			return err
		}
	}
	if b.opts.json {
		_, err = stdout.Write(data)
		return err
	}
	_, err = io.WriteString(stdout, table(b.rows))
	return err
}

// load is the mean number of tasks that wanted a processor in the last minute.
func load() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var one float64
	if _, err := fmt.Sscan(strings.Fields(string(data))[0], &one); err != nil {
		return 0
	}
	return one
}
