package doctor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/config"
	"drydock/internal/containment/registries"
	"drydock/internal/core"
)

// find looks for one of Drydock's own programs: as configured, beside this
// program, then on PATH.
func find(configured, name string) (string, error) {
	if configured != "" {
		_, err := os.Stat(configured)
		return configured, err
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}

// command runs a program for a short time.
func (d *doctor) command(limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = d.opts.Environ
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer in %s", limit)
	}
	return strings.TrimSpace(string(out)), err
}

func (d *doctor) runsc() Check {
	const means = "Sandboxes run under it."
	path, err := find(d.opts.Config.Runsc, "runsc")
	if err != nil {
		return lack("runsc", "not found", means, "run make build, which puts it beside drydock, or name an official release under runsc in the configuration")
	}
	version, err := d.command(20*time.Second, path, "--version")
	if err != nil {
		return lack("runsc", fmt.Sprintf("%s --version: %v", path, err), means, "build it again: make build")
	}
	digest, err := digestOf(path)
	if err != nil {
		return lack("runsc", err.Error(), means, "make it readable")
	}
	release := firstLine([]byte(strings.TrimPrefix(version, "runsc version ")))
	if release == "VERSION_MISSING" {
		release = "built from the module"
	}
	found := fmt.Sprintf("%s, %s, sha256:%s", path, release, digest[:16])
	if os.Geteuid() != 0 {
		return warn("runsc", found, "Whether it works can be tried by root only.", "sudo drydock doctor")
	}
	state, done, err := d.scratch()
	if err != nil {
		return warn("runsc", found+"; not tried: "+err.Error(), means, "give the daemon a state directory it can write")
	}
	defer done()
	out, err := d.command(30*time.Second, path, "--root", state, "--network=none", "--ignore-cgroups", "do", "/bin/true")
	_ = unix.Unmount(filepath.Join(state, "null-netns"), unix.MNT_DETACH) // runsc keeps it
	if err != nil {
		return lack("runsc", fmt.Sprintf("%s; a program under it: %v: %s", found, err, firstLine([]byte(out))), means, "see docs/network.md and the kernel checks above; try: "+path+" --network=none do true")
	}
	return ok("runsc", "%s; a program ran under it", found)
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

func (d *doctor) init() Check {
	path, err := find(d.opts.Config.Init, "drydock-init")
	if err != nil {
		return lack("init", "drydock-init is not found", "It is process 1 of every sandbox.", "run make build, which puts it beside drydock")
	}
	if d.opts.CheckInit == nil {
		return ok("init", "%s", path)
	}
	if err := d.opts.CheckInit(d.ctx, path); err != nil {
		return lack("init", err.Error(), "The daemon does not start: it would not understand what runs in its sandboxes.", core.HintOf(err))
	}
	return ok("init", "%s, built with this drydock", path)
}

var gitVersion = regexp.MustCompile(`(\d+)\.(\d+)`)

func (d *doctor) git() Check {
	const means = "Mirrors, branches and changes are made with git 2.38 or newer."
	out, err := d.command(10*time.Second, "git", "--version")
	if err != nil {
		return lack("git", "not found", means, "apt-get install git")
	}
	m := gitVersion.FindStringSubmatch(out)
	if m == nil {
		return warn("git", firstLine([]byte(out)), "Its version is not understood.", "")
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < 2 || (major == 2 && minor < 38) {
		return lack("git", m[0], means, "install a newer git")
	}
	return ok("git", "%s", firstLine([]byte(out)))
}

func (d *doctor) mmdebstrap() Check {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return warn("mmdebstrap", "not found", "Environments with base: debian:SUITE cannot be built; bases from a registry or an OCI layout can.", "apt-get install mmdebstrap")
	}
	return ok("mmdebstrap", "is there; base images debian:SUITE can be made")
}

// fsNames of the usual file systems.
var fsNames = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs",
}

func (d *doctor) stateDir() Check {
	dir := d.existing()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return lack("disk", err.Error(), "There is no place for state.", "set state_dir in the configuration")
	}
	name := fsNames[int64(st.Type)]
	if name == "" {
		name = fmt.Sprintf("file system %x", st.Type)
	}
	free := st.Bavail * uint64(st.Bsize)
	found := fmt.Sprintf("%s, %s free for %s", name, gib(int64(free)), d.opts.Config.StateDir)
	switch {
	case name == "tmpfs" || name == "nfs" || name == "overlay":
		return lack("disk", found, "The upper directory of an overlay must be on a local disk file system, and state must outlive a reboot.", "put state_dir on ext4, xfs or btrfs")
	case free < 5<<30:
		return lack("disk", found, "An environment of Debian with a database takes about 1 GiB, a build about 3.", "make room, or set state_dir to a larger disk")
	case free < 20<<30:
		return warn("disk", found, "This is little for several environments and their snapshots.", "make room, or set state_dir to a larger disk")
	}
	return ok("disk", "%s", found)
}

