// Package config is the one configuration file of the daemon: strict YAML, all
// keys optional, defaults in code. It is also the only place that reads the
// process environment.
//
// It decides nothing about the parts it configures; they validate what only
// they can judge.
//
// Invariants: an unknown key, a wrong type or a value out of range is an
// error with line and caret, and all of them are reported at once; a secret is
// never a value in the file, only a reference (env:NAME or file:PATH), so the
// file and everything that shows it may be read by anybody.
//
// A Config is plain data.
//
//	cfg, err := config.Load(config.Find(flagValue, config.OS), config.OS)
package config

import (
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/strictyaml"
)

// Config is the whole file.
type Config struct {
	Listen   string `yaml:"listen" doc:"address and port of the API and the page"`
	StateDir string `yaml:"state_dir" doc:"directory of everything the daemon keeps"`
	Runsc    string `yaml:"runsc" doc:"path of the runsc program; empty: beside drydock, then on PATH"`
	Init     string `yaml:"init" doc:"path of the drydock-init program; empty: beside drydock"`

	// MaxSnapshotAge of environments; drydock.yaml may say otherwise.
	MaxSnapshotAge Duration `yaml:"max_snapshot_age" doc:"a session that starts from an older snapshot of its environment says so; 0: any age is fine"`

	Log      Log      `yaml:"log" doc:"what is logged, and how"`
	Web      Web      `yaml:"web" doc:"how people's browsers reach the page"`
	Limits   Limits   `yaml:"limits" doc:"of one sandbox, where its environment sets none"`
	Running  Running  `yaml:"running" doc:"how much may run at once"`
	Sessions Sessions `yaml:"sessions" doc:"whose sessions may run at once"`
	Capacity Capacity `yaml:"capacity" doc:"what is kept back of the host"`
	Network  Network  `yaml:"network" doc:"the network of sandboxes"`
	Images   Images   `yaml:"images" doc:"where base images come from"`

	Retention Retention `yaml:"retention" doc:"what is kept for those who may come back"`
	Storage   Storage   `yaml:"storage" doc:"how much of the disk is used"`

	Models       []Provider `yaml:"models" doc:"model providers"`
	DefaultModel string     `yaml:"default_model" doc:"provider/model of sessions that name none; empty: the first model of the first provider"`
	Agent        Agent      `yaml:"agent" doc:"bounds of the built-in agent"`
	Budget       Budget     `yaml:"budget" doc:"of one session that sets none; 0 means no bound"`
	Proof        Proof      `yaml:"proof" doc:"how work is judged"`
	Forge        Forge      `yaml:"forge" doc:"where changes are proposed"`
}

// Log says what is logged.
type Log struct {
	Level  string `yaml:"level" doc:"debug, info, warn or error" one:"debug,info,warn,error"`
	Format string `yaml:"format" doc:"text or json" one:"text,json"`
}

// Web says how browsers reach the page.
type Web struct {
	PublicURL string `yaml:"public_url" doc:"address of the page where something in front of the daemon gives it another one (https://drydock.example.com); empty: only loopback names and the address itself"`
	PlainHTTP bool   `yaml:"plain_http" doc:"people may sign in without TLS on hosts other than loopback: secrets can be read on the way"`

	PreviewListen string `yaml:"preview_listen" doc:"address and port of previews of apps; empty: a free port of loopback, that next to listen if it can be had"`
	PreviewURL    string `yaml:"preview_url" doc:"how browsers reach previews, with a star for the first part of the name (https://*.preview.example); empty: http://*.localhost and the port of preview_listen"`
	PreviewMode   string `yaml:"preview_mode" doc:"hosts: one listener and a name for each port; listeners: without wildcard names, a listener for each port, which is weaker; off" one:"hosts,listeners,off"`
}

// Limits are the defaults of core.Limits.
type Limits struct {
	CPU      float64  `yaml:"cpu" doc:"cores" min:"0.1" max:"1024"`
	Memory   Size     `yaml:"memory" doc:"memory" min:"134217728"`
	Pids     int      `yaml:"pids" doc:"tasks" min:"32" max:"4194304"`
	Disk     Size     `yaml:"disk" doc:"written above the snapshot" min:"67108864"`
	Lifetime Duration `yaml:"lifetime" doc:"then the sandbox is destroyed" min:"60000000000"`
}

// Core is what the rest of the program calls them.
func (l Limits) Core() core.Limits {
	return core.Limits{CPU: l.CPU, Memory: int64(l.Memory), Pids: l.Pids, Disk: int64(l.Disk), Lifetime: time.Duration(l.Lifetime)}
}

