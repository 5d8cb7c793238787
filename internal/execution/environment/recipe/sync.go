package recipe

import (
	"fmt"
	"time"

	"drydock/internal/strictyaml"
)

// onSync reads one command, or a list of commands, each as text or with the
// files that it is for.
func (d *decoder) onSync(n *strictyaml.Node) []Sync {
	if n.Kind == strictyaml.String {
		return []Sync{{Step: Step{Name: "on_sync", Run: d.text(n, "on_sync")}}}
	}
	var out []Sync
	for i, item := range d.list(n, "on_sync") {
		s := Sync{Step: Step{Name: fmt.Sprintf("on_sync %d", i+1)}}
		if item.Kind != strictyaml.Map {
			s.Run = d.text(item, "a command of on_sync")
			out = append(out, s)
			continue
		}
		d.each(item, "on_sync", syncKeys, func(key string, v *strictyaml.Node) {
			switch key {
			case "run":
				s.Run = d.text(v, "run")
			case "when":
				s.When = d.globs(v, "when")
			case "after":
				s.After = d.names(v, "after")
			case "dir":
				s.Dir = d.dir(v)
			case "timeout":
				s.Timeout = d.duration(v, "timeout", time.Second, 6*time.Hour)
			}
		})
		d.required(item, "on_sync", "run")
		out = append(out, s)
	}
	return out
}

// globs reads a list of patterns, or one pattern. None at all would match
// nothing, which nobody means.
func (d *decoder) globs(n *strictyaml.Node, what string) []string {
	items := []*strictyaml.Node{n}
	if n.Kind != strictyaml.String {
		items = d.list(n, what)
	}
	var out []string
	for _, item := range items {
		if g := d.checked(item, "a pattern", checkGlob); g != "" {
			out = append(out, g)
		}
	}
	if len(items) == 0 {
		d.faults.AddHint(n, `leave it out to run the command always, or write [package-lock.json, "db/**"]`, "%s names no files", what)
	}
	return out
}
