package daemon

import (
	"context"
	"io"
	"os/user"

	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/obs"
)

// RunOptions of Run.
type RunOptions struct {
	ConfigFile string // "" is none
	State      string // overrides the file
	Listen     string
	Verbose    bool
	Version    string
	Stderr     io.Writer
	Ready      func(url, state string)
}

// Run is the daemon as a program: it reads the configuration, runs until ctx
// ends, and leaves sandboxes to the next start.
func Run(ctx context.Context, o RunOptions) error {
	cfg, err := config.Load(config.Find(o.ConfigFile, config.OS), config.OS)
	if err != nil {
		return err
	}
	if o.State != "" {
		cfg.StateDir = o.State
	}
	if o.Listen != "" {
		cfg.Listen = o.Listen
	}
	if o.Verbose {
		cfg.Log.Level = "debug"
	}
	redact := obs.NewRedactor(cfg.SecretValues(config.OS)...)
	log := obs.NewLogger(o.Stderr, redact, obs.LogOptions{Level: cfg.Log.Level, Format: cfg.Log.Format})
	opts, err := FromConfig(cfg, config.OS, config.Environ(), log)
	if err != nil {
		return err
	}
	opts.Version = o.Version
	opts.Redact = redact.String
	opts.Operator = operator()
	d, err := Start(ctx, opts)
	if err != nil {
		return err
	}
	log.Info("drydock is ready", "url", d.URL(), "state", opts.State)
	if o.Ready != nil {
		o.Ready(d.URL(), opts.State)
	}
	select {
	case <-ctx.Done():
		log.Info("drydock is shutting down; sandboxes stay")
	case err = <-d.Failed():
		log.Error("a part of drydock ended", "err", err)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if closeErr := d.Close(clean); err == nil {
		err = closeErr
	}
	return err
}

// operator is who the token of the state directory stands for, as far as the
// system knows them.
func operator() core.Author {
	a := core.Author{Name: "Operator", Email: "operator@localhost"}
	if u, err := user.Current(); err == nil && u.Name != "" && u.Name != "root" {
		a.Name = u.Name
	}
	return a
}
