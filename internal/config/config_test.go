package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
)

func vars(pairs ...string) Env {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func load(t *testing.T, text string, env Env) (Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "drydock.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file, env)
}

func TestFileGoesOverDefaults(t *testing.T) {
	cfg, err := load(t, `
listen: 0.0.0.0:80
limits: {memory: 1.5GiB, cpu: 0.5, lifetime: 90m}
network:
  ranges: [10.20.0.0/16]
  allow: [example.com, registries]
models:
  - {name: corp, kind: openai, base_url: "http://models.example:8000/v1", key: "file:/run/key", models: [big, small]}
forge: {require_approval: false}
`, vars())
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listen = "0.0.0.0:80"
	want.Limits.Memory, want.Limits.CPU, want.Limits.Lifetime = 3<<29, 0.5, Duration(90*time.Minute)
	want.Network.Allow = []string{"example.com", "registries"}
	want.Models = []Provider{{Name: "corp", Kind: "openai", BaseURL: "http://models.example:8000/v1", Key: "file:/run/key", Models: []string{"big", "small"}}}
	want.DefaultModel = "corp/big"
	want.Forge.RequireApproval = false
	if got := cfg.Network.Prefixes(); len(got) != 1 || got[0].String() != "10.20.0.0/16" {
		t.Errorf("ranges %v", got)
	}
	cfg.Network.Ranges = nil
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryFaultIsNamedWithItsPlace(t *testing.T) {
	_, err := load(t, `
listn: 127.0.0.1:1
state_dir: here
limits:
  memory: 4
  cpu: many
  pids: 1
network: {ranges: [10.0.0.0/24, x]}
models:
  - {name: A b, kind: magic, key: sk-abcdef123}
  - {kind: scripted}
log: {level: loud}
default_model: nobody/x
`, vars())
	if !core.Is(err, core.Invalid) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		`no key "listn"`, "state_dir is an absolute path", "not a size", "cpu is a number", "pids is at least 32", "too small", `"x" is not an IPv4 range`,
		"small letters", "kind is one of anthropic, openai, scripted", "a secret is not written here", `needs the key "name"`, `needs the key "script"`,
		"level is one of debug", "default_model is provider/model", "^", "drydock.yaml:2:1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestKeysInTheEnvironmentMakeProviders(t *testing.T) {
	cfg, err := Load("", vars("ANTHROPIC_API_KEY", "a", "ANTHROPIC_MODEL", "m1,m2", "OPENAI_BASE_URL", "http://127.0.0.1:1/v1"))
	want := []Provider{
		{Name: "anthropic", Kind: "anthropic", Key: "env:ANTHROPIC_API_KEY", Models: []string{"m1", "m2"}},
		{Name: "openai", Kind: "openai", BaseURL: "http://127.0.0.1:1/v1"},
	}
	if diff := cmp.Diff(want, cfg.Models); diff != "" || err != nil || cfg.DefaultModel != "anthropic/m1" {
		t.Errorf("%v, default %q (-want +got):\n%s", err, cfg.DefaultModel, diff)
	}
}

func TestSecretsAreReferences(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[Secret]string{"env:K": "v", Secret("file:" + file): "s3cret", "": ""} {
		if got, err := ref.Read(vars("K", "v")); got != want || err != nil {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	for _, ref := range []Secret{"env:MISSING", "file:/does/not/exist", "file:relative", "plain", "env:"} {
		if got, err := ref.Read(vars()); err == nil {
			t.Errorf("%s: %q", ref, got)
		}
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("models: [{name: a, kind: anthropic, key: \"env:NOT_SET\"}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(path, vars()); err == nil || !strings.Contains(err.Error(), "key of a") {
		t.Errorf("check: %v", err)
	}
}

// TestShowCanBeReadAgain holds show, decode and the defaults together.
func TestShowCanBeReadAgain(t *testing.T) {
	text, err := Default().Show()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := load(t, string(text), vars())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	again, err := cfg.Show()
	if err != nil || string(again) != string(text) {
		t.Errorf("%v (-first +again):\n%s", err, cmp.Diff(string(text), string(again)))
	}
}

func TestSchemaIsJSON(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

func TestUpstreamProxy(t *testing.T) {
	cfg := Default()
	h, s, no, err := cfg.Upstream(vars("HTTP_PROXY", "http://a:1", "https_proxy", "http://b:2", "no_proxy", "x"))
	if h != "http://a:1" || s != "http://b:2" || no != "x" || err != nil {
		t.Errorf("%q %q %q %v", h, s, no, err)
	}
}

func FuzzDecode(f *testing.F) {
	text, _ := Default().Show()
	f.Add(text)
	f.Add([]byte("limits: {memory: 1e400GiB}\nmodels: [{}, 3, null]\n"))
	f.Add([]byte("network: {ranges: [0.0.0.0/0]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := Default()
		if decode("fuzz.yaml", data, &cfg) == nil {
			if _, err := cfg.Show(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestPreviewsAreApartFromThePage(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"same address":      {"{preview_listen: \"127.0.0.1:7300\"}", "share the address"},
		"all addresses":     {"{preview_listen: \"0.0.0.0:7300\"}", "share the address"},
		"other loopback":    {"{preview_listen: \"localhost:7300\"}", "share the address"},
		"names of the page": {"{public_url: \"https://drydock.example.com\", preview_url: \"https://*.example.com\"}", "inside the names of previews"},
		"the page itself":   {"{public_url: \"https://example.com\", preview_url: \"https://*.example.com\"}", "inside the names of previews"},
		"no star":           {"{preview_url: \"https://preview.example\"}", "is of the form"},
		"no port":           {"{preview_listen: localhost}", "an address with a port"},
		"no mode":           {"{preview_mode: paths}", "is one of hosts, listeners, off"},
		"apart":             {"{preview_listen: \"127.0.0.1:7301\", public_url: \"https://drydock.example.com\", preview_url: \"https://*.apps.example.net\"}", ""},
	} {
		_, err := load(t, "listen: 127.0.0.1:7300\nweb: "+c.text+"\n", vars())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for mode, want := range map[string]string{"hosts": "of one site, example.com", "listeners": "do not know ports", "off": ""} {
		cfg := Config{Listen: "127.0.0.1:7300", Web: Web{PublicURL: "https://drydock.example.com", PreviewURL: "https://*.preview.example.com", PreviewMode: mode}}
		if shared, site := cfg.Apart(); shared != "" || !strings.Contains(site, want) || want == "" && site != "" {
			t.Errorf("%s: %q, %q", mode, shared, site)
		}
	}
}
