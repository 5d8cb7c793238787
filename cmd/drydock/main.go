// Command drydock is the daemon and its command line in one binary.
//
// It only joins the two: what serve, doctor, demo, config and evidence verify
// do is handed to the command line as functions, so that the surface knows
// nothing of the daemon.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

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
	return cli.Main(ctx, os.Args[1:], env)
}

// version is the commit this binary was built from, where Go recorded it.
func version() string {
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
	case info.Main.Version != "":
		return info.Main.Version
	}
	return "dev"
}
