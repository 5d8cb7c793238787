package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"drydock/internal/core"
)

// debianFormat is raised when what is made for the same request changes.
const debianFormat = "debian 2"

var (
	suiteForm   = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,63}$`)
	packageForm = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*(:[a-z0-9-]+)?(=[A-Za-z0-9.+:~-]+)?$`)
)

// debianEnv is the environment of a bootstrapped image.
func debianEnv() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
}

// debian makes an image of at most two layers: the suite with git and
// certificates, shared by every request for it, and the packages.
func (s *Store) debian(ctx context.Context, suite string, req Request) (Image, error) {
	if !suiteForm.MatchString(suite) {
		return Image{}, core.E("image.debian", core.Invalid, nil, "%q is not the name of a suite of Debian", suite)
	}
	packages := slices.Compact(slices.Sorted(slices.Values(req.Packages)))
	for _, p := range packages {
		if !packageForm.MatchString(p) {
			return Image{}, core.E("image.debian", core.Invalid, nil, "%q is not the name of a Debian package", p)
		}
	}
	if os.Geteuid() != 0 {
		return Image{}, core.E("image.debian", core.Unavailable, nil, "making an image of debian:%s needs root", suite).WithHint("run the daemon as root")
	}
	certificates, err := s.extraCertificates()
	if err != nil {
		return Image{}, err
	}
	// The key depends on what is asked and on the host's settings, not on what
	// the sources hold today. Asking apt takes seconds, so that is done only when
	// something has to be made.
	parts := append([]string{debianFormat, suite, runtime.GOARCH}, s.aptFingerprint()...)
	for _, name := range slices.Sorted(maps.Keys(certificates)) {
		parts = append(parts, name, string(certificates[name]))
	}
	baseKey := hash(parts...)
	base, err := s.once(ctx, baseKey, req, func() (Image, []string, error) {
		host, err := s.aptDiscover(ctx)
		if err != nil {
			return Image{}, nil, err
		}
		return s.bootstrap(ctx, suite, host, certificates, req.Progress)
	})
	if err != nil || len(packages) == 0 {
		return base, err
	}
	key := hash(append([]string{debianFormat, baseKey, base.Digest}, packages...)...)
	return s.once(ctx, key, req, func() (Image, []string, error) {
		host, err := s.aptDiscover(ctx)
		if err != nil {
			return Image{}, nil, err
		}
		return s.install(ctx, base, baseKey, host, packages, req.Progress)
	})
}

// once makes what a key stands for unless it is there, one process at a time.
func (s *Store) once(ctx context.Context, key string, req Request, build func() (Image, []string, error)) (Image, error) {
	asked := time.Now()
	fresh := func(img Image, ok bool) bool { return ok && (!req.Refresh || img.Created.After(asked)) }
	if img, ok := s.load(key); fresh(img, ok) {
		return img, nil
	}
	lock, err := s.lock(ctx, key)
	if err != nil {
		return Image{}, err
	}
	defer lock.release()
	if img, ok := s.load(key); fresh(img, ok) {
		return img, nil
	}
	img, layers, err := build()
	if err != nil {
		return Image{}, err
	}
	img.Created = time.Now().UTC()
	img.Layers = nil
	for _, id := range layers {
		img.Layers = append(img.Layers, s.layerDir(id))
	}
	img.OS = readOS(img.Layers)
	if err := s.save(key, img, layers); err != nil {
		return Image{}, err
	}
	return img, nil
}

