package netjail

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"drydock/internal/core"
)

// Addresses as a sandbox sees them. They exist in router namespaces only and
// are the same for every sandbox of every instance, so that a process restored
// from a memory image finds them unchanged.
var (
	Service = netip.MustParseAddr("198.18.0.1")      // resolver and explicit proxy
	Names   = netip.MustParsePrefix("198.18.0.0/15") // what the resolver hands out
)

// ExplicitPort is where the explicit proxy answers, at Service.
const ExplicitPort = portExplicit

// Grant says what the rules let through for one sandbox. A nil policy means
// that nothing is let out; what a policy's names mean is not judged here.
type Grant struct {
	Policy *core.NetworkPolicy `json:"policy"`
	// Direct are addresses the policy names as such; TCP to them goes to the
	// transparent proxy.
	Direct []netip.AddrPort `json:"direct,omitempty"`
}

// Member is one sandbox on the network.
type Member struct {
	ID      core.SandboxID `json:"sandbox"`
	Slot    int            `json:"slot"`
	Address netip.Addr     `json:"address"`
	Grant   Grant          `json:"grant"`
}

// Deps of a Jail.
type Deps struct{ Log *slog.Logger }

// Options of a Jail.
type Options struct {
	StateDir string         // this instance's own; survives restarts
	RunDir   string         // shared by all instances of the machine, emptied at boot; default /run/drydock
	Ranges   []netip.Prefix // default DefaultRanges
	NFT      string         // program; default "nft" on PATH
}

const (
	identityFile = "instance.json"
	recordsDir   = "sandboxes"
)

// identity is what an instance keeps across restarts.
type identity struct {
	Instance string       `json:"instance"`
	Block    netip.Prefix `json:"block"`
}

func uplinkOf(instance string) string { return "dd-" + instance }

