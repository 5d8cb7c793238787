package blueprint

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/strictyaml"
)

// Machine is one declared blueprint.
type Machine struct {
	Name        string          `yaml:"name"`
	Description string          `yaml:"description"`
	Start       string          `yaml:"start"`
	WallClock   Duration        `yaml:"wall_clock"` // of a whole run
	Nodes       map[string]Node `yaml:"nodes"`
}

// Node is one place of a machine: a step of the platform, work of an agent, or
// an end. Exactly one of Step, Agent and End is set.
type Node struct {
	Step  string            `yaml:"step"`
	Agent string            `yaml:"agent"` // name of the brief the agent gets
	End   core.RunState     `yaml:"end"`
	Title string            `yaml:"title"`
	On    map[string]string `yaml:"on"`      // result -> node
	Cap   int               `yaml:"cap"`     // most visits in a run; the next one takes the edge "spent"
	Time  Duration          `yaml:"timeout"` // of one visit; then the result is "timeout"
	Turns int               `yaml:"turns"`   // agent: model calls of one visit
}

// Kind is "step", "agent" or "end".
func (n Node) Kind() string {
	switch {
	case n.End != "":
		return "end"
	case n.Agent != "":
		return "agent"
	}
	return "step"
}

// Results the engine itself can add to those of a node.
const (
	ResultSpent   = "spent"   // the node's cap is reached
	ResultTimeout = "timeout" // a visit took longer than its timeout
	ResultFault   = "fault"   // the platform failed, after retries
)

// Duration reads "90s", "20m", "2h".
type Duration time.Duration

// UnmarshalYAML implements the YAML library's hook.
func (d *Duration) UnmarshalYAML(unmarshal func(any) error) error {
	var s string
	if err := unmarshal(&s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration like 90s, 20m or 2h", s)
	}
	*d = Duration(v)
	return nil
}

// maxNodes bounds a machine; real ones have about fifteen.
const maxNodes = 200

// Parse reads one machine and checks its shape. What needs to know the steps
// is checked by Check.
func Parse(file string, data []byte) (Machine, error) {
	var m Machine
	if err := strictyaml.Decode(file, data, &m); err != nil {
		return Machine{}, err
	}
	bad := func(format string, args ...any) error {
		return core.E("blueprint.parse", core.Invalid, nil, "%s: %s", file, fmt.Sprintf(format, args...))
	}
	if m.Name == "" {
		return Machine{}, bad("a blueprint needs a name")
	}
	if len(m.Nodes) == 0 || len(m.Nodes) > maxNodes {
		return Machine{}, bad("a blueprint has 1 to %d nodes, this one has %d", maxNodes, len(m.Nodes))
	}
	if _, ok := m.Nodes[m.Start]; !ok {
		return Machine{}, bad("start names the node %q, which does not exist; nodes: %s", m.Start, names(m.Nodes))
	}
	for name, n := range m.Nodes {
		set := 0
		for _, is := range []bool{n.Step != "", n.Agent != "", n.End != ""} {
			if is {
				set++
			}
		}
		if set != 1 {
			return Machine{}, bad("node %q must have exactly one of step, agent and end", name)
		}
		if n.End != "" && (!core.RunTable.Final(n.End) || !slices.Contains(core.RunTable.States(), n.End)) {
			return Machine{}, bad("node %q ends with %q; an end is done, handed_over, failed or stopped", name, n.End)
		}
		if n.End != "" && len(n.On) > 0 {
			return Machine{}, bad("node %q is an end and cannot go on", name)
		}
		for result, to := range n.On {
			if _, ok := m.Nodes[to]; !ok {
				return Machine{}, bad("node %q goes to %q on %s, which does not exist; nodes: %s", name, to, result, names(m.Nodes))
			}
		}
	}
	return m, m.checkGraph(file)
}

func names(nodes map[string]Node) string {
	return strings.Join(slices.Sorted(maps.Keys(nodes)), ", ")
}

