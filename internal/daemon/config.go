package daemon

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/execution/capacity"
	"drydock/internal/execution/image"
	"drydock/internal/execution/retention"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/anthropic"
	"drydock/internal/harness/model/openai"
	"drydock/internal/harness/model/scripted"
)

// FromConfig makes the options of a daemon from its configuration. Secrets are
// read here, once, and go no further than the parts that use them.
func FromConfig(cfg config.Config, env config.Env, environ []string, log *slog.Logger) (Options, error) {
	http, https, no, err := cfg.Upstream(env)
	if err != nil {
		return Options{}, err
	}
	opts := Options{
		State: cfg.StateDir, Listen: cfg.Listen, Environ: environ, Log: log,
		Limits: cfg.Limits.Core(), Budget: cfg.Budget.Core(),
		MaxSessions: cfg.Running.Sessions, MaxSandboxes: cfg.Running.Sandboxes, MaxBuilds: cfg.Running.Builds,
		IdleAfter: idleAfter(cfg.Running.Idle), WarmMax: cfg.Running.Warm.Max, WarmMin: cfg.Running.Warm.Min,
		MaxSnapshotAge: time.Duration(cfg.MaxSnapshotAge),
		PerUser:        cfg.Sessions.PerUser, PerEnv: cfg.Sessions.PerEnvironment,
		Capacity: capacity.Options{
			MemoryReserve: int64(cfg.Capacity.MemoryReserve), DiskReserve: int64(cfg.Capacity.DiskReserve),
			FloorSession: int64(cfg.Capacity.FloorSession), FloorIdle: int64(cfg.Capacity.FloorIdle), PerProcessor: cfg.Capacity.PerProcessor,
		},
		Retention: retention.Policy{
			Builds: cfg.Retention.Builds, Archived: time.Duration(cfg.Retention.Archived), Idle: time.Duration(cfg.Retention.Idle),
			Images: time.Duration(cfg.Retention.Images),
		},
		CollectEvery: time.Duration(cfg.Retention.Interval), StorageMax: int64(cfg.Storage.Max),
		Reruns: cfg.Proof.Reruns, NoPictures: !cfg.Proof.Pictures, Ranges: cfg.Network.Prefixes(), Allow: cfg.Network.Allow,
		Connections: cfg.Network.Connections, NoApproval: !cfg.Forge.RequireApproval, Turns: cfg.Agent.Turns,
	}
	opts.PublicURL, opts.PlainHTTP = cfg.Web.PublicURL, cfg.Web.PlainHTTP
	opts.PreviewListen, opts.PreviewURL, opts.PreviewMode = cfg.Web.PreviewListen, cfg.Web.PreviewURL, cfg.Web.PreviewMode
	opts.Upstream.HTTP, opts.Upstream.HTTPS, opts.Upstream.No = http, https, no
	opts.Images.Registry = image.Registry{Default: cfg.Images.DefaultRegistry, Insecure: cfg.Images.Insecure, Credentials: map[string]image.Credential{}}
	opts.Images.DebianSources = cfg.Images.DebianSources
	for _, l := range cfg.Images.Credentials {
		password, err := l.Password.Read(env)
		if err != nil {
			return Options{}, err
		}
		opts.Images.Registry.Credentials[l.Registry] = image.Credential{User: l.User, Password: password}
	}
	if opts.Runsc, err = program(cfg.Runsc, "runsc"); err != nil {
		return Options{}, err
	}
	if opts.Init, err = program(cfg.Init, "drydock-init"); err != nil {
		return Options{}, err
	}
	return opts, opts.models(cfg, env)
}

// models makes the providers.
func (o *Options) models(cfg config.Config, env config.Env) error {
	o.Providers = map[string]model.Provider{}
	o.Model = cfg.DefaultModel
	for _, p := range cfg.Models {
		var key string
		if p.Key != "" {
			var err error
			if key, err = p.Key.Read(env); err != nil {
				return err
			}
		}
		switch p.Kind {
		case "anthropic":
			o.Providers[p.Name] = anthropic.New(anthropic.Options{Key: key, BaseURL: p.BaseURL})
		case "openai":
			o.Providers[p.Name] = openai.New(openai.Options{Key: key, BaseURL: p.BaseURL})
		case "scripted":
			data, err := os.ReadFile(p.Script)
			if err != nil {
				return core.E("daemon.models", core.Invalid, err, "script of the model provider %s", p.Name)
			}
			script, err := scripted.Parse(p.Script, data)
			if err != nil {
				return err
			}
			o.Providers[p.Name] = scripted.New(script)
		}
		if o.Model == "" {
			o.Model = p.Name
			if len(p.Models) > 0 {
				o.Model += "/" + p.Models[0]
			}
		}
	}
	return nil
}

// program finds one of Drydock's own programs: where the configuration says,
// beside this one, or on PATH.
func program(named, name string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			beside := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", core.E("daemon.start", core.NotFound, nil, "program %s is neither beside drydock nor on PATH", name).
			WithHint("run `make build`, or name it in the configuration (%s: /path/to/%s)", strings.TrimPrefix(name, "drydock-"), name)
	}
	return filepath.Abs(path)
}

// idleAfter makes the zero of a file, which means not at all, differ from that
// of options, which means the default.
func idleAfter(d config.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return time.Duration(d)
}
