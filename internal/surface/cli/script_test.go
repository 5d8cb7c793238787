package cli_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli"
	"drydock/internal/surface/surfacetest"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"drydock": drydock})
}

// drydock is the command line as the scripts run it: a process of its own,
// with a clock that stands still and, where the script wants one, a terminal.
func drydock() {
	env := cli.System()
	env.Version = "test"
	env.Now = func() time.Time { return time.Date(2026, 1, 2, 15, 10, 5, 0, time.UTC) }
	if w, err := strconv.Atoi(os.Getenv("TEST_TERMINAL")); err == nil {
		env.Terminal = func(stream any) (bool, int) { return stream != env.Stdin, w }
	}
	env.Doctor = func(context.Context, cli.DoctorOptions) ([]cli.DoctorCheck, error) {
		checks := []cli.DoctorCheck{{Name: "root", Status: "ok", Detail: "runs as root"}, {Name: "cgroup", Status: "warning", Detail: "version 1: limits work, pressure is not reported", Fix: "boot with systemd.unified_cgroup_hierarchy=1"}}
		if os.Getenv("TEST_DOCTOR") != "" {
			checks = append(checks, cli.DoctorCheck{Name: "nftables", Status: "failed", Detail: "nft is not installed", Fix: "apt-get install nftables"})
		}
		return checks, nil
	}
	env.Verify = func(_ context.Context, o cli.VerifyOptions) (api.Verified, error) {
		raw, err := os.ReadFile(o.File)
		if err != nil {
			return api.Verified{}, core.E("verify", core.NotFound, err, "bundle %s", o.File)
		}
		if string(raw) != "tar of evd_000000000000000001" {
			return api.Verified{Faults: []string{"artifact B/test/stdout.log is not what the manifest names"}}, nil
		}
		return api.Verified{Good: true, Evidence: "evd_000000000000000001", Verdict: "proven", Signer: "drydock test"}, nil
	}
	env.Serve = func(_ context.Context, o cli.ServeOptions) error {
		o.Ready("http://127.0.0.1:7447", o.State)
		return core.E("serve", core.Unavailable, nil, "address 127.0.0.1:7447 is in use")
	}
	env.Demo = func(context.Context, cli.DemoOptions) (cli.DemoHost, error) {
		return cli.DemoHost{
			URL: os.Getenv("DRYDOCK_URL"), Token: os.Getenv("DRYDOCK_TOKEN"), Source: "/srv/shop", Name: "shop", Task: "the total ignores the discount",
			Flags: "--state /tmp/demo", Note: "The daemon goes on in the background.", Pictures: "pictures",
		}, nil
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], env))
}

// TestGoldenScripts runs testdata/*.txtar against a real server on a real socket.
func TestGoldenScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Deadline:      time.Now().Add(4 * time.Minute),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": code,
		},
		Setup: func(e *testscript.Env) error {
			w := surfacetest.New(e.T().(testing.TB))
			e.Setenv("DRYDOCK_URL", w.Start(e.T().(testing.TB)))
			e.Setenv("DRYDOCK_TOKEN", surfacetest.AliceToken)
			e.Setenv("BOB", surfacetest.BobToken)
			e.Setenv("LANG", "C.UTF-8")
			return nil
		},
	})
}

// code is "code N PROGRAM ARG...": the program must end with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		e, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("ended with %d, want %d", got, want)
	}
}