func validInstance(s string) bool {
	return len(s) == 4 && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// Jail owns the router namespace of one instance.
type Jail struct {
	log        *slog.Logger
	opts       Options
	namespaces string
	id         identity
	claim      *claim
	nft        string

	routerNS *os.File
	router   *netlink.Handle

	tableMu sync.Mutex
	table   *table

	ids keyed // serialises calls on one sandbox

	mu      sync.Mutex
	members map[core.SandboxID]*Member
	byAddr  map[netip.Addr]*Member
	used    map[int]bool
	next    int
	closed  bool
}

// Open makes the instance's router namespace, or finds the one an earlier
// process left, and puts the rules in force for every recorded sandbox.
func Open(ctx context.Context, deps Deps, opts Options) (*Jail, error) {
	if opts.RunDir == "" {
		opts.RunDir = "/run/drydock"
	}
	if len(opts.Ranges) == 0 {
		opts.Ranges = DefaultRanges()
	}
	if opts.NFT == "" {
		opts.NFT = "nft"
	}
	nft, err := exec.LookPath(opts.NFT)
	if err != nil {
		return nil, core.E("netjail.open", core.Unavailable, err, "program %q is missing", opts.NFT).
			WithHint("install nftables; without it no sandbox gets a network")
	}
	j := &Jail{
		log: deps.Log, opts: opts, nft: nft, namespaces: filepath.Join(opts.RunDir, "netns"),
		members: map[core.SandboxID]*Member{}, byAddr: map[netip.Addr]*Member{}, used: map[int]bool{}, next: 1,
	}
	claims := filepath.Join(opts.RunDir, "networks")
	for _, dir := range []string{claims, j.namespaces, filepath.Join(opts.StateDir, recordsDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, core.E("netjail.open", core.Unavailable, err, "make the directory %s", dir)
		}
	}
	if err := sweep(claims, j.namespaces); err != nil {
		j.log.Warn("could not remove what a vanished daemon left", "error", err)
	}
	if err := j.identify(claims); err != nil {
		return nil, err
	}
	if err := j.start(ctx); err != nil {
		j.mu.Lock()
		j.closed = true
		j.mu.Unlock()
		if len(j.members) > 0 {
			return nil, errors.Join(err, j.shut())
		}
		return nil, errors.Join(err, j.remove())
	}
	return j, nil
}

// identify finds or makes instance and block, and holds the claim.
func (j *Jail) identify(claims string) error {
	file := filepath.Join(j.opts.StateDir, identityFile)
	err := readJSON(file, &j.id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.E("netjail.open", core.Internal, err, "read %s", file)
	}
	if err == nil && (!validInstance(j.id.Instance) || !j.id.Block.IsValid() || j.id.Block.Bits() != blockBits) {
		return core.E("netjail.open", core.Invalid, nil, "%s does not hold an instance and its block", file)
	}
	if err == nil {
		c, ok, err := keepBlock(claims, j.id.Block)
		if err != nil {
			return core.E("netjail.open", core.Unavailable, err, "claim the address block %s", j.id.Block)
		}
		if ok {
			text, known := c.text()
			used, useErr := hostUses(j.id.Block, uplinkOf(j.id.Instance))
			if useErr == nil && !used && (!known || text.Instance == j.id.Instance) {
				j.claim = c
				return j.writeIdentity(file)
			}
			c.release(false)
		}
		// Another daemon lives there. That is fine as long as no sandbox of
		// ours needs the addresses any more.
		if left, _ := j.recorded(); len(left) > 0 {
			return core.E("netjail.open", core.Conflict, nil, "the address block %s of this instance is in use by something else", j.id.Block).
				WithHint("is another daemon running on %s?", j.opts.StateDir)
		}
		if err := wipe(j.namespaces, j.id.Instance); err != nil {
			return core.E("netjail.open", core.Unavailable, err, "remove the old network of instance %s", j.id.Instance)
		}
	}
	c, err := findBlock(claims, j.opts.Ranges)
	if err != nil {
		return err
	}
	j.claim = c
	j.id = identity{Instance: strings.ToLower(rand.Text()[:4]), Block: c.block.prefix}
	return j.writeIdentity(file)
}

func (j *Jail) writeIdentity(file string) error {
	abs, err := filepath.Abs(j.opts.StateDir)
	if err == nil {
		err = j.claim.write(claimText{Instance: j.id.Instance, StateDir: abs})
	}
	if err == nil {
		err = writeJSON(file, j.id)
	}
	if err != nil {
		j.claim.release(false)
		return core.E("netjail.open", core.Unavailable, err, "record instance %s", j.id.Instance)
	}
	return nil
}

// start brings router, uplink, members and rules to where they should be.
func (j *Jail) start(ctx context.Context) error {
	path := filepath.Join(j.namespaces, j.id.Instance+".router")
	ns, err := openNamespace(path)
	if errors.Is(err, fs.ErrNotExist) {
		_ = removeNamespace(path)
		if err := os.MkdirAll(j.namespaces, 0o700); err != nil {
			return core.E("netjail.open", core.Unavailable, err, "make the directory %s", j.namespaces)
		}
		ns, err = makeNamespace(path, func() error {
			if err := routerSysctls(); err != nil {
				return err
			}
			return loopbackUp()
		})
	}
	if err != nil {
		return core.E("netjail.open", core.Unavailable, err, "make the router namespace").
			WithHint("the daemon needs root and a kernel with network namespaces")
	}
	j.routerNS = ns
	if j.router, err = handleAt(int(ns.Fd())); err != nil {
		return core.E("netjail.open", core.Unavailable, err, "open netlink in the router namespace")
	}
	records, err := j.recorded()
	if err != nil {
		return core.E("netjail.open", core.Internal, err, "read the network records of %s", j.opts.StateDir)
	}
	var members []*Member
	for _, m := range records {
		j.used[m.Slot] = true
		j.members[m.ID] = m
		j.byAddr[m.Address] = m
		members = append(members, m)
	}
	// Rules first, wires after: a packet never meets a router without rules.
	name := "drydock_" + j.id.Instance
	text, err := script(name, j.claim.block.host(), members)
	if err != nil {
		return core.E("netjail.open", core.Internal, err, "write the rules")
	}
	if err := loadRules(ctx, j.nft, int(ns.Fd()), text); err != nil {
		return err
	}
	if j.table, err = openTable(int(ns.Fd()), name); err != nil {
		return core.E("netjail.open", core.Unavailable, err, "open the table %s", name)
	}
	if err := plugUplink(int(ns.Fd()), uplinkOf(j.id.Instance), j.claim.block); err != nil {
		return core.E("netjail.open", core.Unavailable, err, "plug in the uplink")
	}
	return nil
}

// Instance names this daemon's network; the host's interface is dd-<instance>
// and the table in the router namespace drydock_<instance>.
func (j *Jail) Instance() string { return j.id.Instance }

// Block is the range the sandboxes' addresses come from.
func (j *Jail) Block() netip.Prefix { return j.id.Block }

// Namespace is where a sandbox's namespace is pinned.
func (j *Jail) Namespace(id core.SandboxID) string {
	return filepath.Join(j.namespaces, j.id.Instance+"."+string(id))
}

// Caller tells whose address this is.
func (j *Jail) Caller(a netip.Addr) (Member, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m, ok := j.byAddr[a.Unmap()]
	if !ok {
		return Member{}, false
	}
	return *m, true
}

// Members are all sandboxes on record.
func (j *Jail) Members() []Member {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Member, 0, len(j.members))
	for _, m := range j.members {
		out = append(out, *m)
	}
	return out
}

