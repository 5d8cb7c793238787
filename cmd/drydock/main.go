// Command drydock is the daemon and its command line in one binary.
//
// It only joins the two: what serve, doctor, demo, config and evidence verify
// do is handed to the command line as functions, so that the surface knows
// nothing of the daemon.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/daemon"
	"drydock/internal/doctor"
	"drydock/internal/proof/evidence"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	env := cli.System()
	env.Version = version()
	env.Serve = func(ctx context.Context, o cli.ServeOptions) error {
		return daemon.Run(ctx, daemon.RunOptions{
			ConfigFile: o.ConfigFile, State: o.State, Listen: o.Listen, Verbose: o.Verbose, Version: env.Version, Stderr: o.Stderr, Ready: o.Ready,
		})
	}
	env.Doctor = runDoctor
	env.Demo = demoHost(env.Version)
	env.Verify = verify
	env.Config = cli.ConfigFuncs{Check: checkConfig, Show: showConfig, Schema: showSchema}
	return cli.Main(ctx, os.Args[1:], env)
}

func runDoctor(ctx context.Context, o cli.DoctorOptions) ([]cli.DoctorCheck, error) {
	cfg, err := config.Load(config.Find(o.ConfigFile, config.OS), config.OS)
	if err != nil {
		return nil, err
	}
	if o.State != "" {
		cfg.StateDir = o.State
	}
	report := doctor.Run(ctx, doctor.Options{Config: cfg, Env: config.OS, Environ: config.Environ(), CheckInit: daemon.CheckInit})
	out := make([]cli.DoctorCheck, 0, len(report.Checks))
	for _, c := range report.Checks {
		status := map[doctor.State]string{doctor.OK: "ok", doctor.Warn: "warning", doctor.Lack: "failed"}[c.State]
		detail := c.Found
		if c.Means != "" {
			detail += "; " + c.Means
		}
		out = append(out, cli.DoctorCheck{Name: c.Name, Status: status, Detail: detail, Fix: c.Fix})
	}
	return out, nil
}

func checkConfig(file string) []error {
	err := config.Check(config.Find(file, config.OS), config.OS)
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap()
	}
	return []error{err}
}

func showConfig(file string, defaults bool, w io.Writer) error {
	cfg := config.Default()
	if !defaults {
		var err error
		if cfg, err = config.Load(config.Find(file, config.OS), config.OS); err != nil {
			return err
		}
	}
	text, err := cfg.Show()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func showSchema(w io.Writer) error {
	text, err := config.Schema()
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// verify checks a bundle without a daemon: with the key of the state directory
// where there is one, else with the key that stands in DRYDOCK_EVIDENCE_KEY.
func verify(ctx context.Context, o cli.VerifyOptions) (api.Verified, error) {
	key := o.Key
	if key == "" {
		key = filepath.Join(o.State, "keys", "evidence.pub")
	}
	text, err := os.ReadFile(key)
	if err != nil {
		return api.Verified{}, core.E("evidence.verify", core.NotFound, err, "no public key to check the signature with").
			WithHint("give it with --key; it is keys/evidence.pub in the state directory of the daemon that signed")
	}
	keys, err := evidence.ParsePublicKeys(text)
	if err != nil {
		return api.Verified{}, err
	}
	report, err := evidence.Verify(ctx, o.File, keys)
	if err != nil {
		return api.Verified{}, err
	}
	out := api.Verified{Good: report.OK, Evidence: report.Repository + " " + report.Head, Signer: report.Key, Verdict: string(report.Verdict), Faults: []string{}}
	for _, p := range report.Problems {
		out.Faults = append(out.Faults, fmt.Sprintf("%s is %s: %s", p.What, p.Kind, p.Text))
	}
	return out, nil
}

// revision is set by the linker (see the Makefile).
var revision string

// version is the commit this binary was built from, as the build or Go itself
// recorded it.
func version() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+"
			}
		}
	}
	switch {
	case len(rev) >= 12:
		return rev[:12] + dirty
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return "dev"
}
