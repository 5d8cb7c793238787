package recipe

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/strictyaml"
)

// MaxBytes bounds a recipe file.
const MaxBytes = 256 << 10

// Bounds of lists in a recipe.
const (
	maxEntries = 200
	maxText    = 64 << 10
)

// Keys of each part of drydock.yaml. The schema and the documentation are held
// to them by tests.
var (
	topKeys     = []string{"base", "packages", "env", "user", "workspace", "setup", "services", "checks", "pages", "warm", "on_sync", "ports", "link_ports", "refresh", "max_age", "limits", "network"}
	serviceKeys = []string{"run", "ready", "port", "after", "restart", "user", "env", "dir", "timeout"}
	checkKeys   = []string{"run", "fix", "changed", "files", "report", "dir", "env", "timeout", "required"}
	pageKeys    = []string{"url", "viewport", "wait", "after"}
	warmKeys    = []string{"run", "dir", "timeout"}
	syncKeys    = []string{"run", "when", "after", "dir", "timeout"}
	limitKeys   = []string{"cpu", "memory", "pids", "disk", "lifetime"}
	networkKeys = []string{"allow", "build"}
)

// Parse reads a drydock.yaml. The error names every fault with its line.
func Parse(file string, data []byte) (Recipe, error) {
	if len(data) > MaxBytes {
		return Recipe{}, core.E("recipe.parse", core.Invalid, nil, "%s is larger than %d bytes", file, MaxBytes)
	}
	root, err := strictyaml.Parse(file, data)
	if err != nil {
		return Recipe{}, err
	}
	d := &decoder{faults: strictyaml.NewFaults(file, data)}
	r := d.recipe(root)
	if err := d.faults.Err(); err != nil {
		return Recipe{}, err
	}
	return r, nil
}

// decoder turns nodes into values and notes every fault on the way.
type decoder struct{ faults *strictyaml.Faults }

func (d *decoder) fail(at *strictyaml.Node, err error) {
	d.faults.AddHint(at, core.HintOf(err), "%s", err.Error())
}

func (d *decoder) recipe(n *strictyaml.Node) Recipe {
	r := Recipe{Workspace: DefaultWorkspace, Refresh: DefaultRefresh, BuildNetwork: core.NetworkPolicy{Allow: []string{Registries}}}
	if n.Kind != strictyaml.Map {
		d.faults.AddHint(n, example, "a recipe is a mapping with at least the key base")
		return r
	}
	if n.Get("base") == nil {
		d.faults.AddHint(nil, example, "the key base is missing")
	}
	d.each(n, "drydock.yaml", topKeys, func(key string, v *strictyaml.Node) {
		switch key {
		case "base":
			r.Base = d.checked(v, key, checkBase)
		case "packages":
			r.Packages = d.packages(v)
		case "env":
			r.Env = d.env(v)
		case "user":
			r.User = d.user(v)
		case "workspace":
			r.Workspace = d.checked(v, key, checkWorkspace)
		case "setup":
			r.Setup = d.setup(v)
		case "services":
			d.named(v, "service", func(name string, v *strictyaml.Node) { r.Services = append(r.Services, d.service(name, v)) })
		case "checks":
			d.named(v, "check", func(name string, v *strictyaml.Node) { r.Checks = append(r.Checks, d.check(name, v)) })
		case "pages":
			d.named(v, "page", func(name string, v *strictyaml.Node) { r.Pages = append(r.Pages, d.page(name, v)) })
		case "warm":
			r.Warm = d.warm(v)
		case "on_sync":
			r.OnSync = d.onSync(v)
		case "ports":
			for _, item := range d.list(v, "ports") {
				r.Ports = append(r.Ports, d.port(item))
			}
		case "link_ports":
			r.LinkPorts = d.bool(v, key)
		case "refresh":
			r.Refresh = d.refresh(v)
		case "max_age":
			r.MaxAge = d.maxAge(v)
		case "limits":
			r.Limits = d.limits(v)
		case "network":
			r.Network, r.BuildNetwork = d.network(v)
		}
	})
	d.dependencies(n, r)
	return r
}

