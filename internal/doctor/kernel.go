package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func release() (text string, major, minor int) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown", 0, 0
	}
	text = unix.ByteSliceToString(u.Release[:])
	_, _ = fmt.Sscanf(text, "%d.%d", &major, &minor)
	return text, major, minor
}

func (d *doctor) kernel() Check {
	text, major, minor := release()
	if runtime.GOOS != "linux" || major < 5 || (major == 5 && minor < 15) {
		return lack("kernel", text, "Drydock is made for Linux 5.15 and newer.", "use a newer kernel; Debian 12 has 6.1")
	}
	return ok("kernel", "Linux %s, %s", text, runtime.GOARCH)
}

// wanted are the capabilities that are used.
var wanted = map[string]uint{
	"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7, "NET_ADMIN": 12, "SYS_CHROOT": 18, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "MKNOD": 27,
}

func (d *doctor) root() Check {
	if os.Geteuid() != 0 {
		return lack("root", fmt.Sprintf("user %d", os.Geteuid()), "Namespaces, mounts and cgroups need root; many checks below fail for that reason alone.", "run it as root: sudo drydock doctor")
	}
	var caps uint64
	if data, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(data)) {
			if v, found := strings.CutPrefix(line, "CapEff:"); found {
				caps, _ = strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			}
		}
	}
	var missing []string
	for name, bit := range wanted {
		if caps&(1<<bit) == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return lack("root", "root without "+strings.Join(missing, ", "), "Sandboxes cannot be made with fewer rights.", "give the daemon these capabilities; in a container, run it privileged")
	}
	return ok("root", "root with the capabilities that are needed")
}

// aside runs fn on a thread of its own, which ends with it, in fresh
// namespaces: what fn makes there vanishes by itself.
func aside(flags int, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good
		if err := unix.Unshare(flags); err != nil {
			done <- fmt.Errorf("unshare: %w", err)
			return
		}
		done <- fn()
	}()
	return <-done
}

func (d *doctor) namespaces() Check {
	err := aside(unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWIPC|unix.CLONE_NEWUTS, func() error { return nil })
	if err != nil {
		return lack("namespaces", err.Error(), "Nothing can be isolated.", "run as root on a kernel with namespaces (CONFIG_NET_NS and friends); a container must be privileged")
	}
	return ok("namespaces", "network, mount, ipc and uts namespaces can be made")
}

func (d *doctor) veth() Check {
	err := aside(unix.CLONE_NEWNET, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"})
	})
	if err != nil {
		return lack("veth", err.Error(), "Sandboxes cannot be connected.", "load the module: modprobe veth")
	}
	return ok("veth", "virtual interfaces can be made")
}

// probe uses every feature of nftables that the sandboxes' rules use.
const probe = `table inet doctor {
	set m { type ifname . ipv4_addr; elements = { "x" . 192.0.2.1 } }
	set f { type ipv4_addr; size 16; flags dynamic; }
	set r { type ifname . ipv4_addr . inet_proto . inet_service; size 16; flags dynamic,timeout; timeout 2m; }
	chain a { type nat hook prerouting priority dstnat; ip daddr 192.0.2.1 tcp dport 53 redirect to :54; }
	chain b {
		type filter hook prerouting priority dstnat + 10; policy drop;
		iifname . ip saddr @m accept
		ct status dnat ct state new ip protocol tcp add @f { ip saddr ct count over 9 } reject with tcp reset
		ip protocol udp update @r { iifname . ip daddr . ip protocol . udp dport counter } reject with icmp type port-unreachable
	}
}
`

func (d *doctor) nftables() Check {
	const means = "Without it no sandbox gets a network: Drydock refuses rather than runs open."
	nft, err := exec.LookPath("nft")
	if err != nil {
		return lack("nftables", "the program nft is missing", means, "apt-get install nftables")
	}
	var out []byte
	err = aside(unix.CLONE_NEWNET, func() error {
		cmd := exec.CommandContext(d.ctx, nft, "-f", "-")
		cmd.Stdin = strings.NewReader(probe)
		var runErr error
		out, runErr = cmd.CombinedOutput()
		return runErr
	})
	if err != nil {
		return lack("nftables", fmt.Sprintf("%v: %s", err, firstLine(out)), means,
			"the kernel needs nf_tables with nat, redirect, reject, ct and connlimit: modprobe nf_tables nft_redir nft_reject_inet nft_ct nft_connlimit")
	}
	return ok("nftables", "a table with every feature that is used was made and removed")
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	if len(line) > 200 {
		line = line[:200]
	}
	return line
}

