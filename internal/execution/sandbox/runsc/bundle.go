package runsc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
)

const (
	initPath = "/.drydock/init" // of drydock-init, inside

	// A program may use this part of the memory limit as shared memory
	// (browsers and databases do); 64 MiB, the usual default, is too little.
	shmShare = 2
	shmMin   = 64 << 20
	shmMax   = 8 << 30

	// outerTasks: threads of the host that one task inside may need, on top of
	// those of gVisor itself. The limit inside gives EAGAIN to who forks too
	// much; the outer one only holds if that is got round.
	outerTasks     = 4
	outerTasksBase = 512

	openFilesSoft = 65536
	openFilesHard = 1048576

	cpuPeriod = 100_000 // microseconds
)

// capabilities are what root needs in a box for development. No raw sockets
// (the network is ours), no SYS_ADMIN and no SYS_RESOURCE (they would lift the
// limit on processes). All of them act on gVisor's kernel, never on the host's.
var capabilities = [...]string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID",
	"CAP_IPC_LOCK", "CAP_KILL", "CAP_LEASE", "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_SETFCAP", "CAP_SETGID",
	"CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_PTRACE",
}

// bundle writes the OCI bundle of a sandbox; init is the file of drydock-init.
func (d *Driver) bundle(spec sandbox.Spec, net core.Attachment, init string) error {
	p := d.paths(spec.ID)
	data, err := json.MarshalIndent(d.config(spec, net, p, init), "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.bundle(), "config.json"), data, 0o600) // it holds the token
}

// shape is a digest of all that gVisor demands to be the same when a memory
// image is restored. What may differ (paths on the host, names, the
// environment, the control group) is not in it.
func (d *Driver) shape(spec sandbox.Spec) string {
	c := d.config(spec, core.Attachment{}, paths{}, "")
	for i := range c.Mounts {
		c.Mounts[i].Source = ""
	}
	for i := range c.Linux.Namespaces {
		c.Linux.Namespaces[i].Path = ""
	}
	c.Process.Env, c.Hostname, c.Root, c.Linux.CgroupsPath, c.Linux.Resources = nil, "", nil, "", nil
	data, err := json.Marshal(struct {
		Config specs.Spec
		Flags  []string
	}{c, fixedFlags})
	if err != nil {
		return "" // cannot be: it was made from plain values
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (d *Driver) config(spec sandbox.Spec, net core.Attachment, p paths, init string) specs.Spec {
	caps := capabilities[:]
	config := specs.Spec{
		Version:  "1.1.0",
		Hostname: spec.Hostname,
		Root:     &specs.Root{Path: p.root()},
		Process: &specs.Process{
			Args: []string{initPath},
			Env:  initEnv(spec),
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: caps, Effective: caps, Permitted: caps,
			},
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: openFilesSoft, Hard: openFilesHard}},
		},
		Mounts: mounts(spec, p, init),
		Linux: &specs.Linux{
			CgroupsPath: d.cgroups.path(spec.ID),
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.NetworkNamespace, Path: net.Namespace},
			},
		},
	}
	d.limit(&config, spec.Limits)
	return config
}

func mounts(spec sandbox.Spec, p paths, init string) []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{
			"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", shmSize(spec.Limits.Memory)),
		}},
		// gVisor would put memory there; from the root it is part of a snapshot.
		{Destination: "/tmp", Type: "bind", Source: filepath.Join(p.root(), "tmp"), Options: []string{"bind", "rw"}},
		{Destination: initPath, Type: "bind", Source: init, Options: []string{"bind", "ro"}},
	}
}

func shmSize(memory int64) int64 {
	if memory <= 0 {
		return shmMax
	}
	return min(max(memory/shmShare, shmMin), shmMax)
}

func (d *Driver) limit(config *specs.Spec, limits core.Limits) {
	r := &specs.LinuxResources{}
	if limits.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &limits.Memory}
		if d.cgroups.swapLimited() {
			r.Memory.Swap = &limits.Memory // memory and swap together: no swap
		}
	}
	if limits.CPU > 0 {
		quota, period := int64(limits.CPU*cpuPeriod), uint64(cpuPeriod)
		quota = max(quota, 1000) // the least that Linux takes
		r.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	if limits.Pids > 0 {
		outer := int64(limits.Pids)*outerTasks + outerTasksBase
		r.Pids = &specs.LinuxPids{Limit: &outer}
		config.Process.Rlimits = append(config.Process.Rlimits,
			specs.POSIXRlimit{Type: "RLIMIT_NPROC", Soft: uint64(limits.Pids), Hard: uint64(limits.Pids)})
	}
	config.Linux.Resources = r
}

// prepareRoot makes what the bundle mounts on and what must be there before
// PID 1 runs. The tree below root is hostile: os.Root keeps every step in it.
func (d *Driver) prepareRoot(p paths, spec sandbox.Spec, net core.Attachment) error {
	root, err := os.OpenRoot(p.root())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := makeDir(root, "tmp", 0o777|os.ModeSticky); err != nil {
		return err
	}
	if err := makeDir(root, ".drydock", 0o755); err != nil {
		return err
	}
	if st, err := root.Lstat(initPath[1:]); err == nil && !st.Mode().IsRegular() {
		if err := root.RemoveAll(initPath[1:]); err != nil { // it is a mount point
			return err
		}
	}
	if err := makeDir(root, "etc", 0o755); err != nil {
		return err
	}
	for _, f := range etc(spec, net) {
		if err := lay(root, f); err != nil {
			return err
		}
	}
	return nil
}

// etc are the files that drydock-init would write otherwise. Programs in a
// memory image may hold some of them open: those that it finds as they were.
func etc(spec sandbox.Spec, net core.Attachment) []guest.SetupFile {
	s := guest.Setup{Hostname: spec.Hostname, Machine: spec.Machine}
	if net.Resolver.IsValid() {
		s.Resolver = net.Resolver.String()
	}
	files := s.Etc()
	if spec.Image == nil {
		return files
	}
	return slices.DeleteFunc(files, func(f guest.SetupFile) bool { return f.Path != "/etc/hostname" && f.Path != "/etc/resolv.conf" })
}

// lay writes a file below root, unless it is there.
func lay(root *os.Root, f guest.SetupFile) error {
	name := strings.TrimPrefix(f.Path, "/")
	if st, err := root.Lstat(name); err == nil && st.Mode() == f.Mode && st.Size() == int64(len(f.Data)) {
		if old, err := root.ReadFile(name); err == nil && bytes.Equal(old, f.Data) {
			return nil
		}
	}
	// Removed first: it may be a link, or a directory.
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	return root.WriteFile(name, f.Data, f.Mode)
}

// makeDir makes a directory that must really be one, not a link to one: runsc
// mounts on it.
func makeDir(root *os.Root, name string, mode os.FileMode) error {
	st, err := root.Lstat(name)
	if err == nil && st.IsDir() {
		return nil
	}
	if err == nil {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := root.Mkdir(name, mode.Perm()); err != nil {
		return err
	}
	return root.Chmod(name, mode) // past the umask, with the sticky bit
}

func validHostname(name string) bool {
	return len(name) <= 63 && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" &&
		!strings.HasPrefix(name, "-") && !strings.HasPrefix(name, ".")
}

// initEnv is what drydock-init gets. It hands on none of its own variables.
func initEnv(spec sandbox.Spec) []string {
	return slices.Concat(spec.Env, []string{
		"DRYDOCK_TOKEN=" + spec.Token,
		"DRYDOCK_PORT=" + strconv.Itoa(sandbox.GuestPort),
	})
}