// Running bounds what runs at once.
type Running struct {
	Sandboxes int `yaml:"sandboxes" doc:"sandboxes, of all purposes" min:"1" max:"1000"`
	Sessions  int `yaml:"sessions" doc:"sessions; the others wait" min:"1" max:"1000"`
	Builds    int `yaml:"builds" doc:"environment builds" min:"1" max:"100"`
	// Idle of zero suspends at the end of each run.
	Idle Duration `yaml:"idle" doc:"how long the sandbox of a session that does nothing runs on before it is suspended; 0s: not at all"`
	Warm Warm     `yaml:"warm" doc:"sandboxes that are restored before anybody asks"`
}

// Warm sandboxes.
type Warm struct {
	Min int `yaml:"min" doc:"of an environment that was used within a day" min:"0" max:"100"`
	Max int `yaml:"max" doc:"of one environment, as demand grows; 0: none" min:"0" max:"100"`
}

// Sessions bounds what one person and one environment may have of the running
// sessions.
type Sessions struct {
	PerUser        int `yaml:"per_user" doc:"running at once of one person's prompts; 0: no bound but running.sessions" min:"0" max:"1000"`
	PerEnvironment int `yaml:"per_environment" doc:"running at once in one environment; 0: no bound but running.sessions" min:"0" max:"1000"`
}

// Capacity says what is kept back of the host, and what a sandbox is promised.
type Capacity struct {
	MemoryReserve Size `yaml:"memory_reserve" doc:"of the host, never given out; 0B: the larger of 1GiB and a tenth, at most a quarter" min:"0"`
	DiskReserve   Size `yaml:"disk_reserve" doc:"below so much free on the disk of the state directory nothing new starts; 0B: the larger of 2GiB and a twentieth, at most half" min:"0"`
	FloorSession  Size `yaml:"floor_session" doc:"reserved for a sandbox that works and uses less" min:"16777216"`
	FloorIdle     Size `yaml:"floor_idle" doc:"reserved for a sandbox that idles and uses less" min:"16777216"`
	PerProcessor  int  `yaml:"per_processor" doc:"sandboxes that work, for each processor" min:"1" max:"1000"`
}

// Retention says what is kept beyond what is in use.
type Retention struct {
	Builds   int      `yaml:"builds" doc:"good builds of an environment, the current one included" min:"1" max:"1000"`
	Archived Duration `yaml:"archived" doc:"the files of a session after it was archived"`
	Idle     Duration `yaml:"idle" doc:"the files of a session in which nothing happens; its branch and log stay. 0s: for ever"`
	Images   Duration `yaml:"images" doc:"a base image that nothing stands on"`
	Interval Duration `yaml:"interval" doc:"between collections in the background" min:"1000000000"`
}

// Storage bounds what is stored.
type Storage struct {
	Max Size `yaml:"max" doc:"of all snapshots and memory images together; above it caches and old builds go first, then no new work begins. 0B: no bound" min:"0"`
}

// Network of sandboxes.
type Network struct {
	Ranges      []Prefix `yaml:"ranges" doc:"IPv4 ranges of at most 20 bits that sandboxes' addresses are taken from; empty: private ranges the host does not use"`
	Allow       []string `yaml:"allow" doc:"what every sandbox may reach, besides what its environment allows"`
	Connections int      `yaml:"connections" doc:"of one sandbox at once" min:"8" max:"65536"`
	Proxy       Proxy    `yaml:"proxy" doc:"proxy that the host itself has to use; empty: the usual variables of the daemon's environment"`
}

// Proxy that lies between this host and the outside.
type Proxy struct {
	HTTP  Secret `yaml:"http" doc:"reference to the address of the proxy for http"`
	HTTPS Secret `yaml:"https" doc:"reference to the address of the proxy for https"`
	No    string `yaml:"no" doc:"hosts that are reached without it, with commas"`
}

// Images says where base images come from.
type Images struct {
	DefaultRegistry string   `yaml:"default_registry" doc:"registry of image references that name none; empty: such references are refused"`
	Insecure        []string `yaml:"insecure" doc:"registries (host:port) spoken to without TLS"`
	DebianSources   []string `yaml:"debian_sources" doc:"where debian:SUITE comes from, as lines of the form deb URI {suite} COMPONENT...; empty: where this host's own apt looks"`
	Credentials     []Login  `yaml:"credentials" doc:"for registries that want them"`
}

