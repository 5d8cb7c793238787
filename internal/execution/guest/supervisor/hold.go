package supervisor

import (
	"context"
	"crypto/rand"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// listener is something that accepts connections, and whose it is.
type listener struct {
	network string // "tcp" or "unix"
	address string
	service string // "" where nobody knows
}

const (
	maxListeners = 256
	// gVisor puts listeners back one after the other while processes run
	// already: on a busy host one that is there may refuse for a moment.
	probeLimit = 2 * time.Second
	probePause = 5 * time.Millisecond
)

// hold is the last call before a memory image is taken.
func (s *Supervisor) hold(_ context.Context, in guest.TokenRequest) (empty, error) {
	if err := checkToken(in.Token); err != nil {
		return empty{}, err
	}
	found := s.listeners()
	s.mu.Lock()
	s.held = found
	s.mu.Unlock()
	s.setToken(in.Token)
	return empty{}, nil
}

// listeners finds everything that listens, but for this program.
func (s *Supervisor) listeners() []listener {
	owners := s.socketOwners()
	var out []listener
	for l, inode := range s.sockets() {
		owner, known := owners[inode]
		if known && owner == ownName || len(out) >= maxListeners {
			continue
		}
		if known {
			l.service = owner
		}
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// sockets are what listens now, and the inode of each.
func (s *Supervisor) sockets() iter.Seq2[listener, string] {
	own := ""
	if addr, ok := s.opts.Listen.Addr().(*net.TCPAddr); ok {
		own = strconv.Itoa(addr.Port)
	}
	return func(yield func(listener, string) bool) {
		for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			raw, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(raw)) {
				f := strings.Fields(line)
				if len(f) < 10 {
					continue
				}
				for _, p := range parsePorts(line) {
					port := strconv.Itoa(p.Port)
					if port != own && !yield(listener{network: "tcp", address: net.JoinHostPort(reachable(p.Address), port)}, f[9]) {
						return
					}
				}
			}
		}
		raw, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			return
		}
		for line := range strings.Lines(string(raw)) {
			// Num RefCount Protocol Flags Type St Inode Path; 00010000 listens.
			f := strings.Fields(line)
			if len(f) == 8 && f[3] == "00010000" && f[4] == "0001" && strings.HasPrefix(f[7], "/") &&
				!yield(listener{network: "unix", address: f[7]}, f[6]) {
				return
			}
		}
	}
}

// reachable is where one connects to what listens at an address.
func reachable(address string) string {
	switch address {
	case "0.0.0.0":
		return "127.0.0.1"
	case "::":
		return "::1"
	}
	return address
}

const ownName = "drydock-init"

// socketOwners maps the inodes of open sockets to services.
func (s *Supervisor) socketOwners() map[string]string {
	out := map[string]string{}
	tree := readTree()
	roots := s.services.pids()
	for _, p := range tree {
		owner := tree.owner(p.pid, roots)
		if p.pid == os.Getpid() {
			owner = ownName
		}
		if owner == "" {
			continue
		}
		dir := filepath.Join("/proc", strconv.Itoa(p.pid), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			target, err := os.Readlink(filepath.Join(dir, e.Name()))
			if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
				out[strings.TrimSuffix(inode, "]")] = owner
			}
		}
	}
	return out
}

// proc is one process as the kernel shows it.
type proc struct {
	pid, parent, session int
	name                 string
}

type procTree map[int]proc

func readTree() procTree {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	out := procTree{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		// The name, in brackets, may contain anything; fields count after it.
		i, open := strings.LastIndexByte(string(raw), ')'), strings.IndexByte(string(raw), '(')
		if open < 0 || i < open {
			continue
		}
		f := strings.Fields(string(raw[i+1:]))
		if len(f) < 4 {
			continue
		}
		parent, _ := strconv.Atoi(f[1])
		session, _ := strconv.Atoi(f[3])
		out[pid] = proc{pid: pid, parent: parent, session: session, name: string(raw[open+1 : i])}
	}
	return out
}

// owner finds the service that a process descends from, or whose session it is
// in.
func (t procTree) owner(pid int, roots map[int]string) string {
	for p, hops := t[pid], 0; hops < 64 && p.pid > 1; p, hops = t[p.parent], hops+1 {
		if name := roots[p.pid]; name != "" {
			return name
		}
		if name := roots[p.session]; name != "" {
			return name
		}
	}
	return ""
}

// onlyWaits says whether a process is the shell that a service was started by,
// which stands where it was started while the service itself may be elsewhere.
func (t procTree) onlyWaits(pid int, roots map[int]string) bool {
	p := t[pid]
	if roots[pid] == "" || p.name != "sh" && p.name != "dash" && p.name != "bash" {
		return false
	}
	for _, child := range t {
		if child.parent == pid {
			return true
		}
	}
	return false
}

// pids maps the first process of each service that runs to its name.
func (v *services) pids() map[int]string {
	v.mu.Lock()
	byProcess := map[guest.ProcessID]string{}
	for _, sv := range v.list {
		if sv.status.Process != "" {
			byProcess[sv.status.Process] = sv.def.Name
		}
	}
	v.mu.Unlock()
	out := map[int]string{}
	for id, name := range byProcess {
		if p, err := v.s.reg.find(guest.ProcessRef{ID: id}); err == nil && p.running() {
			out[p.snapshot().Pid] = name
		}
	}
	return out
}

