// Package containment joins what keeps a sandbox inside: its place on the
// network (netjail), what may leave it (egress), and the settings of the
// host's own package managers (registries), which the word "registries" in an
// allow-list stands for.
//
// It does not start sandboxes and knows no sessions; package daemon hands a
// Network to the driver that does, and Decisions to the logs of sessions.
//
// Invariants: the egress knows a sandbox's policy before the packet filter
// lets anything through, and forgets it after; a policy that does not compile
// attaches nothing.
//
// A Network is safe for concurrent use.
//
//	settings := registries.Read(ctx, registries.Options{Environ: os.Environ()})
//	n, err := containment.Open(ctx, containment.Deps{Log: log, Decided: note},
//		containment.Options{StateDir: dir, Registries: containment.Endpoints(settings)})
//	at, err := n.Attach(ctx, id, policy)
package containment

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"drydock/internal/containment/egress"
	"drydock/internal/containment/netjail"
	"drydock/internal/containment/registries"
	"drydock/internal/core"
)

// Deps of a Network.
type Deps struct {
	Log *slog.Logger
	// Decided hears what the egress allowed and refused. It must not block and
	// may be nil.
	Decided func(egress.Decision)
	// Resolver and Dial are the host's when nil.
	Resolver egress.Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// Options of a Network. Zero values mean the defaults.
type Options struct {
	StateDir   string            // of the daemon; a directory "network" is made in it
	RunDir     string            // shared by all daemons of the machine
	Ranges     []netip.Prefix    // sandboxes' addresses come from here
	Registries []egress.Endpoint // what "registries" stands for
	Allow      []string          // for every sandbox that has a policy, besides what it says
	Upstream   egress.Upstream   // proxy the host itself has to use
	MaxConns   int               // per sandbox
}

// watchEvery is how often refused packets are looked up for the logs.
const watchEvery = time.Second

// Network is the network of one daemon's sandboxes.
type Network struct {
	jail       *netjail.Jail
	egress     *egress.Server
	registries []egress.Endpoint
	allow      []string
	stop       context.CancelFunc
	watching   sync.WaitGroup
}

// Open starts resolver and proxies and puts every sandbox on record back under
// its policy.
func Open(ctx context.Context, deps Deps, opts Options) (*Network, error) {
	ranges := opts.Ranges
	if len(ranges) == 0 {
		ranges = netjail.DefaultRanges()
	}
	jail, err := netjail.Open(ctx, netjail.Deps{Log: deps.Log}, netjail.Options{
		StateDir: filepath.Join(opts.StateDir, "network"), RunDir: opts.RunDir, Ranges: ranges,
	})
	if err != nil {
		return nil, err
	}
	n := &Network{jail: jail, registries: opts.Registries, allow: opts.Allow}
	n.egress = egress.New(
		egress.Deps{Log: deps.Log, Resolver: deps.Resolver, Dial: deps.Dial, Where: netjail.OriginalDestination, Decided: deps.Decided},
		egress.Options{Upstream: opts.Upstream, Closed: append(ranges, jail.Block()), MaxConns: opts.MaxConns},
	)
	for _, m := range jail.Members() {
		policy, err := n.compile(m.Grant.Policy)
		if err != nil {
			deps.Log.Error("a sandbox's policy no longer holds; it reaches nothing", "sandbox", m.ID, "error", err)
			policy = nil
		}
		n.egress.Set(m.ID, m.Address, policy)
	}
	l, err := jail.Listen(ctx)
	if err != nil {
		return nil, errors.Join(err, n.egress.Close(), jail.Close())
	}
	n.egress.Serve(egress.Listeners(l))
	watch, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.watching.Go(func() {
		jail.Watch(watch, watchEvery, func(r netjail.Refusal) { n.egress.Refused(r.Sandbox, r.To, r.UDP, int(r.Packets)) })
	})
	return n, nil
}

// compile prepares a policy together with what every sandbox may reach. Nil
// stays nil.
func (n *Network) compile(p *core.NetworkPolicy) (*egress.Policy, error) {
	if p != nil && len(n.allow) > 0 {
		p = &core.NetworkPolicy{Allow: slices.Concat(p.Allow, n.allow)}
	}
	return egress.Compile(p, n.registries)
}

// Instance names this daemon's network on the machine: four characters, kept
// across restarts.
func (n *Network) Instance() string { return n.jail.Instance() }

// Attach makes (or finds) the namespace of one sandbox under a policy; nil
// means that only the host reaches it and nothing leaves.
func (n *Network) Attach(ctx context.Context, id core.SandboxID, policy *core.NetworkPolicy) (core.Attachment, error) {
	compiled, err := n.compile(policy)
	if err != nil {
		return core.Attachment{}, err
	}
	m, err := n.jail.Attach(ctx, id, netjail.Grant{Policy: policy, Direct: compiled.Direct()}, func(m netjail.Member) {
		n.egress.Set(m.ID, m.Address, compiled)
	})
	if err != nil {
		n.egress.Drop(id)
		return core.Attachment{}, err
	}
	return n.attachment(m, policy), nil
}

func (n *Network) attachment(m netjail.Member, policy *core.NetworkPolicy) core.Attachment {
	return core.Attachment{Namespace: n.jail.Namespace(m.ID), Address: m.Address, Resolver: netjail.Service, Env: proxyEnv(m.Address, policy)}
}

// Hold is Attach for a sandbox that is to get a policy later: what it will see
// is that of the policy, but nothing leaves until Attach is called.
func (n *Network) Hold(ctx context.Context, id core.SandboxID, policy *core.NetworkPolicy) (core.Attachment, error) {
	if err := n.Check(policy); err != nil {
		return core.Attachment{}, err
	}
	m, err := n.jail.Attach(ctx, id, netjail.Grant{}, func(m netjail.Member) { n.egress.Set(m.ID, m.Address, nil) })
	if err != nil {
		n.egress.Drop(id)
		return core.Attachment{}, err
	}
	n.egress.Set(id, m.Address, nil) // what was open under an earlier policy is cut
	return n.attachment(m, policy), nil
}

// Renew makes a sandbox's namespace fit for another start of it.
func (n *Network) Renew(ctx context.Context, id core.SandboxID) error { return n.jail.Renew(ctx, id) }

// SetPolicy changes what a sandbox may reach. Open flows that are no longer
// allowed are cut.
func (n *Network) SetPolicy(ctx context.Context, id core.SandboxID, policy *core.NetworkPolicy) error {
	compiled, err := n.compile(policy)
	if err != nil {
		return err
	}
	m, err := n.jail.SetGrant(ctx, id, netjail.Grant{Policy: policy, Direct: compiled.Direct()})
	if err != nil {
		return err
	}
	n.egress.Set(id, m.Address, compiled)
	return nil
}

// Endpoints are the hosts of a machine's settings, as Options wants them.
func Endpoints(s registries.Settings) []egress.Endpoint {
	var out []egress.Endpoint
	for _, e := range s.Hosts() {
		out = append(out, egress.Endpoint{Host: e.Host, Port: e.Port})
	}
	return out
}

// Check says what is wrong with a policy, without attaching anything.
func (n *Network) Check(policy *core.NetworkPolicy) error {
	_, err := n.compile(policy)
	return err
}

// Detach removes a sandbox from the network; a second call does nothing.
func (n *Network) Detach(ctx context.Context, id core.SandboxID) error {
	err := n.jail.Detach(ctx, id)
	n.egress.Drop(id)
	return err
}

// List names every sandbox with anything left.
func (n *Network) List(ctx context.Context) ([]core.SandboxID, error) { return n.jail.List(ctx) }

// Recover keeps the networks of the living, removes all others, and names the
// living whose network is gone.
func (n *Network) Recover(ctx context.Context, living []core.SandboxID) (lost []core.SandboxID, err error) {
	lost, err = n.jail.Recover(ctx, living)
	kept := map[core.SandboxID]bool{}
	for _, m := range n.jail.Members() {
		kept[m.ID] = true
	}
	for _, id := range n.egress.Sandboxes() {
		if !kept[id] {
			n.egress.Drop(id)
		}
	}
	return lost, err
}

// Close stops resolver and proxies. Living sandboxes keep their namespaces and
// stay locked in; they are back on the network after the next Open.
func (n *Network) Close() error {
	n.stop()
	n.watching.Wait()
	return errors.Join(n.egress.Close(), n.jail.Close())
}

// Teardown removes everything, living or not.
func (n *Network) Teardown(ctx context.Context) error {
	n.stop()
	n.watching.Wait()
	return errors.Join(n.egress.Close(), n.jail.Teardown(ctx))
}

// proxyEnv points programs that honour these variables to the explicit proxy,
// where a denial can be read. The others are captured anyway.
func proxyEnv(address netip.Addr, policy *core.NetworkPolicy) []string {
	if policy == nil {
		return nil
	}
	proxy := "http://" + netip.AddrPortFrom(netjail.Service, netjail.ExplicitPort).String()
	direct := strings.Join([]string{"localhost", "127.0.0.1", "::1", address.String()}, ",")
	var env []string
	for _, name := range []string{"http_proxy", "https_proxy"} {
		env = append(env, name+"="+proxy, strings.ToUpper(name)+"="+proxy)
	}
	return append(env, "no_proxy="+direct, "NO_PROXY="+direct)
}