// each walks a mapping, refusing unknown keys.
func (d *decoder) each(n *strictyaml.Node, what string, keys []string, f func(key string, v *strictyaml.Node)) {
	if n.Kind != strictyaml.Map {
		d.faults.Add(n, "%s must be a mapping, not %s", what, n.Kind)
		return
	}
	for _, p := range n.Pairs {
		switch {
		case slices.Contains(keys, p.Key):
			f(p.Key, p.Value)
		default:
			hint := "known keys: " + strings.Join(keys, ", ")
			if near := nearest(p.Key, keys); near != "" {
				d.faults.AddHint(p.At, hint, "unknown key %q in %s (did you mean %q?)", clip(p.Key), what, near)
			} else {
				d.faults.AddHint(p.At, hint, "unknown key %q in %s", clip(p.Key), what)
			}
		}
	}
}

// named walks a mapping whose keys are names of the user's choice.
func (d *decoder) named(n *strictyaml.Node, what string, f func(name string, v *strictyaml.Node)) {
	if n.Kind == strictyaml.Null {
		return
	}
	if n.Kind != strictyaml.Map {
		d.faults.Add(n, "%ss must be a mapping from names to %ss, not %s", what, what, n.Kind)
		return
	}
	for i, p := range n.Pairs {
		if i >= maxEntries {
			d.faults.Add(p.At, "more than %d %ss", maxEntries, what)
			return
		}
		if !nameForm.MatchString(p.Key) {
			d.faults.AddHint(p.At, "use lower-case letters, digits, - and _, at most 40", "%q is not a name for a %s", clip(p.Key), what)
			continue
		}
		if p.Value.Kind != strictyaml.Map {
			d.faults.AddHint(p.Value, fmt.Sprintf("write %s: {run: ...}", p.Key), "%s %q must be a mapping, not %s", what, p.Key, p.Value.Kind)
			continue
		}
		f(p.Key, p.Value)
	}
}

// text reads a string that is not empty. Numbers and booleans that were not
// quoted are named, not guessed at.
func (d *decoder) text(n *strictyaml.Node, what string) string {
	switch {
	case n.Kind == strictyaml.Number || n.Kind == strictyaml.Bool:
		d.faults.AddHint(n, "put it into quotes", "%s must be text, not %s", what, n.Kind)
	case n.Kind != strictyaml.String:
		d.faults.Add(n, "%s must be text, not %s", what, n.Kind)
	case strings.TrimSpace(n.Text) == "":
		d.faults.Add(n, "%s is empty", what)
	case strings.ContainsRune(n.Text, 0) || len(n.Text) > maxText:
		d.faults.Add(n, "%s holds a zero byte or is longer than %d bytes", what, maxText)
	default:
		return n.Text
	}
	return ""
}

func (d *decoder) checked(n *strictyaml.Node, what string, check func(string) error) string {
	s := d.text(n, what)
	if s == "" {
		return ""
	}
	if err := check(s); err != nil {
		d.fail(n, err)
		return ""
	}
	return s
}

func (d *decoder) list(n *strictyaml.Node, what string) []*strictyaml.Node {
	if n.Kind == strictyaml.Null {
		return nil
	}
	if n.Kind != strictyaml.List {
		d.faults.AddHint(n, "write it as [a, b]", "%s must be a list, not %s", what, n.Kind)
		return nil
	}
	if len(n.Items) > maxEntries {
		d.faults.Add(n, "%s has more than %d entries", what, maxEntries)
		return nil
	}
	return n.Items
}

func (d *decoder) bool(n *strictyaml.Node, what string) bool {
	if n.Kind != strictyaml.Bool {
		d.faults.Add(n, "%s must be true or false, not %s", what, n.Kind)
		return false
	}
	return strings.EqualFold(n.Text, "true")
}

func (d *decoder) port(n *strictyaml.Node) int {
	if n.Kind != strictyaml.Number || !validPort(n.Text) {
		d.faults.Add(n, "a port is a number between 1 and 65535")
		return 0
	}
	p, _ := strconv.Atoi(n.Text)
	return p
}