// probe asks every listener that there was at the last hold. Services of those
// that do not answer are started again; where nobody knows whose it was, each
// service is asked whether it is ready.
//
// One listener of each service is connected to. For the others it is enough
// that the kernel lists them again: many a service starts a process for each
// connection.
func (s *Supervisor) probe(ctx context.Context) (guest.Probed, error) {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	out := guest.Probed{Listeners: len(held)}
	silent := make([]bool, len(held))
	listed, asked := s.listed(), map[string]bool{}
	var wg sync.WaitGroup
	for i, l := range held {
		if l.service != "" && asked[l.service] && listed[listener{network: l.network, address: l.address}] {
			continue
		}
		asked[l.service] = true
		wg.Go(func() { silent[i] = !answers(ctx, l) })
	}
	wg.Wait()
	var broken []string
	unknown := false
	for i, l := range held {
		if !silent[i] {
			continue
		}
		out.Silent = append(out.Silent, l.address)
		if l.service == "" {
			unknown = true
		} else if !slices.Contains(broken, l.service) {
			broken = append(broken, l.service)
		}
	}
	if unknown {
		for _, name := range s.services.unready(ctx) {
			if !slices.Contains(broken, name) {
				broken = append(broken, name)
			}
		}
	}
	for _, name := range broken {
		if err := s.services.restart(name); err != nil && !core.Is(err, core.NotFound) {
			return out, err
		}
		out.Restarted = append(out.Restarted, name)
	}
	out.Services = s.services.statuses()
	return out, ctx.Err()
}

func (s *Supervisor) listed() map[listener]bool {
	out := map[listener]bool{}
	for l := range s.sockets() {
		out[l] = true
	}
	return out
}

func answers(ctx context.Context, l listener) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var d net.Dialer
	for pause := probePause; ; pause *= 2 {
		conn, err := d.DialContext(ctx, l.network, l.address)
		if err == nil {
			_ = conn.Close()
			return true
		}
		if !sleep(ctx, pause) {
			return false
		}
	}
}

// unready asks every service that is said to be ready, once.
func (v *services) unready(ctx context.Context) []string {
	v.mu.Lock()
	list := slices.Clone(v.list)
	v.mu.Unlock()
	bad := make([]bool, len(list))
	var wg sync.WaitGroup
	for i, sv := range list {
		v.mu.Lock()
		st := sv.status
		v.mu.Unlock()
		if st.State != stateReady {
			continue
		}
		p, err := v.s.reg.find(guest.ProcessRef{ID: st.Process})
		if err != nil {
			bad[i] = true
			continue
		}
		wg.Go(func() { bad[i] = v.ask(ctx, sv.def, p, lastAsk) != nil })
	}
	wg.Wait()
	var out []string
	for i, sv := range list {
		if bad[i] {
			out = append(out, sv.def.Name)
		}
	}
	return out
}

// reload starts those services again that have a process with its working
// directory at or below dir, and those that come after them.
func (v *services) reload(dir string) ([]string, error) {
	if !filepath.IsAbs(dir) {
		return nil, core.E("guest.services", core.Invalid, nil, "directory %q is not absolute", clip(dir, 200))
	}
	dir = filepath.Clean(dir)
	roots, tree := v.pids(), readTree()
	hit := map[string]bool{}
	for pid := range tree {
		name := tree.owner(pid, roots)
		if name == "" || hit[name] || tree.onlyWaits(pid, roots) {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
		if err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
			hit[name] = true
		}
	}
	v.op.Lock()
	defer v.op.Unlock()
	v.mu.Lock()
	var again []*service // in the order in which they start
	for _, sv := range v.list {
		if hit[sv.def.Name] || slices.ContainsFunc(sv.def.After, func(a string) bool { return hit[a] }) {
			hit[sv.def.Name] = true
			again = append(again, sv)
		}
	}
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := []string{}
	for _, sv := range slices.Backward(again) {
		v.stopOne(ctx, sv)
	}
	for _, sv := range again {
		v.relaunch(sv)
		out = append(out, sv.def.Name)
	}
	return out, nil
}

// newSeeds makes this machine another one than that which its files, or its
// memory, were taken of, wherever else than in /etc that is written down.
func (s *Supervisor) newSeeds(machine string, warn func(string, error)) {
	for _, name := range []string{"/var/lib/dbus/machine-id", "/var/lib/systemd/random-seed", "/var/lib/urandom/random-seed", "/root/.rnd"} {
		real, err := s.tree.path("guest.setup", name)
		if err != nil {
			continue
		}
		info, err := os.Lstat(real)
		if err != nil || !info.Mode().IsRegular() {
			continue // not used here, or a link to the first
		}
		data := []byte(machine + "\n")
		if filepath.Base(name) != "machine-id" {
			data = make([]byte, 512)
			_, _ = rand.Read(data)
		}
		warn(name, s.writeWhole(name, info.Mode()&fs.ModePerm, data))
	}
}