// Login of one image registry.
type Login struct {
	Registry string `yaml:"registry" doc:"host or host:port" must:"yes"`
	User     string `yaml:"user" doc:"user name" must:"yes"`
	Password Secret `yaml:"password" doc:"reference to the password" must:"yes"`
}

// Provider of models.
type Provider struct {
	Name    string   `yaml:"name" doc:"first part of a model's full name" must:"yes"`
	Kind    string   `yaml:"kind" doc:"anthropic, openai (any compatible endpoint) or scripted" one:"anthropic,openai,scripted" must:"yes"`
	BaseURL string   `yaml:"base_url" doc:"address of the API; empty: the provider's own"`
	Key     Secret   `yaml:"key" doc:"reference to the API key"`
	Models  []string `yaml:"models" doc:"names offered; the first is the default"`
	Script  string   `yaml:"script" doc:"path of the answers of a scripted provider"`
}

// Agent bounds the built-in agent.
type Agent struct {
	Turns          int      `yaml:"turns" doc:"model calls in one attempt" min:"1" max:"10000"`
	WallClock      Duration `yaml:"wall_clock" doc:"of one attempt" min:"1000000000"`
	CommandTimeout Duration `yaml:"command_timeout" doc:"of one command that sets none" min:"1000000000"`
	Output         Size     `yaml:"output" doc:"of one tool call that is shown to the model; the whole stays readable" min:"1024" max:"1048576"`
}

// Budget of one session.
type Budget struct {
	WallClock Duration `yaml:"wall_clock" doc:"of all its runs"`
	Dollars   float64  `yaml:"dollars" doc:"for model calls, in US dollars" min:"0" max:"1000000"`
}

// Core is what the rest of the program calls it.
func (b Budget) Core() core.Budget {
	return core.Budget{WallClock: time.Duration(b.WallClock), Money: core.Money(b.Dollars * 1e6)}
}

// Proof says how work is judged.
type Proof struct {
	Reruns   int      `yaml:"reruns" doc:"of a case that broke, before it is called broken and not flaky" min:"0" max:"20"`
	Timeout  Duration `yaml:"timeout" doc:"of one check" min:"1000000000"`
	Pictures bool     `yaml:"pictures" doc:"pages are pictured before and after"`
}

// Forge is where changes are proposed.
type Forge struct {
	Kind            string `yaml:"kind" doc:"local: the built-in one" one:"local"`
	RequireApproval bool   `yaml:"require_approval" doc:"a change is merged only after a person other than its author approved it"`
}

// Default is the configuration without a file.
func Default() Config {
	return Config{
		Listen:         "127.0.0.1:7300",
		StateDir:       "/var/lib/drydock",
		Log:            Log{Level: "info", Format: "text"},
		Web:            Web{PreviewMode: "hosts"},
		Limits:         Limits{CPU: 2, Memory: 4 << 30, Pids: 4096, Disk: 20 << 30, Lifetime: Duration(8 * time.Hour)},
		Running:        Running{Sandboxes: 8, Sessions: 4, Builds: 1, Idle: Duration(5 * time.Minute), Warm: Warm{Min: 1, Max: 4}},
		Capacity:       Capacity{FloorSession: 256 << 20, FloorIdle: 64 << 20, PerProcessor: 16},
		Network:        Network{Connections: 256},
		MaxSnapshotAge: Duration(7 * 24 * time.Hour),
		Retention: Retention{
			Builds: 3, Archived: Duration(24 * time.Hour), Idle: Duration(30 * 24 * time.Hour),
			Images: Duration(72 * time.Hour), Interval: Duration(10 * time.Minute),
		},
		Agent: Agent{
			Turns: 200, WallClock: Duration(time.Hour), CommandTimeout: Duration(10 * time.Minute), Output: 24 << 10,
		},
		Budget: Budget{WallClock: Duration(4 * time.Hour), Dollars: 20},
		Proof:  Proof{Reruns: 2, Timeout: Duration(30 * time.Minute), Pictures: true},
		Forge:  Forge{Kind: "local", RequireApproval: true},
	}
}

// Env looks a variable up. OS is the process's own.
type Env func(name string) (string, bool)

// OS is the environment of this process.
func OS(name string) (string, bool) { return os.LookupEnv(name) }

// Environ is the whole environment of this process, for programs that are
// asked about their own settings.
func Environ() []string { return os.Environ() }

// DefaultFile is read when nothing else is named, and may be missing.
const DefaultFile = "/etc/drydock/drydock.yaml"

