package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
)

// raw starts sandboxes with runsc and nothing else: an overlay mount by one
// system call, a bundle with the very configuration that Drydock's driver
// wrote, `runsc run` with the same flags, the same drydock-init asked until it
// answers. Namespaces and veth pairs are made before, by ip, and not counted.
type raw struct {
	runsc string
	dir   string
	name  string // of this process: in names of namespaces, interfaces and groups
	octet int
	made  int
	boxes map[*rawBox]bool
}

type rawBox struct {
	id, dir, ns, veth string
	guest             netip.AddrPort
	token             string
	flags             []string // of runsc, besides those of the driver
	mounted, started  bool
}

func newRaw(runsc, dir string) (*raw, error) {
	if err := os.MkdirAll(filepath.Join(dir, "runsc"), 0o700); err != nil {
		return nil, err
	}
	n := rand.IntN(250)
	return &raw{runsc: runsc, dir: dir, name: fmt.Sprintf("ddbench%d", os.Getpid()), octet: n, boxes: map[*rawBox]bool{}}, nil
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// box makes the namespace of the next sandbox: gVisor takes address and route
// off the veth end, so each start needs a new one.
func (r *raw) box(ctx context.Context) (*rawBox, error) {
	r.made++
	n := r.made % 60
	x := &rawBox{
		id: fmt.Sprintf("raw-%08d", r.made), ns: fmt.Sprintf("%s-%d", r.name, r.made), veth: fmt.Sprintf("ddb%d", r.made%10000),
		guest: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 237, byte(r.octet), byte(4*n + 2)}), sandbox.GuestPort),
		token: "bench",
	}
	host := netip.AddrFrom4([4]byte{10, 237, byte(r.octet), byte(4*n + 1)}).String()
	x.dir = filepath.Join(r.dir, x.id)
	r.boxes[x] = true
	for _, args := range [][]string{
		{"netns", "add", x.ns},
		{"link", "add", x.veth, "type", "veth", "peer", "name", "eth0", "netns", x.ns},
		{"addr", "add", host + "/30", "dev", x.veth},
		{"link", "set", x.veth, "up"},
		{"-n", x.ns, "link", "set", "lo", "up"},
		{"-n", x.ns, "addr", "add", x.guest.Addr().String() + "/30", "dev", "eth0"},
		{"-n", x.ns, "link", "set", "eth0", "up"},
		{"-n", x.ns, "route", "add", "default", "via", host},
	} {
		if err := command(ctx, "ip", args...); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// start is what is measured.
func (r *raw) start(ctx context.Context, x *rawBox, layers []string, config specs.Spec) error {
	if err := r.lay(x, layers, config); err != nil {
		return err
	}
	if err := r.runsced(ctx, x, "run"); err != nil {
		return err
	}
	return answers(ctx, x.guest, x.token)
}

func (r *raw) writeConfig(x *rawBox, config specs.Spec) error {
	data, err := json.Marshal(r.config(x, config))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(x.dir, "config.json"), data, 0o600)
}

// config is the driver's configuration on this box.
func (r *raw) config(x *rawBox, c specs.Spec) specs.Spec {
	root := filepath.Join(x.dir, "root")
	c.Root = &specs.Root{Path: root}
	process := *c.Process
	process.Env = []string{"DRYDOCK_TOKEN=" + x.token, fmt.Sprintf("DRYDOCK_PORT=%d", sandbox.GuestPort)}
	c.Process = &process
	mounts := append([]specs.Mount{}, c.Mounts...)
	for i := range mounts {
		if mounts[i].Destination == "/tmp" {
			mounts[i].Source = filepath.Join(root, "tmp")
		}
	}
	c.Mounts = mounts
	linux := *c.Linux
	linux.CgroupsPath = "/" + r.name + "/" + x.id
	linux.Namespaces = append([]specs.LinuxNamespace{}, linux.Namespaces...)
	for i := range linux.Namespaces {
		if linux.Namespaces[i].Type == specs.NetworkNamespace {
			linux.Namespaces[i].Path = "/run/netns/" + x.ns
		}
	}
	c.Linux = &linux
	return c
}

// answers asks drydock-init as the driver does, until it answers.
func answers(ctx context.Context, at netip.AddrPort, token string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := guest.NewTCPClient(at, token)
	defer client.Close()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		try, cancelTry := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err := client.Health(try)
		cancelTry()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("drydock-init does not answer at %s: %w", at, err)
		}
	}
}

// stop is the end of a sandbox, as somebody would do it by hand.
func (r *raw) stop(ctx context.Context, x *rawBox) error {
	var errs []error
	if x.started {
		errs = append(errs, command(ctx, r.runsc, "--root="+filepath.Join(r.dir, "runsc"), "delete", "--force", x.id))
		x.started = false
	}
	if x.mounted {
		err := unix.Unmount(filepath.Join(x.dir, "root"), 0)
		for try := 0; errors.Is(err, unix.EBUSY) && try < 500; try++ {
			<-time.After(2 * time.Millisecond) // the kernel may need a moment to let go
			err = unix.Unmount(filepath.Join(x.dir, "root"), 0)
		}
		errs = append(errs, err)
		x.mounted = err != nil
	}
	if !x.mounted {
		errs = append(errs, os.RemoveAll(x.dir))
	}
	return errors.Join(errs...)
}

// forget removes the namespace; the veth pair goes with it, a moment later.
func (r *raw) forget(ctx context.Context, x *rawBox) error {
	if err := command(ctx, "ip", "netns", "del", x.ns); err != nil {
		return err
	}
	for try := 0; ; try++ {
		if _, err := os.Stat("/sys/class/net/" + x.veth); err != nil {
			break
		}
		if try == 500 {
			return fmt.Errorf("interface %s does not go away", x.veth)
		}
		<-time.After(10 * time.Millisecond)
	}
	delete(r.boxes, x)
	return nil
}

func (r *raw) close(ctx context.Context) error {
	var errs []error
	for x := range r.boxes {
		errs = append(errs, r.stop(ctx, x), r.forget(ctx, x))
	}
	// runsc leaves an empty namespace mounted, and the parent of its groups; version 1 has one per hierarchy.
	if err := unix.Unmount(filepath.Join(r.dir, "runsc", "null-netns"), 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/" + r.name, "/sys/fs/cgroup/*/" + r.name} {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			left, _ := filepath.Glob(filepath.Join(dir, "raw-*"))
			for _, d := range left {
				_ = os.Remove(d)
			}
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
