package recipe

import (
	"maps"
	"slices"
	"strings"

	"drydock/internal/strictyaml"
)

// dependencies checks that services named in after exist and that none waits
// for itself.
func (d *decoder) dependencies(root *strictyaml.Node, r Recipe) {
	services := map[string]Service{}
	for _, s := range r.Services {
		services[s.Name] = s
	}
	known := slices.Sorted(maps.Keys(services))
	check := func(where *strictyaml.Node, after []string) {
		for i, a := range after {
			if _, ok := services[a]; ok {
				continue
			}
			at := where
			if where != nil && i < len(where.Items) {
				at = where.Items[i]
			}
			hint := "there are no services"
			if len(known) > 0 {
				hint = "services: " + strings.Join(known, ", ")
			}
			d.faults.AddHint(at, hint, "%q is not a service", clip(a))
		}
	}
	for _, s := range r.Services {
		check(place(root, "services", s.Name, "after"), s.After)
	}
	for _, p := range r.Pages {
		check(place(root, "pages", p.Name, "after"), p.After)
	}
	for i, s := range r.OnSync {
		where := root.Get("on_sync")
		if where != nil && i < len(where.Items) {
			where = place(where.Items[i], "after")
		}
		check(where, s.After)
	}
	if cycle := findCycle(r.Services); cycle != nil {
		d.faults.Add(place(root, "services", cycle[0], "after"), "services wait for each other: %s", strings.Join(cycle, " -> "))
	}
}

func place(n *strictyaml.Node, path ...string) *strictyaml.Node {
	for _, key := range path {
		next := n.Get(key)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// findCycle names services along a cycle, the first one again at the end.
func findCycle(services []Service) []string {
	after := map[string][]string{}
	for _, s := range services {
		after[s.Name] = s.After
	}
	const (
		open = 1
		done = 2
	)
	state := map[string]int{}
	var stack []string
	var visit func(name string) []string
	visit = func(name string) []string {
		switch state[name] {
		case done:
			return nil
		case open:
			i := slices.Index(stack, name)
			return append(slices.Clone(stack[i:]), name)
		}
		state[name] = open
		stack = append(stack, name)
		for _, a := range after[name] {
			if cycle := visit(a); cycle != nil {
				return cycle
			}
		}
		stack = stack[:len(stack)-1]
		state[name] = done
		return nil
	}
	for _, s := range services {
		if cycle := visit(s.Name); cycle != nil {
			return cycle
		}
	}
	return nil
}