// checkGraph proves that a run ends: an end is reachable from everywhere and
// no cycle avoids a capped node.
func (m Machine) checkGraph(file string) error {
	reachable := map[string]bool{}
	var walk func(string)
	walk = func(name string) {
		if reachable[name] {
			return
		}
		reachable[name] = true
		for _, to := range m.Nodes[name].On {
			walk(to)
		}
	}
	walk(m.Start)
	for name := range m.Nodes {
		if !reachable[name] {
			return core.E("blueprint.parse", core.Invalid, nil, "%s: node %q cannot be reached from %q", file, name, m.Start)
		}
	}
	for ends := map[string]bool{}; ; {
		changed := false
		for name, n := range m.Nodes {
			if ends[name] {
				continue
			}
			if n.End != "" || slices.ContainsFunc(slices.Collect(maps.Values(n.On)), func(to string) bool { return ends[to] }) {
				ends[name], changed = true, true
			}
		}
		if !changed {
			for _, name := range slices.Sorted(maps.Keys(m.Nodes)) {
				if !ends[name] {
					return core.E("blueprint.parse", core.Invalid, nil, "%s: no end can be reached from node %q", file, name)
				}
			}
			break
		}
	}
	return m.checkCycles(file)
}

func (m Machine) checkCycles(file string) error {
	const (
		fresh = iota
		open
		closed
	)
	state := map[string]int{}
	var visit func(string) error
	visit = func(name string) error {
		state[name] = open
		n := m.Nodes[name]
		for _, result := range slices.Sorted(maps.Keys(n.On)) {
			to := n.On[result]
			// Leaving a capped node is bounded, but its "spent" edge is not.
			if m.Nodes[to].Cap > 0 {
				continue
			}
			switch state[to] {
			case open:
				return core.E("blueprint.parse", core.Invalid, nil,
					"%s: the loop through %q and %q has no node with a cap, so a run might never end", file, name, to).
					WithHint("give one node of the loop a cap, e.g. cap: 2, and an edge for %q", ResultSpent)
			case fresh:
				if err := visit(to); err != nil {
					return err
				}
			}
		}
		state[name] = closed
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Nodes)) {
		if state[name] == fresh {
			if err := visit(name); err != nil {
				return err
			}
		}
		n := m.Nodes[name]
		if n.Cap > 0 && n.On[ResultSpent] == "" && n.End == "" {
			return core.E("blueprint.parse", core.Invalid, nil, "%s: node %q has a cap but no edge for %q", file, name, ResultSpent)
		}
		if n.Time > 0 && n.On[ResultTimeout] == "" {
			return core.E("blueprint.parse", core.Invalid, nil, "%s: node %q has a timeout but no edge for %q", file, name, ResultTimeout)
		}
		if n.Cap > 0 && m.Nodes[n.On[ResultSpent]].Cap > 0 && n.On[ResultSpent] == name {
			return core.E("blueprint.parse", core.Invalid, nil, "%s: node %q leads to itself when it is spent", file, name)
		}
	}
	return m.checkSpent(file)
}

// checkSpent refuses loops made of "spent" edges alone: those consume no cap.
func (m Machine) checkSpent(file string) error {
	for start := range m.Nodes {
		seen := map[string]bool{}
		for at := start; m.Nodes[at].Cap > 0; at = m.Nodes[at].On[ResultSpent] {
			if seen[at] {
				return core.E("blueprint.parse", core.Invalid, nil,
					"%s: the nodes %s lead to one another when they are spent", file, strings.Join(slices.Sorted(maps.Keys(seen)), ", "))
			}
			seen[at] = true
		}
	}
	return nil
}

//go:embed machines/*.yaml
var machineFiles embed.FS

// Builtin returns the machines that come with Drydock.
func Builtin() ([]Machine, error) {
	files, err := fs.Glob(machineFiles, "machines/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Machine
	for _, file := range files {
		data, err := machineFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := Parse(file, data)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
