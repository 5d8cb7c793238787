// Package doctor looks at a host and says what Drydock lacks there, what that
// means, and what to do about it.
//
// It tries things rather than reading versions: it makes and removes a network
// namespace, a veth pair, an nftables table, an overlay, a cgroup, and runs a
// program under runsc. What it makes it removes, also when it is cancelled. It
// changes no setting.
//
// Run may be called at any time, beside a running daemon too.
//
//	report := doctor.Run(ctx, doctor.Options{Config: cfg, Env: config.OS, Environ: config.Environ(), CheckInit: daemon.CheckInit})
//	report.Text(os.Stdout)
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"drydock/internal/config"
)

// State of one check.
type State string

const (
	OK   State = "ok"
	Warn State = "warn" // works, but less well
	Lack State = "lack" // does not work
)

// Check is one finding.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Found string `json:"found"`           // what there is
	Means string `json:"means,omitempty"` // what follows from it
	Fix   string `json:"fix,omitempty"`   // what to do
}

// Report is everything that was found.
type Report struct {
	State  State   `json:"state"` // the worst of all
	Checks []Check `json:"checks"`
}

// Options of Run.
type Options struct {
	Config  config.Config
	Env     config.Env
	Environ []string
	Running bool // a daemon runs with this configuration: its port is taken by right
	// CheckInit says what is wrong with the drydock-init at a path; it may be nil.
	CheckInit func(ctx context.Context, path string) error
}

// Run makes every check.
func Run(ctx context.Context, opts Options) Report {
	d := &doctor{ctx: ctx, opts: opts}
	for _, look := range []func() Check{
		d.kernel, d.root, d.namespaces, d.veth, d.nftables, d.overlay, d.layers, d.cgroups, d.systrap,
		d.runsc, d.init, d.git, d.mmdebstrap, d.stateDir, d.reflink, d.memory, d.cpu, d.port, d.previews, d.registries, d.resolves, d.models,
	} {
		if ctx.Err() != nil {
			break
		}
		d.add(look())
	}
	return d.report()
}

type doctor struct {
	ctx    context.Context //nolint:containedctx // lives for one call of Run
	opts   Options
	checks []Check

	endpoints []string // hosts found by registries, for resolves
}

func (d *doctor) add(c Check) { d.checks = append(d.checks, c) }

func (d *doctor) report() Report {
	r := Report{State: OK, Checks: d.checks}
	for _, c := range d.checks {
		if c.State == Lack || (c.State == Warn && r.State == OK) {
			r.State = c.State
		}
	}
	return r
}

// Text writes the report for people.
func (r Report) Text(w io.Writer) error {
	var out strings.Builder
	marks := map[State]string{OK: "ok   ", Warn: "warn ", Lack: "LACK "}
	counts := map[State]int{}
	for _, c := range r.Checks {
		counts[c.State]++
		fmt.Fprintf(&out, "%s %-12s %s\n", marks[c.State], c.Name, c.Found)
		if c.State == OK {
			continue
		}
		if c.Means != "" {
			fmt.Fprintf(&out, "%19s%s\n", "", c.Means)
		}
		if c.Fix != "" {
			fmt.Fprintf(&out, "%19s-> %s\n", "", c.Fix)
		}
	}
	switch {
	case counts[Lack] > 0:
		fmt.Fprintf(&out, "\n%d of %d checks show something that is missing.\n", counts[Lack], len(r.Checks))
	case counts[Warn] > 0:
		fmt.Fprintf(&out, "\nThis host can run Drydock; %d checks have a remark.\n", counts[Warn])
	default:
		out.WriteString("\nThis host can run Drydock.\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func ok(name, format string, args ...any) Check {
	return Check{Name: name, State: OK, Found: fmt.Sprintf(format, args...)}
}

func warn(name, found, means, fix string) Check { return Check{name, Warn, found, means, fix} }

func lack(name, found, means, fix string) Check { return Check{name, Lack, found, means, fix} }

// scratch makes a directory inside the state directory, or in its nearest
// parent that exists, so that what is tried is tried on the right file system.
func (d *doctor) scratch() (dir string, done func(), err error) {
	parent := d.existing()
	dir, err = os.MkdirTemp(parent, ".drydock-doctor-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

func (d *doctor) existing() string {
	dir := d.opts.Config.StateDir
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		i := strings.LastIndexByte(dir, '/')
		if i <= 0 {
			return "/"
		}
		dir = dir[:i]
	}
}