func (d *decoder) duration(n *strictyaml.Node, what string, least, most time.Duration) time.Duration {
	s := d.text(n, what)
	if s == "" {
		return 0
	}
	v, err := ParseDuration(s)
	if err != nil {
		d.fail(n, err)
		return 0
	}
	if v < least || v > most {
		d.faults.Add(n, "%s must be between %s and %s", what, least, most)
		return 0
	}
	return v
}

func (d *decoder) size(n *strictyaml.Node, what string, least int64) int64 {
	if n.Kind == strictyaml.Number {
		d.faults.AddHint(n, "write a number and a unit, like 512MiB or 4GiB", "%s %s has no unit", what, n.Text)
		return 0
	}
	s := d.text(n, what)
	if s == "" {
		return 0
	}
	v, err := ParseSize(s)
	if err != nil {
		d.fail(n, err)
		return 0
	}
	if v < least {
		d.faults.Add(n, "%s must be at least %d MiB", what, least>>20)
		return 0
	}
	return v
}

func (d *decoder) packages(n *strictyaml.Node) []string {
	var out []string
	for _, item := range d.list(n, "packages") {
		p := d.text(item, "a package")
		switch {
		case p == "":
		case !packageForm.MatchString(p):
			d.faults.Add(item, "%q is not the name of a package", clip(p))
		case slices.Contains(out, p):
			d.faults.Add(item, "package %q is listed twice", p)
		default:
			out = append(out, p)
		}
	}
	return out
}

// env reads a mapping to scalars, which are taken as they are written.
func (d *decoder) env(n *strictyaml.Node) map[string]string {
	if n.Kind == strictyaml.Null {
		return nil
	}
	if n.Kind != strictyaml.Map {
		d.faults.Add(n, "env must be a mapping from names to values, not %s", n.Kind)
		return nil
	}
	out := make(map[string]string, len(n.Pairs))
	for i, p := range n.Pairs {
		switch {
		case i >= maxEntries:
			d.faults.Add(p.At, "env has more than %d entries", maxEntries)
			return out
		case !envForm.MatchString(p.Key):
			d.faults.Add(p.At, "%q is not the name of a variable", clip(p.Key))
		case strings.HasPrefix(p.Key, "DRYDOCK_"):
			d.faults.Add(p.At, "variables that begin with DRYDOCK_ are Drydock's own")
		case p.Value.Kind == strictyaml.Map || p.Value.Kind == strictyaml.List || p.Value.Kind == strictyaml.Null:
			d.faults.AddHint(p.Value, `write "" for an empty value`, "variable %s must be text, not %s", p.Key, p.Value.Kind)
		case strings.ContainsRune(p.Value.Text, 0) || len(p.Value.Text) > maxText:
			d.faults.Add(p.Value, "variable %s holds a zero byte or is longer than %d bytes", p.Key, maxText)
		default:
			out[p.Key] = p.Value.Text
		}
	}
	return out
}

func (d *decoder) user(n *strictyaml.Node) string {
	if n.Kind == strictyaml.Number && userForm.MatchString(n.Text) {
		return n.Text
	}
	return d.checked(n, "user", func(s string) error {
		if !userForm.MatchString(s) {
			return core.E("recipe.user", core.Invalid, nil, "%q is neither the name of a user nor uid or uid:gid", clip(s))
		}
		return nil
	})
}

func checkWorkspace(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' }) {
		return core.E("recipe.workspace", core.Invalid, nil, "workspace %q is not an absolute directory", clip(s)).WithHint("the default is %s", DefaultWorkspace)
	}
	for _, own := range []string{"/proc", "/sys", "/dev", "/etc", "/.drydock", "/bin", "/sbin", "/lib", "/usr"} {
		if s == own || strings.HasPrefix(s, own+"/") && own != "/usr" {
			return core.E("recipe.workspace", core.Invalid, nil, "workspace %q belongs to the system", s).WithHint("the default is %s", DefaultWorkspace)
		}
	}
	return nil
}

func (d *decoder) dir(n *strictyaml.Node) string {
	return strings.TrimSuffix(d.checked(n, "dir", func(s string) error {
		if !checkInside(s) {
			return core.E("recipe.dir", core.Invalid, nil, "dir %q is not a directory below the workspace", clip(s)).WithHint("write it relative to the root of the repository, like web or services/api")
		}
		return nil
	}), "/")
}

