package image

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

func newStore(t testing.TB, change func(*Options)) *Store {
	t.Helper()
	opts := Options{Dir: filepath.Join(t.TempDir(), "images"), Environ: os.Environ()}
	if change != nil {
		change(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func hostSuite(t testing.TB) string {
	t.Helper()
	raw, _ := os.ReadFile("/etc/os-release")
	o := parseOS(string(raw))
	if o.ID != "debian" || o.Codename == "" {
		t.Skip("skipped: the host is not Debian")
	}
	return o.Codename
}

// The whole path once, for real: bootstrap, packages on top, a second request
// from the cache, and what a crash leaves.
func TestDebianForReal(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: takes a minute")
	}
	need.Root(t)
	for _, p := range []string{"mmdebstrap", "apt-get"} {
		need.Program(t, p)
	}
	suite := hostSuite(t)
	s := newStore(t, nil)
	ctx := t.Context()
	mounts := mountCount(t)

	var mu sync.Mutex
	var lines []string
	progress := func(l string) { mu.Lock(); lines = append(lines, l); mu.Unlock() }
	// Two at once: the base is made once.
	results := make(chan Image, 2)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			img, err := s.Ensure(ctx, Request{Base: "debian:" + suite, Progress: progress})
			if err != nil {
				t.Error(err)
			}
			results <- img
		})
	}
	wg.Wait()
	base, other := <-results, <-results
	if t.Failed() {
		t.Fatal()
	}
	if diff := cmp.Diff(base, other); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(strings.Join(lines, "\n"), "bootstrapping"); n != 1 {
		t.Errorf("bootstrapped %d times", n)
	}
	if base.OS.ID != "debian" || base.OS.Codename != suite || base.OS.Family != "debian" || len(base.Layers) != 1 {
		t.Errorf("base: %+v", base)
	}
	for _, file := range []string{"usr/bin/git", "etc/ssl/certs/ca-certificates.crt"} {
		if _, err := os.Stat(filepath.Join(base.Layers[0], file)); err != nil {
			t.Error(err)
		}
	}
	for _, file := range []string{"etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "usr/sbin/policy-rc.d"} {
		if _, err := os.Lstat(filepath.Join(base.Layers[0], file)); err == nil {
			t.Errorf("%s was left in the image", file)
		}
	}

	// A package with a service: it must be installed and must not run.
	img, err := s.Ensure(ctx, Request{Base: "debian:" + suite, Packages: []string{"redis-server", "file"}, Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Layers) != 2 || img.Layers[1] != base.Layers[0] || img.Digest == base.Digest {
		t.Errorf("image: %+v", img)
	}
	if _, err := os.Stat(filepath.Join(img.Layers[0], "usr/bin/redis-server")); err != nil {
		t.Error(err)
	}
	for _, file := range []string{"usr/sbin/policy-rc.d", "var/cache/apt/archives/redis-server.deb", "proc/self"} {
		if _, err := os.Lstat(filepath.Join(img.Layers[0], file)); err == nil {
			t.Errorf("%s was left in the layer", file)
		}
	}
	out := inImage(t, img, "dpkg -l redis-server | tail -1; file -b /bin/sh; redis-server --version; ls /var/cache/apt/archives/*.deb 2>/dev/null | wc -l")
	if !strings.Contains(out, "ii  redis-server") || !strings.Contains(out, "Redis server v=") || !strings.HasSuffix(strings.TrimSpace(out), "\n0") {
		t.Errorf("in the image: %s", out)
	}
	again, err := s.Ensure(ctx, Request{Base: "debian:" + suite, Packages: []string{"file", "redis-server", "file"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(img, again); diff != "" {
		t.Error(diff)
	}

	_, err = s.Ensure(ctx, Request{Base: "debian:" + suite, Packages: []string{"no-such-package-here"}})
	if !core.Is(err, core.Invalid) || !strings.Contains(err.Error(), "no-such-package-here") || core.HintOf(err) == "" {
		t.Errorf("missing package: %v", err)
	}
	if _, err := s.Ensure(ctx, Request{Base: "debian:nosuchsuite"}); !core.Is(err, core.NotFound) {
		t.Errorf("missing suite: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	_, err = s.Ensure(canceled, Request{Base: "debian:" + suite, Packages: []string{"tree"}, Progress: func(l string) {
		if !strings.HasPrefix(l, "installing") { // apt is at work
			cancel()
		}
	}})
	if !core.Is(err, core.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	cancel()
	if left, _ := os.ReadDir(filepath.Join(s.dir, "work")); len(left) != 0 {
		t.Errorf("left in work: %v", left)
	}
	if n := mountCount(t); n != mounts {
		t.Errorf("%d mounts, %d before", n, mounts)
	}
	if list, err := s.List(ctx); err != nil || len(list) != 2 {
		t.Errorf("list: %v %v", list, err)
	}
}

// A killed store takes its bootstrap with it, and leaves nothing that looks
// finished.
func TestKilledWhileBootstrapping(t *testing.T) {
	const name = "DRYDOCK_TEST_BOOTSTRAP"
	if dir := os.Getenv(name); dir != "" { // the one that is killed
		s, err := New(Options{Dir: dir, Environ: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Ensure(t.Context(), Request{Base: "debian:" + hostSuite(t), Progress: func(l string) { fmt.Fprintln(os.Stderr, "progress:", l) }})
		t.Fatal(err)
	}
	if testing.Short() {
		t.Skip("skipped: takes a minute")
	}
	need.Root(t)
	need.Program(t, "mmdebstrap")
	hostSuite(t)
	dir := filepath.Join(t.TempDir(), "images")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), name+"="+dir)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "apt-get update") {
	}
	if !working(dir) {
		t.Error("nothing is at work")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for end := time.Now().Add(20 * time.Second); working(dir); {
		if time.Now().After(end) {
			t.Fatal("the bootstrap goes on without its store")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	s, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list: %v %v", list, err)
	}
	if layers, _ := os.ReadDir(filepath.Join(dir, "layers")); len(layers) != 0 {
		t.Errorf("layers: %v", layers)
	}
}

// working says whether any process names a directory.
func working(dir string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte(dir)) {
			return true
		}
	}
	return false
}

// mountCount counts this process's mounts below its temporary directories.
func mountCount(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(raw, []byte(os.TempDir()+"/"+strings.ReplaceAll(t.Name(), "/", "_")))
}

// inImage runs a shell in an overlay of the image, in its own namespaces.
func inImage(t *testing.T, img Image, script string) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"u", "w", "m"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "sh", "-euc",
		`mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/u,workdir=$2/w,redirect_dir=on" "$2/m"; mount -t proc proc "$2/m/proc"; chroot "$2/m" /bin/sh -c "$3"`,
		"sh", strings.Join(img.Layers, ":"), dir, script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestAptConfiguration(t *testing.T) {
	targets := "Packages\thttp://mirror.example.com/debian/\tbookworm\tmain\n" +
		"Translations\thttp://mirror.example.com/debian/\tbookworm\tmain\n" +
		"Packages\thttp://mirror.example.com/debian/\tbookworm\tmain\n" +
		"Packages\thttp://mirror.example.com/security/\tbookworm-security\tmain\n" +
		"Packages\thttp://flat.example.com/\tflat/\t\n" +
		"Packages\thttps://third.example.com/\tnodistro\tmain\nnonsense\n"
	want := []source{
		{"http://mirror.example.com/debian/", "bookworm", "main"},
		{"http://mirror.example.com/security/", "bookworm-security", "main"},
		{"https://third.example.com/", "nodistro", "main"},
	}
	if diff := cmp.Diff(want, parseTargets([]byte(targets)), cmp.AllowUnexported(source{})); diff != "" {
		t.Error(diff)
	}
	lines, err := (&Store{}).sourcesFor(t.Context(), aptHost{codename: "bookworm", sources: want}, "bookworm")
	if err != nil || !slices.Equal(lines, []string{"deb http://mirror.example.com/debian/ bookworm main", "deb http://mirror.example.com/security/ bookworm-security main"}) {
		t.Errorf("%q %v", lines, err)
	}
	lines, err = (&Store{}).sourcesFor(t.Context(), aptHost{given: true, sources: []source{{"http://m.example.com", "{suite}-x", "main"}}}, "trixie")
	if err != nil || !slices.Equal(lines, []string{"deb http://m.example.com trixie-x main"}) {
		t.Errorf("%q %v", lines, err)
	}
	if _, err := (&Store{}).sourcesFor(t.Context(), aptHost{}, "trixie"); !core.Is(err, core.Unavailable) || core.HintOf(err) == "" {
		t.Errorf("not Debian: %v", err)
	}

	keys := signedBy("deb [arch=amd64 signed-by=/k/a.gpg] http://x y z\nSigned-By: /k/b.gpg /k/c.asc\n# Signed-By: /k/d.gpg\nSigned-By:\n -----BEGIN\n")
	if diff := cmp.Diff([]string{"/k/a.gpg", "/k/b.gpg", "/k/c.asc"}, keys); diff != "" {
		t.Error(diff)
	}
	acquire := acquireLines([]byte("APT::Architecture \"amd64\";\nAcquire::http::Proxy \"http://p.example.com\";\nAcquire::IndexTargets::deb::x \"1\";\nAcquire::Retries \"3\";\n"))
	if len(acquire) != 4 || acquire[0] != `Acquire::http::Proxy "http://p.example.com";` {
		t.Errorf("%q", acquire)
	}
}

func TestOSRelease(t *testing.T) {
	for text, want := range map[string]OS{
		"ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n": {"debian", "12", "bookworm", "debian"},
		"ID=ubuntu\nID_LIKE=debian\n":                               {ID: "ubuntu", Family: "debian"},
		"ID='rocky'\nID_LIKE=\"rhel centos fedora\"\n":              {ID: "rocky", Family: "rhel"},
		"ID=wolfi\n": {ID: "wolfi", Family: "wolfi"},
		"":           {},
	} {
		if got := parseOS(text); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, dir := range []string{"relative", "/a:b", "/a,b"} {
		if _, err := New(Options{Dir: dir}); !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	s := newStore(t, nil)
	for _, req := range []Request{
		{Base: "debian:Book worm"},
		{Base: "debian:--help"},
		{Base: "debian:bookworm", Packages: []string{"-o"}},
		{Base: "debian:bookworm", Packages: []string{"a;b"}},
		{Base: "image", Packages: []string{"git"}},
	} {
		if _, err := s.Ensure(t.Context(), req); !core.Is(err, core.Invalid) {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

func TestGC(t *testing.T) {
	s := newStore(t, nil)
	ctx := t.Context()
	add := func(key, id string) Image {
		dir, done, err := s.stage()
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		if err := s.promote(dir, id); err != nil {
			t.Fatal(err)
		}
		img := Image{Digest: key, Base: key}
		if err := s.save(hash(key), img, []string{id}); err != nil {
			t.Fatal(err)
		}
		return img
	}
	a, b := hash("layer a"), hash("layer b")
	add("a", a)
	add("b", b)
	if list, _ := s.List(ctx); len(list) != 2 {
		t.Fatalf("list: %v", list)
	}
	held, done, err := s.stage() // somebody is at work
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(ctx, func(i Image) bool { return i.Digest == "a" }); err != nil {
		t.Fatal(err)
	}
	list, _ := s.List(ctx)
	if len(list) != 1 || list[0].Digest != "a" || !s.haveLayer(a) {
		t.Errorf("list: %v", list)
	}
	if !s.haveLayer(b) {
		t.Error("a layer that was just made may belong to an image that is being made")
	}
	if _, err := os.Stat(held); err != nil {
		t.Error("work in progress was removed")
	}
	done()
	// A manifest without its layer is as good as none.
	_ = os.RemoveAll(s.layerDir(a))
	if _, ok := s.load(hash("a")); ok {
		t.Error("an image without its layer was found")
	}
}

func TestAptState(t *testing.T) {
	etc, lists := t.TempDir(), t.TempDir()
	list := filepath.Join(etc, "sources.list")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("deb http://mirror.example.com/debian bookworm main\n")
	usual := []byte("APT \"\";\nDir \"/\";\nDir::State \"var/lib/apt\";\nDir::State::lists \"lists/\";\nDir::Etc \"etc/apt\";\n")
	first := aptState(usual, etc, lists)
	if first == "" || aptState(usual, etc, lists) != first {
		t.Errorf("the same state is not the same: %q", first)
	}
	write("deb http://mirror.example.com/debian bookworm main contrib\n")
	second := aptState(usual, etc, lists)
	if second == first {
		t.Error("another source is the same state")
	}
	if err := os.WriteFile(filepath.Join(lists, "mirror_InRelease"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if aptState(usual, etc, lists) == second {
		t.Error("another list is the same state")
	}
	if aptState(append(usual, "Acquire::Retries \"3\";\n"...), etc, lists) == second {
		t.Error("another configuration is the same state")
	}
	if got := aptState([]byte("Dir \"/elsewhere\";\n"), etc, lists); got != "" {
		t.Errorf("unusual places have the state %q", got)
	}
}