// overlay mounts two layers and renames a directory of the lower one, as
// package managers do.
func (d *doctor) overlay() Check {
	const means = "A sandbox's files are an overlay over its snapshot."
	dir, done, err := d.scratch()
	if err != nil {
		return lack("overlay", err.Error(), means, "give the daemon a state directory it can write")
	}
	defer done()
	for _, sub := range []string{"lower/d", "upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return lack("overlay", err.Error(), means, "give the daemon a state directory it can write")
		}
	}
	try := func(options string) error {
		return aside(unix.CLONE_NEWNS, func() error {
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			at := filepath.Join(dir, "root")
			options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work%s", dir, dir, dir, options)
			if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
				return err
			}
			defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
			return os.Rename(filepath.Join(at, "d"), filepath.Join(at, "e"))
		})
	}
	if err := try(",redirect_dir=on"); err != nil {
		return lack("overlay", fmt.Sprintf("an overlay with redirect_dir=on in %s: %v", d.existing(), err), means,
			"load the module overlay, and keep the state directory on ext4, xfs or btrfs (not on another overlay)")
	}
	return ok("overlay", "overlays with redirect_dir work in %s", d.existing())
}

// layers asks for the mount interface that takes layers one by one.
func (d *doctor) layers() Check {
	const means = "Long chains of snapshots are mounted in the old way, whose options have one page only; they are compacted sooner."
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return warn("layers", "no fsopen: "+err.Error(), means, "Linux 6.8 and newer have it")
	}
	defer unix.Close(fd)
	dir, done, err := d.scratch()
	if err != nil {
		return warn("layers", err.Error(), means, "give the daemon a state directory it can write")
	}
	defer done()
	if err := unix.FsconfigSetString(fd, "lowerdir+", dir); err != nil {
		return warn("layers", "overlay does not take lowerdir+: "+err.Error(), means, "Linux 6.8 and newer have it")
	}
	return ok("layers", "overlays take their layers one by one")
}

// cgroups finds the version and tries to make a group.
func (d *doctor) cgroups() Check {
	const means = "CPU, memory and process limits of sandboxes are not enforced; one of them could take the whole machine."
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return lack("cgroups", err.Error(), means, "mount /proc")
	}
	v1 := map[string]string{}
	v2 := ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup2":
			v2 = f[1]
		case "cgroup":
			for o := range strings.SplitSeq(f[3], ",") {
				v1[o] = f[1]
			}
		}
	}
	needed := []string{"cpu", "memory", "pids"}
	have := map[string]bool{}
	if data, err := os.ReadFile(filepath.Join(v2, "cgroup.controllers")); err == nil && v2 != "" {
		for c := range strings.FieldsSeq(string(data)) {
			have[c] = true
		}
	}
	version, places := "v2", []string{v2}
	if !have["memory"] {
		version, places = "v1", nil
		for _, c := range needed {
			if at := v1[c]; at != "" {
				have[c] = true
				places = append(places, at)
			}
		}
	}
	var missing []string
	for _, c := range needed {
		if !have[c] {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return lack("cgroups", version+" without "+strings.Join(missing, ", "), means, "mount the cgroup file system with these controllers; on a kernel command line without them: cgroup_enable=memory")
	}
	for _, at := range places {
		group := filepath.Join(at, fmt.Sprintf("drydock-doctor-%d", os.Getpid()))
		if err := os.Mkdir(group, 0o755); err != nil {
			return lack("cgroups", fmt.Sprintf("%s at %s: %v", version, at, err), means, "make the cgroup file system writable for the daemon (in a container: a private, writable cgroup namespace)")
		}
		if err := removeGroup(group); err != nil {
			return warn("cgroups", err.Error(), "A test group is left.", "rmdir "+group)
		}
	}
	return ok("cgroups", "%s with cpu, memory and pids", version)
}

// removeGroup waits for a kernel that is still busy with a group.
func removeGroup(group string) error {
	for i := 0; ; i++ {
		err := os.Remove(group)
		if err == nil || !errors.Is(err, unix.EBUSY) || i >= 100 {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// systrap is how gVisor catches system calls without KVM.
func (d *doctor) systrap() Check {
	const means = "gVisor's systrap platform does not work."
	data, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err != nil || !strings.Contains(string(data), "trap") {
		return lack("systrap", "no seccomp trap", means, "use a kernel with CONFIG_SECCOMP_FILTER")
	}
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && strings.TrimSpace(string(scope)) == "3" {
		return lack("systrap", "ptrace is switched off (kernel.yama.ptrace_scope = 3)", means, "sysctl kernel.yama.ptrace_scope=1; after 3 a reboot is needed")
	}
	return ok("systrap", "seccomp and ptrace are there; KVM is not needed")
}
