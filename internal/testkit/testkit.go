// Package testkit is the whole daemon in one process, for scenarios: a test
// says what the scripted model does, and speaks to the daemon as everybody
// does, through the API's client.
//
// It fakes nothing but the model: sandboxes are real (runsc) unless a test asks
// for the driver "fake", base images are bootstrapped once and shared by all
// tests (DRYDOCK_CACHE, else ~/.cache/drydock/test-images).
//
// Invariants: what a test needs and a laptop lacks skips it (package need);
// after a test the daemon is torn down, and a mount, namespace, link, table,
// cgroup or process that stayed fails it.
//
// A Daemon belongs to one test; its methods may be called from the goroutines
// of that test.
//
//	d := testkit.Start(t, testkit.Options{Script: script})
//	env := d.BuildEnvironment(t, testkit.Repo(t, files))
//	got := d.Run(t, env, "make the tests pass")
package testkit

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/daemon"
	"drydock/internal/execution/capacity"
	"drydock/internal/execution/image"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/scripted"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
	"drydock/internal/testkit/need"
)

// Options of a daemon under test. Everything is optional.
type Options struct {
	Script      string // YAML of the scripted model, see docs/formats/scripted.md
	Driver      string // "runsc" (default) or "fake"
	State       string // default: a directory of the test
	Images      string // cache of base images; default: ImageCache
	MaxSessions int    // default 2
	Pictures    bool   // pages are pictured for proofs
	// Change is called last, for what only one scenario wants.
	Change func(*daemon.Options)
}

// Model and PaidModel are what sessions may ask for: the same script, free of
// charge and labelled as scripted, or at the price of PaidPrice per million
// tokens as if it were a real model.
const (
	Model     = "scripted"
	PaidModel = "paid/model"
	PaidPrice = 1.0
)

// Daemon is a running one.
type Daemon struct {
	State string
	URL   string

	opts daemon.Options
	d    *daemon.Daemon
	down bool

	mu      sync.Mutex
	secrets map[string]string
}

// ImageCache is where base images of tests are kept.
func ImageCache(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DRYDOCK_CACHE")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(home, ".cache", "drydock")
	}
	return filepath.Join(dir, "test-images")
}

// Start brings a daemon up and takes it down when the test ends.
func Start(t testing.TB, o Options) *Daemon {
	t.Helper()
	opts := daemon.Options{
		State: o.State, Listen: "127.0.0.1:0", Driver: o.Driver, Version: "test", Environ: config.Environ(),
		Operator: core.Author{Name: "Operator", Email: "operator@example.com"}, Model: Model,
		MaxSessions: o.MaxSessions, NoPictures: !o.Pictures, Log: logger(t),
		Limits: core.Limits{CPU: 2, Memory: 2 << 30, Pids: 2048, Disk: 8 << 30, Lifetime: time.Hour},
		Images: image.Options{Dir: o.Images},
		// A test is about Drydock, not about how full this machine is.
		Capacity: capacity.Options{MemoryReserve: 1, DiskReserve: 1, FloorSession: 1 << 20, FloorIdle: 1 << 20, PerProcessor: 1000},
	}
	if o.Driver != "fake" {
		opts.Runsc, opts.Init = need.Runsc(t), need.Bin(t, "drydock-init")
		for _, p := range []string{"nft", "mmdebstrap", "git"} {
			need.Program(t, p)
		}
	}
	if opts.State == "" {
		opts.State = t.TempDir()
	}
	if opts.MaxSessions <= 0 {
		opts.MaxSessions = 2
	}
	if opts.Images.Dir == "" {
		opts.Images.Dir = ImageCache(t)
	}
	cfg := config.Default()
	opts.Upstream.HTTP, opts.Upstream.HTTPS, opts.Upstream.No, _ = cfg.Upstream(config.OS)
	if o.Script != "" {
		useScript(t, &opts, o.Script)
	}
	if o.Change != nil {
		o.Change(&opts)
	}
	d := &Daemon{State: opts.State, opts: opts, secrets: map[string]string{}}
	d.up(t)
	t.Cleanup(func() { d.teardown(t) })
	return d
}

func useScript(t testing.TB, opts *daemon.Options, text string) {
	t.Helper()
	file, err := scripted.Parse("script of "+t.Name(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	script := scripted.New(file)
	opts.Providers = map[string]model.Provider{Model: script, "paid": paid{script}}
	opts.Prices, err = model.LoadPrices("prices of the test", []byte(
		"prices:\n  - {model: paid/model, date: \"2026-01-01\", source: this test, window: 200000, output: 32000, "+
			"price: {input: 1, cache_read: 1, cache_write: 1, output: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
}

// paid is a script without its label, so that its tokens have a price.
type paid struct{ script *scripted.Provider }

// Stream implements model.Provider.
func (p paid) Stream(ctx context.Context, req model.Request, onDelta func(model.Delta)) (model.Response, error) {
	req.Model = ""
	return p.script.Stream(ctx, req, onDelta)
}

func (d *Daemon) up(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if d.d, err = daemon.Start(ctx, d.opts); err != nil {
		d.down = true
		t.Fatalf("start the daemon: %v (%s)", err, core.HintOf(err))
	}
	d.URL = d.d.URL()
	d.opts.Listen = strings.TrimPrefix(d.URL, "http://") // clients find it again after a restart
}

// Restart ends the daemon as a shutdown does and brings it up on the same
// state. Sandboxes stay meanwhile.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.d.Close(ctx); err != nil {
		t.Fatalf("close the daemon: %v", err)
	}
	d.up(t)
}

func (d *Daemon) teardown(t testing.TB) {
	if d.down {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := d.d.Teardown(ctx); err != nil {
		t.Errorf("tear the daemon down: %v", err)
	}
	if left := Leftovers(d.State); len(left) > 0 {
		t.Errorf("left on the host:\n%s", strings.Join(left, "\n"))
	}
}

// Client speaks as somebody. "operator" holds the token of the state
// directory; anybody else is made known first.
func (d *Daemon) Client(t testing.TB, handle string) *client.Client {
	t.Helper()
	return Dial(t, d.URL, d.secret(t, handle))
}

// Dial is a client of any daemon.
func Dial(t testing.TB, url, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (d *Daemon) secret(t testing.TB, handle string) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.secrets[handle]; ok {
		return s
	}
	root := OperatorToken(t, d.State)
	d.secrets["operator"] = root
	if handle == "operator" {
		return root
	}
	s := NewPerson(t, Dial(t, d.URL, root), handle)
	d.secrets[handle] = s
	return s
}

// OperatorToken reads the token of a state directory.
func OperatorToken(t testing.TB, state string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(state, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// NewPerson makes somebody known and returns their token.
func NewPerson(t testing.TB, operator *client.Client, handle string) string {
	t.Helper()
	made, err := operator.CreateToken(t.Context(), api.CreateToken{
		Handle: handle, Name: strings.ToUpper(handle[:1]) + handle[1:], Email: handle + "@example.com", Label: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return made.Secret
}

// logger writes warnings and errors into the test's log as long as it runs.
func logger(t testing.TB) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(w.end)
	level := slog.LevelWarn
	if os.Getenv("DRYDOCK_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

type testWriter struct {
	mu   sync.Mutex
	t    testing.TB
	over bool
}

func (w *testWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Logf("daemon: %s", strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}