// bootstrap makes the layer that every image of a suite begins with.
func (s *Store) bootstrap(ctx context.Context, suite string, host aptHost, certificates map[string][]byte, progress func(string)) (Image, []string, error) {
	fail := func(err error) (Image, []string, error) { return Image{}, nil, err }
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return fail(core.E("image.debian", core.Unavailable, err, "program mmdebstrap not found").WithHint("install it: apt-get install mmdebstrap"))
	}
	lines, err := s.sourcesFor(ctx, host, suite)
	if err != nil {
		return fail(err)
	}
	work, done, err := s.stage()
	if err != nil {
		return fail(err)
	}
	defer done()
	root, keys, certs, tmp := filepath.Join(work, "root"), filepath.Join(work, "keys"), filepath.Join(work, "certs"), filepath.Join(work, "tmp")
	if err := s.prepare(host, certificates, keys, certs, tmp); err != nil {
		return fail(err)
	}
	args := []string{
		"--mode=root", "--format=directory", "--variant=minbase", "--include=git,ca-certificates",
		`--aptopt=Acquire::Languages "none"`,
		"--dpkgopt=force-unsafe-io", // the whole tree is put on disk before it counts
		"--customize-hook=rm -f \"$1/etc/apt/apt.conf.d/99mmdebstrap\" \"$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap\"",
		"--customize-hook=cp \"" + certs + "\"/*.crt \"$1/usr/local/share/ca-certificates/\" 2>/dev/null && chroot \"$1\" update-ca-certificates >/dev/null || true",
		"--customize-hook=echo drydock > \"$1/etc/hostname\"; : > \"$1/etc/resolv.conf\"",
		"--keyring=" + keys,
	}
	for _, l := range host.acquire {
		args = append(args, "--aptopt="+l)
	}
	args = append(args, suite, root, "-")
	progress("bootstrapping debian:" + suite)
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-eu", "-c", "mount -t proc proc /proc\nmmdebstrap \"$@\"", "bootstrap"}, args...)...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	cmd.Env = s.environ("TMPDIR=" + tmp)
	if err := s.watch(ctx, cmd, progress, "debian:"+suite); err != nil {
		return fail(err)
	}
	status, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil {
		return fail(core.E("image.debian", core.Internal, err, "debian:%s was bootstrapped without a package database", suite))
	}
	id := hash(append([]string{debianFormat, suite, string(status)}, slices.Sorted(maps.Keys(certificates))...)...)
	if err := s.promote(root, id); err != nil {
		return fail(err)
	}
	return Image{Digest: "sha256:" + id, Base: "debian:" + suite, Env: debianEnv()}, []string{id}, nil
}

// prepare writes keys and certificates where the programs look for them.
func (s *Store) prepare(host aptHost, certificates map[string][]byte, keys, certs, tmp string) error {
	bad := func(err error) error {
		return core.E("image.debian", core.Internal, err, "cannot prepare a bootstrap in %s", s.dir)
	}
	for _, dir := range []string{keys, certs, tmp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return bad(err)
		}
	}
	if err := os.Chmod(filepath.Dir(keys), 0o755); err != nil {
		return bad(err)
	}
	for _, path := range host.keyrings {
		raw, err := os.ReadFile(path)
		if err != nil {
			return bad(err)
		}
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "_")
		if err := os.WriteFile(filepath.Join(keys, name), raw, 0o644); err != nil {
			return bad(err)
		}
	}
	for name, data := range certificates {
		if err := os.WriteFile(filepath.Join(certs, name), data, 0o644); err != nil {
			return bad(err)
		}
	}
	return nil
}

// installScript adds packages on top of a base. It runs in its own mount and
// process namespaces: nothing it mounts or starts outlives it. Packages are
// fetched by the host's apt, so that its ways out apply; their scripts run in
// the new root, where no service may start.
const installScript = `
mount -t proc proc /proc
# volatile: waiting for the disk after every file is for nothing, since the whole
# layer is put on disk before it counts. Older kernels do not know it.
O="lowerdir=$LOWER,upperdir=$W/upper,workdir=$W/ovl,redirect_dir=on,index=off,metacopy=off"
mount -t overlay overlay -o "$O,volatile" "$W/root" 2>/dev/null || mount -t overlay overlay -o "$O" "$W/root"
R=$W/root
mount -t proc proc "$R/proc"
mount -t tmpfs -o mode=1777 tmpfs "$R/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$R/tmp"
mount --bind "$CACHE/lists" "$R/var/lib/apt/lists"
mount --bind "$CACHE/archives" "$R/var/cache/apt/archives"
printf '#!/bin/sh\nexit 101\n' > "$R/usr/sbin/policy-rc.d"
chmod 755 "$R/usr/sbin/policy-rc.d"
export APT_CONFIG="$W/apt.conf"
apt-get update
apt-get install --yes --no-install-recommends -- "$@"
rm -f "$R/usr/sbin/policy-rc.d" "$R/var/cache/apt/pkgcache.bin" "$R/var/cache/apt/srcpkgcache.bin"
umount -R "$R/proc" "$R/dev/shm" "$R/tmp" "$R/var/lib/apt/lists" "$R/var/cache/apt/archives"
cat "$R/var/lib/dpkg/status" > "$W/status"
umount "$R"
`