// Find says which file to read: the flag, else DRYDOCK_CONFIG, else
// DefaultFile if it is there, else none.
func Find(flag string, env Env) string {
	if flag != "" {
		return flag
	}
	if named, ok := env("DRYDOCK_CONFIG"); ok && named != "" {
		return named
	}
	if _, err := os.Stat(DefaultFile); err == nil {
		return DefaultFile
	}
	return ""
}

// Load reads a file on top of the defaults; "" means the defaults alone. With
// no provider in it, the usual variables make one for each key that is set.
func Load(file string, env Env) (Config, error) {
	cfg := Default()
	if file != "" {
		data, err := readFile(file)
		if err != nil {
			return cfg, err
		}
		if err := decode(file, data, &cfg); err != nil {
			return cfg, err
		}
	}
	if len(cfg.Models) == 0 {
		cfg.Models = providersOf(env)
	}
	if cfg.DefaultModel == "" && len(cfg.Models) > 0 && len(cfg.Models[0].Models) > 0 {
		cfg.DefaultModel = cfg.Models[0].Name + "/" + cfg.Models[0].Models[0]
	}
	return cfg, nil
}

func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		kind := core.Invalid
		if errors.Is(err, fs.ErrNotExist) {
			kind = core.NotFound
		}
		return nil, core.E("config.load", kind, err, "configuration file %s", file)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strictyaml.MaxBytes+1))
	if err != nil {
		return nil, core.E("config.load", core.Invalid, err, "configuration file %s", file)
	}
	return data, nil
}

// Check reads a file like Load and says everything that is wrong with it,
// secrets that cannot be read included.
func Check(file string, env Env) error {
	cfg, err := Load(file, env)
	if err != nil {
		return err
	}
	var faults []error
	for _, s := range cfg.secrets() {
		if _, err := s.ref.Read(env); err != nil {
			faults = append(faults, core.E("config.check", core.Invalid, err, "%s", s.where))
		}
	}
	return errors.Join(faults...)
}

type namedSecret struct {
	where string
	ref   Secret
}

func (c Config) secrets() []namedSecret {
	out := []namedSecret{{"network.proxy.http", c.Network.Proxy.HTTP}, {"network.proxy.https", c.Network.Proxy.HTTPS}}
	for _, p := range c.Models {
		out = append(out, namedSecret{"models: key of " + p.Name, p.Key})
	}
	for _, l := range c.Images.Credentials {
		out = append(out, namedSecret{"images.credentials: password for " + l.Registry, l.Password})
	}
	return out
}

// SecretValues are the values behind all references that can be read, for a
// log to leave out.
func (c Config) SecretValues(env Env) []string {
	var out []string
	for _, s := range c.secrets() {
		if v, err := s.ref.Read(env); err == nil && v != "" {
			out = append(out, v)
		}
	}
	return out
}

// providersOf makes providers of the variables their own tools use.
func providersOf(env Env) []Provider {
	var out []Provider
	if v, _ := env("ANTHROPIC_API_KEY"); v != "" {
		p := Provider{Name: "anthropic", Kind: "anthropic", Key: "env:ANTHROPIC_API_KEY"}
		p.BaseURL, _ = env("ANTHROPIC_BASE_URL")
		p.Models = modelNames(env, "ANTHROPIC_MODEL")
		out = append(out, p)
	}
	key, _ := env("OPENAI_API_KEY")
	base, _ := env("OPENAI_BASE_URL")
	if key != "" || base != "" {
		p := Provider{Name: "openai", Kind: "openai", BaseURL: base, Models: modelNames(env, "OPENAI_MODEL")}
		if key != "" {
			p.Key = "env:OPENAI_API_KEY"
		}
		out = append(out, p)
	}
	return out
}

func modelNames(env Env, name string) []string {
	if v, _ := env(name); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// Upstream is the proxy this host has to use: the file's, else that of the
// usual variables.
func (c Config) Upstream(env Env) (http, https, no string, err error) {
	p := c.Network.Proxy
	if p.HTTP != "" || p.HTTPS != "" {
		http, err = p.HTTP.Read(env)
		if err == nil {
			https, err = p.HTTPS.Read(env)
		}
		return http, https, p.No, err
	}
	first := func(names ...string) string {
		for _, n := range names {
			if v, _ := env(n); v != "" {
				return v
			}
		}
		return ""
	}
	// HTTP_PROXY in capitals counts as well: a daemon is no CGI program.
	return first("http_proxy", "HTTP_PROXY"), first("https_proxy", "HTTPS_PROXY"), first("no_proxy", "NO_PROXY"), nil
}

// Prefixes are the network ranges.
func (n Network) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range n.Ranges {
		out = append(out, netip.Prefix(p))
	}
	return out
}