func (d *decoder) setup(n *strictyaml.Node) []Step {
	if n.Kind == strictyaml.Null {
		return nil
	}
	if n.Kind != strictyaml.List {
		if s := d.text(n, "setup"); s != "" {
			return []Step{{Name: "setup", Run: s}}
		}
		return nil
	}
	var out []Step
	for i, item := range d.list(n, "setup") {
		if s := d.text(item, "a step of setup"); s != "" {
			out = append(out, Step{Name: fmt.Sprintf("setup %d", i+1), Run: s})
		}
	}
	return out
}

func (d *decoder) service(name string, n *strictyaml.Node) Service {
	s := Service{Name: name, Restart: "always", Timeout: DefaultReadyTimeout}
	d.each(n, "service "+name, serviceKeys, func(key string, v *strictyaml.Node) {
		switch key {
		case "run":
			s.Run = d.text(v, "run")
		case "ready":
			s.Ready = d.checked(v, "ready", checkReady)
		case "port":
			s.Port = d.port(v)
		case "after":
			s.After = d.names(v, "after")
		case "restart":
			s.Restart = d.restart(v)
		case "user":
			s.User = d.user(v)
		case "env":
			s.Env = d.env(v)
		case "dir":
			s.Dir = d.dir(v)
		case "timeout":
			s.Timeout = d.duration(v, "timeout", time.Second, time.Hour)
		}
	})
	d.required(n, "service "+name, "run")
	return s
}

func (d *decoder) restart(n *strictyaml.Node) string {
	if n.Kind == strictyaml.Bool && strings.EqualFold(n.Text, "false") {
		return "no"
	}
	if n.Kind == strictyaml.String && slices.Contains([]string{"always", "on-failure", "no"}, n.Text) {
		return n.Text
	}
	d.faults.AddHint(n, "use always (the default), on-failure or no", "restart %q is not known", clip(n.Text))
	return "always"
}

func (d *decoder) required(n *strictyaml.Node, what string, keys ...string) {
	for _, k := range keys {
		if n.Kind == strictyaml.Map && n.Get(k) == nil {
			d.faults.Add(n, "%s has no %s", what, k)
		}
	}
}

