package recipe

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/strictyaml"
)

// silentKeys of devcontainer.json mean nothing to a sandbox, and nothing is
// lost by leaving them.
var silentKeys = []string{
	"$schema", "name", "customizations", "overrideCommand", "shutdownAction", "updateRemoteUserUID", "waitFor", "userEnvProbe", "init",
	"portsAttributes", "otherPortsAttributes", "hostRequirements", "remoteEnv", "containerEnv",
}

// ParseDevcontainer reads a devcontainer.json. What stands in the way of a
// right environment (a Dockerfile, features, compose files) is a fault; keys
// that are not followed are listed in Warnings.
func ParseDevcontainer(file string, data []byte) (Recipe, error) {
	if len(data) > MaxBytes {
		return Recipe{}, core.E("recipe.parse", core.Invalid, nil, "%s is larger than %d bytes", file, MaxBytes)
	}
	faults := strictyaml.NewFaults(file, data)
	root := parseJSONC(data, faults)
	if root == nil {
		return Recipe{}, faults.Err()
	}
	c := &devcontainer{decoder: decoder{faults: faults}}
	r := c.recipe(root)
	if err := faults.Err(); err != nil {
		return Recipe{}, err
	}
	return r, nil
}

type devcontainer struct {
	decoder
	warnings []string
}

func (c *devcontainer) warn(at *strictyaml.Node, format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf("line %d: ", at.Line)+fmt.Sprintf(format, args...))
}

func (c *devcontainer) recipe(n *strictyaml.Node) Recipe {
	r := Recipe{
		Workspace: DefaultWorkspace, Refresh: DefaultRefresh,
		Network:      core.NetworkPolicy{Allow: []string{Registries}},
		BuildNetwork: core.NetworkPolicy{Allow: []string{Registries}},
	}
	if n.Kind != strictyaml.Map {
		c.faults.Add(n, "the file must hold an object")
		return r
	}
	c.image(n, &r)
	for _, p := range n.Pairs {
		v := p.Value
		switch p.Key {
		case "image", "build", "dockerFile", "dockerComposeFile", "service", "context",
			"onCreateCommand", "updateContentCommand", "postCreateCommand", "workspaceFolder":
		case "features":
			c.features(p)
		case "forwardPorts":
			r.Ports = c.ports(v)
		case "remoteUser", "containerUser":
			if user := c.user(v); p.Key == "remoteUser" || r.User == "" {
				r.User = user
			}
		case "postStartCommand", "postAttachCommand":
			c.warn(p.At, "%s is not run; name long-running processes as services in drydock.yaml", p.Key)
		default:
			if !slices.Contains(silentKeys, p.Key) {
				c.warn(p.At, "key %q is not followed", clip(p.Key))
			}
		}
	}
	if v := n.Get("workspaceFolder"); v != nil {
		folder := strings.TrimSuffix(c.text(v, "workspaceFolder"), "/")
		switch {
		case folder == "":
		case strings.Contains(folder, "${"):
			c.warn(v, "workspaceFolder %q is not followed: the workspace is %s", clip(folder), DefaultWorkspace)
		default:
			r.Workspace = c.checked(&strictyaml.Node{Kind: strictyaml.String, Text: folder, Line: v.Line, Column: v.Column}, "workspaceFolder", checkWorkspace)
		}
	}
	r.Env = c.variables(n, r.Workspace)
	for _, key := range []string{"onCreateCommand", "updateContentCommand", "postCreateCommand"} {
		if v := n.Get(key); v != nil {
			r.Setup = append(r.Setup, c.command(key, v)...)
		}
	}
	if r.User == "root" {
		r.User = ""
	}
	r.Warnings = c.warnings
	return r
}

func (c *devcontainer) image(n *strictyaml.Node, r *Recipe) {
	hint := "name an image, or write a drydock.yaml:\n" + example
	for _, key := range []string{"build", "dockerFile"} {
		if v := n.Get(key); v != nil {
			name := ""
			if v.Kind == strictyaml.String {
				name = v.Text
			} else if f := v.Get("dockerfile"); f != nil {
				name = f.Text
			}
			c.faults.AddHint(v, "build and push the image elsewhere and name it as image, or write a drydock.yaml:\n"+example,
				"images are not built here: Dockerfile %q in %s is refused", clip(name), key)
			return
		}
	}
	if v := n.Get("dockerComposeFile"); v != nil {
		c.faults.AddHint(v, "name an image here and the services in a drydock.yaml:\n"+example, "compose files are not read: dockerComposeFile is refused")
		return
	}
	v := n.Get("image")
	if v == nil {
		c.faults.AddHint(nil, hint, "the key image is missing")
		return
	}
	r.Base = c.checked(v, "image", checkBase)
}

