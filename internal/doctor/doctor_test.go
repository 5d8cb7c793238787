package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

func options(t *testing.T) Options {
	t.Helper()
	cfg := config.Default()
	cfg.StateDir = filepath.Join(t.TempDir(), "state")
	cfg.Listen = "127.0.0.1:0"
	return Options{Config: cfg, Env: config.OS, Environ: os.Environ()}
}

func TestThisHost(t *testing.T) {
	opts := options(t)
	opts.Config.Runsc = need.Runsc(t)
	opts.Config.Init = need.Bin(t, "drydock-init")
	r := Run(t.Context(), opts)
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	for _, c := range r.Checks {
		if c.Name == "" || c.Found == "" || (c.State != OK && c.Fix == "") {
			t.Errorf("not a useful check: %+v", c)
		}
		switch c.Name {
		case "nftables", "overlay", "runsc", "namespaces", "veth", "cgroups":
			if c.State != OK {
				t.Errorf("%+v", c)
			}
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(opts.Config.StateDir), ".drydock-doctor-*"))
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/drydock-doctor-*")
	if len(left)+len(groups) > 0 {
		t.Errorf("left behind: %v %v", left, groups)
	}
}

// TestABareHost has no programs at all.
func TestABareHost(t *testing.T) {
	t.Setenv("PATH", "")
	opts := options(t)
	opts.Environ = nil
	opts.Env = func(string) (string, bool) { return "", false }
	opts.Config.Runsc = "/does/not/exist"
	opts.Config.Models = []config.Provider{{Name: "a", Kind: "anthropic", Key: "env:MISSING"}}
	r := Run(t.Context(), opts)
	if r.State != Lack {
		t.Errorf("state %s", r.State)
	}
	want := map[string]State{"nftables": Lack, "runsc": Lack, "git": Lack, "mmdebstrap": Warn, "models": Lack}
	for _, c := range r.Checks {
		if s, ok := want[c.Name]; ok && c.State != s {
			t.Errorf("%+v, want %s", c, s)
		}
	}
	var text strings.Builder
	_ = r.Text(&text)
	if !strings.Contains(text.String(), "-> apt-get install nftables") {
		t.Error(text.String())
	}
}

func TestInitOfAnotherBuild(t *testing.T) {
	opts := options(t)
	opts.Config.Init = filepath.Join(t.TempDir(), "drydock-init")
	if err := os.WriteFile(opts.Config.Init, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	asked := ""
	opts.CheckInit = func(_ context.Context, path string) error {
		asked = path
		return core.E("test", core.Conflict, nil, "not built together").WithHint("run make build")
	}
	d := &doctor{ctx: t.Context(), opts: opts}
	if c := d.init(); c.State != Lack || !strings.Contains(c.Found, "not built together") || c.Fix != "run make build" || asked != opts.Config.Init {
		t.Errorf("%+v, asked about %q", c, asked)
	}
}