func (d *decoder) names(n *strictyaml.Node, what string) []string {
	var out []string
	for _, item := range d.list(n, what) {
		if s := d.text(item, "a name in "+what); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (d *decoder) check(name string, n *strictyaml.Node) Check {
	c := Check{Name: name, Required: true, Timeout: DefaultCheckTimeout, Report: Report{Kind: "exit"}}
	d.each(n, "check "+name, checkKeys, func(key string, v *strictyaml.Node) {
		switch key {
		case "run":
			c.Run = d.text(v, "run")
		case "fix":
			c.Fix = d.text(v, "fix")
		case "changed":
			c.Changed = d.text(v, "changed")
			if c.Changed != "" && !strings.Contains(c.Changed, "{files}") {
				d.faults.AddHint(v, "write it like: npx eslint {files}", "changed does not say where the files go: {files} is missing")
			}
		case "files":
			for _, item := range d.list(v, "files") {
				if g := d.checked(item, "a pattern", checkGlob); g != "" {
					c.Files = append(c.Files, g)
				}
			}
		case "report":
			d.checked(v, "report", func(s string) (err error) { c.Report, err = ParseReport(s); return err })
		case "dir":
			c.Dir = d.dir(v)
		case "env":
			c.Env = d.env(v)
		case "timeout":
			c.Timeout = d.duration(v, "timeout", time.Second, 6*time.Hour)
		case "required":
			c.Required = d.bool(v, "required")
		}
	})
	d.required(n, "check "+name, "run")
	return c
}

func (d *decoder) page(name string, n *strictyaml.Node) Page {
	p := Page{Name: name, Width: DefaultWidth, Height: DefaultHeight}
	d.each(n, "page "+name, pageKeys, func(key string, v *strictyaml.Node) {
		switch key {
		case "url":
			p.URL = d.checked(v, "url", checkURL)
		case "viewport":
			d.checked(v, "viewport", func(s string) error {
				m := sizesForm.FindStringSubmatch(s)
				if m == nil {
					return core.E("recipe.viewport", core.Invalid, nil, "viewport %q is not WIDTHxHEIGHT", clip(s)).WithHint("the default is %dx%d", DefaultWidth, DefaultHeight)
				}
				p.Width, _ = strconv.Atoi(m[1])
				p.Height, _ = strconv.Atoi(m[2])
				if min(p.Width, p.Height) < 100 || max(p.Width, p.Height) > 4096 {
					return core.E("recipe.viewport", core.Invalid, nil, "viewport %q is not between 100 and 4096 on each side", s)
				}
				return nil
			})
		case "wait":
			s := d.text(v, "wait")
			if s == "" {
				return
			}
			if wait, err := ParseDuration(s); err != nil {
				p.Selector = s
			} else if p.Wait = wait; wait > time.Minute {
				d.faults.Add(v, "wait must not be longer than 1m")
			}
		case "after":
			p.After = d.names(v, "after")
		}
	})
	d.required(n, "page "+name, "url")
	return p
}

func (d *decoder) warm(n *strictyaml.Node) *Step {
	s := &Step{Name: "warm", Timeout: DefaultWarmTimeout}
	d.each(n, "warm", warmKeys, func(key string, v *strictyaml.Node) {
		switch key {
		case "run":
			s.Run = d.text(v, "run")
		case "dir":
			s.Dir = d.dir(v)
		case "timeout":
			s.Timeout = d.duration(v, "timeout", time.Second, 6*time.Hour)
		}
	})
	d.required(n, "warm", "run")
	return s
}

func (d *decoder) refresh(n *strictyaml.Node) time.Duration {
	if n.Kind == strictyaml.String && n.Text == "never" {
		return 0
	}
	return d.duration(n, "refresh", time.Minute, 365*24*time.Hour)
}

func (d *decoder) maxAge(n *strictyaml.Node) time.Duration {
	if n.Kind == strictyaml.String && n.Text == "never" {
		return Never
	}
	return d.duration(n, "max_age", time.Minute, 365*24*time.Hour)
}

func (d *decoder) limits(n *strictyaml.Node) core.Limits {
	var l core.Limits
	d.each(n, "limits", limitKeys, func(key string, v *strictyaml.Node) {
		switch key {
		case "cpu":
			f, err := strconv.ParseFloat(v.Text, 64)
			if v.Kind != strictyaml.Number || err != nil || !(f >= 0.1 && f <= 1024) {
				d.faults.Add(v, "cpu is a number of cores between 0.1 and 1024")
				return
			}
			l.CPU = f
		case "memory":
			l.Memory = d.size(v, "memory", 128<<20)
		case "disk":
			l.Disk = d.size(v, "disk", 64<<20)
		case "pids":
			p, err := strconv.Atoi(v.Text)
			if v.Kind != strictyaml.Number || err != nil || p < 32 || p > 1<<22 {
				d.faults.Add(v, "pids is a number of tasks between 32 and %d", 1<<22)
				return
			}
			l.Pids = p
		case "lifetime":
			l.Lifetime = d.duration(v, "lifetime", time.Minute, 30*24*time.Hour)
		}
	})
	return l
}

// network returns the lists for sessions and for builds. Builds get the
// package registries unless the file says otherwise.
func (d *decoder) network(n *strictyaml.Node) (session, build core.NetworkPolicy) {
	hosts := func(v *strictyaml.Node, what string) []string {
		out := []string{}
		for _, item := range d.list(v, what) {
			if h := d.checked(item, "a host", checkHost); h != "" {
				out = append(out, h)
			}
		}
		return out
	}
	haveBuild := false
	d.each(n, "network", networkKeys, func(key string, v *strictyaml.Node) {
		switch key {
		case "allow":
			session.Allow = hosts(v, "allow")
		case "build":
			build.Allow, haveBuild = hosts(v, "build"), true
		}
	})
	if !haveBuild {
		build.Allow = slices.Clone(session.Allow)
		if !slices.Contains(build.Allow, Registries) {
			build.Allow = append(build.Allow, Registries)
		}
	}
	return session, build
}
