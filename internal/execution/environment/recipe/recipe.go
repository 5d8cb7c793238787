package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// Defaults of a recipe.
const (
	DefaultWorkspace    = "/workspace"
	DefaultRefresh      = 30 * time.Minute
	DefaultReadyTimeout = 60 * time.Second
	DefaultCheckTimeout = 10 * time.Minute
	DefaultWarmTimeout  = 20 * time.Minute
	DefaultWidth        = 1280
	DefaultHeight       = 800
	Registries          = "registries" // in a network list: this host's package registries
	Never               = time.Duration(-1)
)

// Recipe is everything a repository says about its environment.
type Recipe struct {
	Base         string             `json:"base"` // "debian:SUITE", "oci-layout:DIR" or an OCI reference
	Packages     []string           `json:"packages,omitempty"`
	Env          map[string]string  `json:"env,omitempty"`
	User         string             `json:"user,omitempty"` // of setup, services, checks and the agent; "" is root
	Workspace    string             `json:"workspace"`
	Setup        []Step             `json:"setup,omitempty"`
	Services     []Service          `json:"services,omitempty"` // as in the file; see StartOrder
	Checks       []Check            `json:"checks,omitempty"`
	Pages        []Page             `json:"pages,omitempty"`
	Warm         *Step              `json:"warm,omitempty"`
	Ports        []int              `json:"ports,omitempty"`      // forwarded without a service of ours
	LinkPorts    bool               `json:"link_ports,omitempty"` // they may call each other in a browser without credentials
	Refresh      time.Duration      `json:"refresh_ns"`           // 0: never by itself
	MaxAge       time.Duration      `json:"max_age_ns,omitempty"` // of a snapshot that is used in silence; 0: the host's; Never: any
	OnSync       []Sync             `json:"on_sync,omitempty"`    // instead of setup, where the tree has moved
	Limits       core.Limits        `json:"limits"`               // zero fields: the host's defaults
	Network      core.NetworkPolicy `json:"network"`
	BuildNetwork core.NetworkPolicy `json:"build_network"`

	// Warnings tell what of the file was understood but not followed.
	Warnings []string `json:"-"`
}

// Step is a command of setup or warm-up: Run is given to a shell, Argv is not.
type Step struct {
	Name    string        `json:"name"`
	Run     string        `json:"run,omitempty"`
	Argv    []string      `json:"argv,omitempty"`
	Dir     string        `json:"dir,omitempty"` // below the workspace
	Timeout time.Duration `json:"timeout_ns,omitempty"`
}

// Sync is a command that is run when the tree has moved from the commit of a
// snapshot to another one.
type Sync struct {
	Step
	When  []string `json:"when,omitempty"`  // patterns of changed files; always when empty
	After []string `json:"after,omitempty"` // services that must be ready; else they may run or not
}

// Wanted says whether it is run after these files have changed.
func (s Sync) Wanted(changed []string) bool {
	return len(s.When) == 0 || slices.ContainsFunc(changed, func(file string) bool {
		return slices.ContainsFunc(s.When, func(glob string) bool { return Match(glob, file) })
	})
}

// Service is a process that runs as long as the sandbox does.
type Service struct {
	Name    string            `json:"name"`
	Run     string            `json:"run"`
	Ready   string            `json:"ready,omitempty"` // shell, an http URL, or "tcp:PORT"
	Port    int               `json:"port,omitempty"`
	After   []string          `json:"after,omitempty"`
	Restart string            `json:"restart"` // "always", "on-failure", "no"
	User    string            `json:"user,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Timeout time.Duration     `json:"timeout_ns"`
}

// Check is a command that says whether the code is good.
type Check struct {
	Name     string            `json:"name"`
	Run      string            `json:"run"`
	Fix      string            `json:"fix,omitempty"`     // repairs what it can
	Changed  string            `json:"changed,omitempty"` // faster, for the files in {files}
	Files    []string          `json:"files,omitempty"`   // globs of what {files} may hold; all when empty
	Report   Report            `json:"report"`
	Dir      string            `json:"dir,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Timeout  time.Duration     `json:"timeout_ns"`
	Required bool              `json:"required"`
}

// Report says where a check's cases can be read.
type Report struct {
	Kind string `json:"kind"`           // "exit", "gotest", "junit", "tap"
	Glob string `json:"glob,omitempty"` // files below the workspace; "" is the command's standard output
}

func (r Report) String() string {
	if r.Glob == "" {
		return r.Kind
	}
	return r.Kind + ":" + r.Glob
}

// Page is pictured for evidence.
type Page struct {
	Name     string        `json:"name"`
	URL      string        `json:"url"`
	Width    int           `json:"width"`
	Height   int           `json:"height"`
	Wait     time.Duration `json:"wait_ns,omitempty"`  // after the page has loaded
	Selector string        `json:"selector,omitempty"` // must be visible
	After    []string      `json:"after,omitempty"`    // services that must be ready; all when empty
}

// Digest names the recipe by content.
func (r Recipe) Digest() string { return digest(r) }

// BuildDigest names what a build depends on: it stays when only checks, pages,
// limits, refreshing, what follows a moved tree or the network of sessions
// change.
func (r Recipe) BuildDigest() string {
	r.Checks, r.Pages, r.Ports, r.LinkPorts = nil, nil, nil, false
	r.Refresh, r.MaxAge, r.OnSync = 0, 0, nil
	r.Limits, r.Network = core.Limits{}, core.NetworkPolicy{}
	return digest(r)
}

func digest(r Recipe) string {
	raw, err := json.Marshal(r) // maps are written in the order of their keys
	if err != nil {
		panic("recipe: not JSON: " + err.Error()) // plain data always is
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// StartOrder is the services with every service behind those it waits for, and
// otherwise as in the file.
func (r Recipe) StartOrder() []Service {
	out := make([]Service, 0, len(r.Services))
	done := map[string]bool{}
	for len(out) < len(r.Services) {
		before := len(out)
		for _, s := range r.Services {
			if !done[s.Name] && !slices.ContainsFunc(s.After, func(a string) bool { return !done[a] }) {
				done[s.Name] = true
				out = append(out, s)
			}
		}
		if len(out) == before { // a cycle; Parse refuses those
			return r.Services
		}
	}
	return out
}

// Environ is Env as "NAME=value", sorted.
func (r Recipe) Environ() []string { return environ(r.Env) }

func environ(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// GuestServices is StartOrder in the words of drydock-init: directories made
// absolute, the recipe's user filled in. The recipe's own Env is not repeated.
func (r Recipe) GuestServices() []guest.Service {
	var out []guest.Service
	for _, s := range r.StartOrder() {
		user := s.User
		if user == "" {
			user = r.User
		}
		out = append(out, guest.Service{
			Name: s.Name, Run: s.Run, Ready: s.Ready, Port: s.Port, After: s.After, Restart: s.Restart,
			User: user, Dir: r.Path(s.Dir), Env: environ(s.Env), Timeout: s.Timeout,
		})
	}
	return out
}

// Path makes a directory of the recipe absolute.
func (r Recipe) Path(dir string) string {
	if dir == "" || dir == "." {
		return r.Workspace
	}
	return r.Workspace + "/" + dir
}

// Check finds a check by name.
func (r Recipe) Check(name string) (Check, bool) {
	for _, c := range r.Checks {
		if c.Name == name {
			return c, true
		}
	}
	return Check{}, false
}