func (c *devcontainer) features(p strictyaml.Pair) {
	if p.Value.Kind != strictyaml.Map {
		c.faults.Add(p.Value, "features must be an object")
		return
	}
	for _, f := range p.Value.Pairs {
		c.faults.AddHint(f.At, "use an image that has it, or a drydock.yaml with packages and setup:\n"+example, "feature %q is refused: features are not installed here", clip(f.Key))
	}
}

func (c *devcontainer) ports(n *strictyaml.Node) []int {
	var out []int
	for _, item := range c.list(n, "forwardPorts") {
		text := item.Text
		if item.Kind == strictyaml.String {
			host, port, ok := strings.Cut(text, ":")
			if ok && host != "localhost" && host != "127.0.0.1" {
				c.warn(item, "port %q of another host is not forwarded", clip(text))
				continue
			}
			if ok {
				text = port
			}
		}
		if !validPort(text) {
			c.faults.Add(item, "a port is a number between 1 and 65535")
			continue
		}
		p, _ := strconv.Atoi(text)
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// variables merges containerEnv and remoteEnv and resolves references between
// them; the latter win.
func (c *devcontainer) variables(n *strictyaml.Node, workspace string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"containerEnv", "remoteEnv"} {
		v := n.Get(key)
		if v == nil {
			continue
		}
		if v.Kind != strictyaml.Map {
			c.faults.Add(v, "%s must be an object", key)
			continue
		}
		for _, p := range v.Pairs {
			if p.Value.Kind == strictyaml.Null { // remoteEnv: unset
				delete(out, p.Key)
				continue
			}
			one := c.env(&strictyaml.Node{Kind: strictyaml.Map, Line: v.Line, Column: v.Column, Pairs: []strictyaml.Pair{p}})
			if value, ok := one[p.Key]; ok {
				if value, ok = c.expand(p, value, out, workspace); ok {
					out[p.Key] = value
				}
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// expand resolves ${...} in a value. What refers to the machine of a developer
// has no meaning here and drops the variable, with a warning.
func (c *devcontainer) expand(p strictyaml.Pair, value string, have map[string]string, workspace string) (string, bool) {
	var b strings.Builder
	for rest := value; ; {
		before, after, ok := strings.Cut(rest, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), true
		}
		name, tail, ok := strings.Cut(after, "}")
		if !ok {
			c.warn(p.Value, "variable %s is left out: a ${ is not closed", p.Key)
			return "", false
		}
		kind, arg, _ := strings.Cut(name, ":")
		source, fallback, hasFallback := strings.Cut(arg, ":")
		known, isKnown := have[source]
		switch {
		case kind == "containerWorkspaceFolder":
			b.WriteString(workspace)
		case kind == "containerWorkspaceFolderBasename":
			b.WriteString(path.Base(workspace))
		case kind == "containerEnv" && isKnown:
			b.WriteString(known)
		case (kind == "localEnv" || kind == "containerEnv" || kind == "env") && hasFallback:
			b.WriteString(fallback)
		default:
			c.warn(p.Value, "variable %s is left out: ${%s} is not known here", p.Key, clip(name))
			return "", false
		}
		rest = tail
	}
}

// command reads the three forms of a lifecycle command: text for a shell, a
// list as argv, an object of named ones (run one after the other, in order).
func (c *devcontainer) command(name string, n *strictyaml.Node) []Step {
	switch n.Kind {
	case strictyaml.Null:
		return nil
	case strictyaml.String:
		if strings.TrimSpace(n.Text) == "" {
			return nil
		}
		if s := c.text(n, name); s != "" {
			return []Step{{Name: name, Run: s}}
		}
		return nil
	case strictyaml.List:
		argv := c.names(n, name)
		if len(argv) == 0 {
			return nil
		}
		return []Step{{Name: name, Argv: argv}}
	case strictyaml.Map:
		var out []Step
		for i, p := range n.Pairs {
			if i >= maxEntries {
				c.faults.Add(p.At, "%s has more than %d entries", name, maxEntries)
				break
			}
			if p.Value.Kind == strictyaml.Map {
				c.faults.Add(p.Value, "a command must be text or a list")
				continue
			}
			out = append(out, c.command(name+" "+clip(p.Key), p.Value)...)
		}
		return out
	}
	c.faults.Add(n, "%s must be text, a list or an object", name)
	return nil
}