// install makes the layer of a list of packages.
func (s *Store) install(ctx context.Context, base Image, baseKey string, host aptHost, packages []string, progress func(string)) (Image, []string, error) {
	fail := func(err error) (Image, []string, error) { return Image{}, nil, err }
	work, done, err := s.stage()
	if err != nil {
		return fail(err)
	}
	defer done()
	keys := filepath.Join(work, "keys")
	if err := s.prepare(host, nil, keys, filepath.Join(work, "certs"), filepath.Join(work, "tmp")); err != nil {
		return fail(err)
	}
	cache := filepath.Join(s.dir, "apt", baseKey)
	for _, dir := range []string{
		filepath.Join(work, "upper"), filepath.Join(work, "ovl"), filepath.Join(work, "root"),
		filepath.Join(cache, "lists", "partial"), filepath.Join(cache, "archives", "partial"),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fail(core.E("image.debian", core.Internal, err, "cannot make %s", dir))
		}
	}
	// The cache of downloaded packages is shared; apt would refuse a second user
	// rather than wait.
	lock, err := s.lock(ctx, "apt-"+baseKey)
	if err != nil {
		return fail(err)
	}
	defer lock.release()
	prune(filepath.Join(cache, "archives"))
	root := filepath.Join(work, "root")
	conf := append([]string{
		`Dir "` + root + `/";`,
		`Dir::Bin::dpkg "/usr/bin/dpkg";`,
		`Dir::Etc::Trusted "/nonexistent";`,
		`Dir::Etc::TrustedParts "` + keys + `/";`,
		`DPkg::Chroot-Directory "` + root + `";`,
		`DPkg::Options { "--force-confold"; "--force-unsafe-io"; };`,
		`DPkg::Use-Pty "0";`,
		`APT::Architecture "` + debianArch() + `";`,
		`APT::Sandbox::User "root";`,
		`APT::Keep-Downloaded-Packages "1";`,
		`Acquire::Languages "none";`,
	}, host.acquire...)
	if err := os.WriteFile(filepath.Join(work, "apt.conf"), []byte(strings.Join(conf, "\n")+"\n"), 0o600); err != nil {
		return fail(core.E("image.debian", core.Internal, err, "cannot write apt's configuration"))
	}
	progress("installing " + strings.Join(packages, " "))
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-eu", "-c", installScript, "install"}, packages...)...)
	cmd.Env = s.environ("W="+work, "LOWER="+base.Layers[0], "CACHE="+cache)
	if err := s.watch(ctx, cmd, progress, "packages "+strings.Join(packages, " ")); err != nil {
		return fail(err)
	}
	status, err := os.ReadFile(filepath.Join(work, "status"))
	if err != nil {
		return fail(core.E("image.debian", core.Internal, err, "packages were installed without a package database"))
	}
	id := hash(append([]string{debianFormat, base.Digest, string(status)}, packages...)...)
	if err := s.promote(filepath.Join(work, "upper"), id); err != nil {
		return fail(err)
	}
	digest := hash("image", base.Digest, id)
	return Image{Digest: "sha256:" + digest, Base: base.Base, Env: debianEnv()}, []string{id, filepath.Base(base.Layers[0])}, nil
}