// recorded reads the records on disk.
func (j *Jail) recorded() ([]*Member, error) {
	dir := filepath.Join(j.opts.StateDir, recordsDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []*Member
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		id, err := core.ParseID[core.SandboxID]("sbx_", name)
		if !ok || err != nil {
			continue // an unfinished write
		}
		var m Member
		if err := readJSON(filepath.Join(dir, e.Name()), &m); err != nil {
			return nil, err
		}
		if m.ID != id || m.Slot < 1 || m.Slot >= slots {
			return nil, core.E("netjail.open", core.Internal, nil, "record %s does not describe %s", e.Name(), id)
		}
		m.Address = block{j.id.Block}.sandbox(m.Slot)
		out = append(out, &m)
	}
	return out, nil
}

func (j *Jail) recordPath(id core.SandboxID) string {
	return filepath.Join(j.opts.StateDir, recordsDir, string(id)+".json")
}

// Close stops this process's part. Sandboxes keep their namespaces and the
// rules stay in force; with no sandbox left, everything but the instance's name
// is removed.
func (j *Jail) Close() error {
	j.mu.Lock()
	left := len(j.members)
	done := j.closed
	j.closed = true
	j.mu.Unlock()
	if done {
		return nil
	}
	if left > 0 {
		return j.shut()
	}
	return j.remove()
}

// forget removes the instance's name too.
func (j *Jail) forget() error {
	err := os.Remove(filepath.Join(j.opts.StateDir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Teardown removes every sandbox's network and the instance's own.
func (j *Jail) Teardown(ctx context.Context) error {
	j.mu.Lock()
	done := j.closed
	j.mu.Unlock()
	if done {
		return nil
	}
	var err error
	for _, m := range j.Members() {
		err = errors.Join(err, j.Detach(ctx, m.ID))
	}
	return errors.Join(err, j.Close(), j.forget())
}

// shut closes handles and gives up the claim.
func (j *Jail) shut() error {
	if j.router != nil {
		j.router.Close()
	}
	var err error
	if j.routerNS != nil {
		err = j.routerNS.Close()
	}
	j.claim.release(false)
	return err
}

func (j *Jail) remove() error {
	if j.router != nil {
		j.router.Close()
	}
	var err error
	if j.routerNS != nil {
		err = j.routerNS.Close()
	}
	err = errors.Join(err, wipe(j.namespaces, j.id.Instance))
	j.claim.release(true)
	j.removeEmptyDirs()
	if err != nil {
		return core.E("netjail.close", core.Internal, err, "remove the network of instance %s", j.id.Instance)
	}
	return nil
}

// removeEmptyDirs leaves nothing on a machine without daemons. Directories in
// use are not empty, and whoever finds one missing makes it again.
func (j *Jail) removeEmptyDirs() {
	for _, dir := range []string{"networks", "netns", ""} {
		_ = os.Remove(filepath.Join(j.opts.RunDir, dir))
	}
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// writeJSON replaces path in one step.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func pause(d time.Duration) { <-time.After(d) }