// reflink tries to copy a file without copying its bytes.
func (d *doctor) reflink() Check {
	dir, done, err := d.scratch()
	if err != nil {
		return lack("state", err.Error(), "The state directory cannot be written.", "run as root, or set state_dir")
	}
	defer done()
	src, err1 := os.Create(filepath.Join(dir, "a"))
	dst, err2 := os.Create(filepath.Join(dir, "b"))
	if err := errors.Join(err1, err2); err != nil {
		return lack("state", err.Error(), "The state directory cannot be written.", "run as root, or set state_dir")
	}
	defer src.Close()
	defer dst.Close()
	_, _ = src.WriteString("x")
	if err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())); err != nil {
		return ok("reflink", "not on this file system; nothing needs it, copies of layers take a little longer")
	}
	return ok("reflink", "files are copied without copying bytes")
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

func (d *doctor) memory() Check {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return lack("memory", err.Error(), "", "mount /proc")
	}
	var total, free int64
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "MemTotal:":
			total = kib << 10
		case "MemAvailable:":
			free = kib << 10
		}
	}
	found := fmt.Sprintf("%s, %s of it free", gib(total), gib(free))
	one := int64(d.opts.Config.Limits.Memory)
	switch {
	case free < 1<<30:
		return lack("memory", found, "A sandbox with a database and an agent at work needs about 1 GiB.", "free memory or use a larger machine")
	case free < one:
		return warn("memory", found, fmt.Sprintf("One sandbox may take up to %s (limits.memory).", config.Size(one)), "lower limits.memory or running.sandboxes")
	}
	return ok("memory", "%s; a sandbox may take up to %s, and %d may run", found, config.Size(one), d.opts.Config.Running.Sandboxes)
}

func (d *doctor) cpu() Check {
	if n := runtime.NumCPU(); n < 2 {
		return warn("cpu", "1 core", "Everything works, slowly.", "give the machine two cores or more")
	}
	return ok("cpu", "%d cores", runtime.NumCPU())
}

func (d *doctor) port() Check {
	addr := d.opts.Config.Listen
	if d.opts.Running {
		return ok("port", "%s, where the daemon answers", addr)
	}
	l, err := (&net.ListenConfig{}).Listen(d.ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return warn("port", addr+" is in use", "Either a daemon runs already, or something else took its port.", "drydock session list tells which; else set listen in the configuration")
	}
	if err != nil {
		return lack("port", err.Error(), "The API cannot be reached.", "set listen in the configuration")
	}
	_ = l.Close()
	return ok("port", "%s is free", addr)
}

func (d *doctor) registries() Check {
	s := registries.Read(d.ctx, registries.Options{Environ: d.opts.Environ})
	by := map[string][]string{}
	var order []string
	for _, e := range s.Endpoints {
		if by[e.Manager] == nil {
			order = append(order, e.Manager)
		}
		by[e.Manager] = append(by[e.Manager], fmt.Sprintf("%s:%d", e.Host, e.Port))
		d.endpoints = append(d.endpoints, e.Host)
	}
	var parts []string
	for _, m := range order {
		parts = append(parts, m+" "+strings.Join(by[m], " "))
	}
	switch {
	case len(parts) == 0:
		return warn("registries", "no package manager of this host names a registry", `The word "registries" in network.allow stands for nothing, so builds can install nothing by it.`,
			"configure or install the package managers (Go, npm, apt, pip, cargo, Maven) on this host as its users need them, or name hosts under network.allow")
	case len(s.Dropped)+len(s.Notes) > 0:
		return warn("registries", strings.Join(parts, "; "), "Left out: "+strings.Join(append(s.Dropped, s.Notes...), "; ")+".",
			"secrets never enter a sandbox; a mirror that demands them needs a way in without, e.g. by address")
	}
	return ok("registries", "%s", strings.Join(parts, "; "))
}

// resolves looks the registries up, as the egress will.
func (d *doctor) resolves() Check {
	if len(d.endpoints) == 0 {
		return ok("names", "nothing to look up")
	}
	var bad []string
	seen := map[string]bool{}
	for _, host := range d.endpoints {
		if seen[host] {
			continue
		}
		seen[host] = true
		ctx, cancel := context.WithTimeout(d.ctx, 3*time.Second)
		_, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		cancel()
		if err != nil {
			bad = append(bad, host)
		}
	}
	if len(bad) > 0 {
		if http, https, _, _ := d.opts.Config.Upstream(d.opts.Env); http != "" || https != "" {
			return ok("names", "%s left to the proxy this host uses", strings.Join(bad, ", "))
		}
		return warn("names", "this host cannot resolve "+strings.Join(bad, ", "), "Sandboxes cannot reach what the host cannot.", "mend the host's resolver, or ignore it for managers that are not used")
	}
	return ok("names", "all of them resolve")
}

func (d *doctor) models() Check {
	if len(d.opts.Config.Models) == 0 {
		return warn("models", "none configured", "drydock demo works with its scripted model; real tasks need a provider.", "set ANTHROPIC_API_KEY, or models in the configuration")
	}
	var names []string
	for _, p := range d.opts.Config.Models {
		if _, err := p.Key.Read(d.opts.Env); err != nil {
			return lack("models", fmt.Sprintf("%s: %v", p.Name, err), "Calls to this provider fail.", "make the key's file or variable available to the daemon")
		}
		names = append(names, p.Name)
	}
	return ok("models", "%s", strings.Join(names, ", "))
}