// prune drops downloaded packages that nobody asked for in two weeks.
func prune(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	for _, f := range files {
		if olderThan(f, 14*24*time.Hour) {
			_ = os.Remove(f)
		}
	}
}

func debianArch() string {
	switch runtime.GOARCH {
	case "386":
		return "i386"
	case "arm":
		return "armhf"
	case "ppc64le":
		return "ppc64el"
	}
	return runtime.GOARCH
}

// watch runs a command in its own mount and process namespaces, handing lines that tell of progress on, and turns its
// failure into an error with the end of its output.
func (s *Store) watch(ctx context.Context, cmd *exec.Cmd, progress func(string), what string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return core.E("image.debian", core.Internal, err, "cannot run %s", cmd.Path)
	}
	cmd.Stdout, cmd.Stderr = w, w
	// Its own namespaces: nothing it mounts or starts outlives it, and it does
	// not outlive this process. The thread stays, because its end would count as
	// the parent's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS,
	}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		_, _ = r.Close(), w.Close()
		if ctx.Err() != nil {
			return core.E("image.debian", core.KindOf(ctx.Err()), ctx.Err(), "making %s was interrupted", what)
		}
		return core.E("image.debian", core.Internal, err, "cannot run %s", cmd.Path)
	}
	_ = w.Close()
	tail := make(chan string, 1)
	go func() { tail <- follow(r, progress) }()
	err = cmd.Wait()
	// Whoever still holds the pipe is a stray of a killed group; do not wait
	// for it.
	_ = r.SetReadDeadline(time.Now().Add(2 * time.Second))
	output := <-tail
	_ = r.Close()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return core.E("image.debian", core.KindOf(ctx.Err()), ctx.Err(), "making %s was interrupted", what)
	}
	return aptFailure(what, output, err)
}

// follow reads lines until the end; it returns the last ones.
func follow(r io.Reader, progress func(string)) string {
	var tail []string
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	scanner.Split(scanLines)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" {
			continue
		}
		if tail = append(tail, line); len(tail) > 40 {
			tail = tail[1:]
		}
		for _, prefix := range []string{"I: ", "Setting up ", "Need to get ", "Get:", "Unpacking "} {
			if strings.HasPrefix(line, prefix) {
				progress(strings.TrimPrefix(line, "I: "))
				break
			}
		}
	}
	return strings.Join(tail, "\n")
}

// scanLines takes carriage returns as ends of lines too: progress bars.
func scanLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

var missingPackage = regexp.MustCompile(`(?:Unable to locate package|has no installation candidate|Version '[^']*' for|Couldn't find any package by)`)

func aptFailure(what, output string, err error) error {
	tail := errors.New(lastLines(output, 12))
	lower := strings.ToLower(output)
	switch {
	case missingPackage.MatchString(output):
		return core.E("image.debian", core.Invalid, tail, "cannot make %s: a package does not exist there", what).
			WithHint("check the names under packages; `apt-cache policy NAME` shows what a suite has")
	case strings.Contains(lower, "gpg error") || strings.Contains(lower, "not signed"):
		return core.E("image.debian", core.Unavailable, tail, "cannot make %s: its package lists are not signed by a key of this host", what).
			WithHint("install debian-archive-keyring, or the key of your mirror under /etc/apt/trusted.gpg.d")
	case strings.Contains(lower, "no space left"):
		return core.E("image.debian", core.Exhausted, tail, "cannot make %s: the disk is full", what).WithHint("free space under the state directory")
	case strings.Contains(lower, "could not resolve") || strings.Contains(lower, "could not connect") || strings.Contains(lower, "failed to fetch") || strings.Contains(lower, "temporary failure"):
		return core.E("image.debian", core.Unavailable, tail, "cannot make %s: its packages cannot be fetched", what).
			WithHint("check that apt-get update works on this host")
	}
	return core.E("image.debian", core.Internal, errors.Join(err, tail), "cannot make %s", what)
}
