package recipe

import (
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"drydock/internal/core"
	"drydock/internal/strictyaml"
)

const full = `
base: debian:bookworm
packages: [postgresql, redis-server, nodejs, npm, "libc6:amd64", git=1:2.39.5-0]
env: {NODE_ENV: test, PORT: 3000, DEBUG: false}
user: app
workspace: /src
setup: |
  npm ci
services:
  web:   {run: npm run dev, ready: "http://127.0.0.1:3000/healthz", port: 3000, after: [db, cache], dir: web, env: {A: b}, timeout: 2m}
  db:    {run: pg_ctlcluster 15 main start --foreground, ready: pg_isready, user: postgres, restart: on-failure}
  cache: {run: redis-server, ready: "tcp:6379", restart: no}
checks:
  lint: {run: npx eslint ., fix: npx eslint . --fix, changed: "npx eslint {files}", files: ["**/*.js"], required: false}
  test: {run: npm test -- --reporter=junit, report: "junit:reports/**/*.xml", timeout: 90s, dir: web, env: {CI: "1"}}
pages:
  home: {url: "http://127.0.0.1:3000/", viewport: 1024x768, wait: 500ms, after: [web]}
  cart: {url: "http://127.0.0.1:3000/cart", wait: "#total"}
warm: {run: npm test, timeout: 5m}
on_sync:
  - npm run codegen
  - {run: npm ci, when: package-lock.json, timeout: 10m}
  - {run: npm run migrate, when: ["db/**", "*.sql"], after: [db], dir: web}
max_age: 3d
ports: [9229]
refresh: 2d
limits: {cpu: 1.5, memory: 4GiB, disk: 20 GB, pids: 500, lifetime: 8h}
network: {allow: [registries, api.example.com, "*.example.org:8443"]}
`

func TestParseEverything(t *testing.T) {
	got, err := Parse("drydock.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := Recipe{
		Base:     "debian:bookworm",
		Packages: []string{"postgresql", "redis-server", "nodejs", "npm", "libc6:amd64", "git=1:2.39.5-0"},
		Env:      map[string]string{"NODE_ENV": "test", "PORT": "3000", "DEBUG": "false"},
		User:     "app", Workspace: "/src",
		Setup: []Step{{Name: "setup", Run: "npm ci\n"}},
		Services: []Service{
			{Name: "web", Run: "npm run dev", Ready: "http://127.0.0.1:3000/healthz", Port: 3000, After: []string{"db", "cache"}, Restart: "always", Dir: "web", Env: map[string]string{"A": "b"}, Timeout: 2 * time.Minute},
			{Name: "db", Run: "pg_ctlcluster 15 main start --foreground", Ready: "pg_isready", User: "postgres", Restart: "on-failure", Timeout: DefaultReadyTimeout},
			{Name: "cache", Run: "redis-server", Ready: "tcp:6379", Restart: "no", Timeout: DefaultReadyTimeout},
		},
		Checks: []Check{
			{Name: "lint", Run: "npx eslint .", Fix: "npx eslint . --fix", Changed: "npx eslint {files}", Files: []string{"**/*.js"}, Report: Report{Kind: "exit"}, Timeout: DefaultCheckTimeout},
			{Name: "test", Run: "npm test -- --reporter=junit", Report: Report{"junit", "reports/**/*.xml"}, Dir: "web", Env: map[string]string{"CI": "1"}, Timeout: 90 * time.Second, Required: true},
		},
		Pages: []Page{
			{Name: "home", URL: "http://127.0.0.1:3000/", Width: 1024, Height: 768, Wait: 500 * time.Millisecond, After: []string{"web"}},
			{Name: "cart", URL: "http://127.0.0.1:3000/cart", Width: 1280, Height: 800, Selector: "#total"},
		},
		Warm:  &Step{Name: "warm", Run: "npm test", Timeout: 5 * time.Minute},
		Ports: []int{9229}, Refresh: 48 * time.Hour, MaxAge: 72 * time.Hour,
		OnSync: []Sync{
			{Step: Step{Name: "on_sync 1", Run: "npm run codegen"}},
			{Step: Step{Name: "on_sync 2", Run: "npm ci", Timeout: 10 * time.Minute}, When: []string{"package-lock.json"}},
			{Step: Step{Name: "on_sync 3", Run: "npm run migrate", Dir: "web"}, When: []string{"db/**", "*.sql"}, After: []string{"db"}},
		},
		Limits:       core.Limits{CPU: 1.5, Memory: 4 << 30, Disk: 20e9, Pids: 500, Lifetime: 8 * time.Hour},
		Network:      core.NetworkPolicy{Allow: []string{"registries", "api.example.com", "*.example.org:8443"}},
		BuildNetwork: core.NetworkPolicy{Allow: []string{"registries", "api.example.com", "*.example.org:8443"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var order []string
	for _, s := range got.GuestServices() {
		order = append(order, s.Name+" "+s.User+" "+s.Dir)
	}
	if diff := cmp.Diff([]string{"db postgres /src", "cache app /src", "web app /src/web"}, order); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	got, err := Parse("drydock.yaml", []byte("base: debian:bookworm\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Recipe{Base: "debian:bookworm", Workspace: "/workspace", Refresh: 30 * time.Minute, BuildNetwork: core.NetworkPolicy{Allow: []string{"registries"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	closed, err := Parse("drydock.yaml", []byte("base: debian:bookworm\nnetwork: {allow: [], build: []}\nrefresh: never\nmax_age: never\nsetup: [a, b]\n"))
	if err != nil || len(closed.Network.Allow)+len(closed.BuildNetwork.Allow) != 0 || closed.Refresh != 0 || closed.MaxAge != Never || len(closed.Setup) != 2 {
		t.Errorf("%+v %v", closed, err)
	}
}

func TestAllFaultsAreNamed(t *testing.T) {
	src := `base: debian:Bookworm
pakages: [git]
packages: [-git, "a b", git, git]
on_sync: [{when: []}, {run: x, when: "../a", after: [dbb], often: yes}, 5]
workspace: src
services:
  Web: {run: x}
  db: {ready: "tcp:99999", after: [dbb], restart: sometimes}
  a: {run: x, after: [b]}
  b: {run: x, after: [c]}
  c: {run: x, after: [a]}
checks:
  lint: {run: 5, changed: eslint, dir: ../x, required: maybe}
  test: {run: t, report: "junit", timeout: 5}
  tap: {run: t, report: "tap:/etc/*", files: ["a[", "a**"]}
pages:
  home: {url: "file:///etc/passwd", viewport: big}
limits: {memory: 4, disk: 4G, cpu: lots, pids: 1, lifetime: 1s}
network: {allow: ["*", "10.0.0.1", "http://x", "a:99999", "*.com"]}
env: {1A: x, B: [1], DRYDOCK_X: y}
`
	_, err := Parse("drydock.yaml", []byte(src))
	if !core.Is(err, core.Invalid) {
		t.Fatalf("kind: %v", err)
	}
	text := err.Error()
	for _, want := range []string{
		`drydock.yaml:1:7: base "debian:Bookworm" does not name a suite of Debian`,
		`drydock.yaml:2:1: unknown key "pakages" in drydock.yaml (did you mean "packages"?)`,
		`drydock.yaml:3:12: "-git" is not the name of a package`,
		`drydock.yaml:3:18: "a b" is not`,
		`drydock.yaml:3:30: package "git" is listed twice`,
		`drydock.yaml:4:11: on_sync has no run`, `drydock.yaml:4:18: when names no files`, `drydock.yaml:4:38: pattern "../a" is not`,
		`drydock.yaml:4:54: "dbb" is not a service`, `unknown key "often" in on_sync`, `drydock.yaml:4:73: a command of on_sync must be text`,
		`drydock.yaml:5:12: workspace "src" is not an absolute directory`,
		`"Web" is not a name for a service`,
		`drydock.yaml:8:7: service db has no run`,
		`ready "tcp:99999" does not name a port`,
		`drydock.yaml:8:36: "dbb" is not a service`,
		`restart "sometimes" is not known`,
		`services wait for each other: a -> b -> c -> a`,
		`drydock.yaml:13:15: run must be text, not a number`,
		`{files} is missing`, `dir "../x" is not`, `required must be true or false`,
		`report "junit" must name files`, `timeout must be text`,
		`pattern "/etc/*" is not`, `pattern "a[" is malformed`, `pattern "a**" is malformed`,
		`"file:///etc/passwd" is not a http or https URL`, `viewport "big"`,
		`memory 4 has no unit`, `"4G" is not a size`, `cpu is a number`, `pids is a number`, `lifetime must be between`,
		`"*" is not a host name`, `"10.0.0.1" is an address`, `"http://x" is not a host`, `port that is not between`, `"*.com" would allow too much`,
		`"1A" is not the name of a variable`, `variable B must be text`, `DRYDOCK_ are Drydock's own`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not named: %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if !strings.Contains(text, "    1 | base: debian:Bookworm\n      |       ^") {
		t.Errorf("no caret:\n%s", text)
	}
}

func TestWrongShapes(t *testing.T) {
	for _, src := range []string{
		"", "[]", "text", "base:", "base: [a]", "base: debian:x\nservices: [a]", "base: debian:x\nservices: {a: run}", "base: debian:x\nchecks: {a: [b]}",
		"base: debian:x\nlimits: 4", "base: debian:x\nnetwork: [a]", "base: debian:x\nnetwork: {allow: a}", "base: debian:x\nwarm: npm test", "base: debian:x\nports: [a]",
		"base: oci-layout:rel", "base: -x", "base: a//b", "base: debian:x\nsetup: {a: b}", "base: debian:x\nworkspace: /etc", "base: debian:x\nrefresh: 1s",
		"base: debian:x\nsetup: \"a\\0b\"",
	} {
		if r, err := Parse("x", []byte(src)); !core.Is(err, core.Invalid) {
			t.Errorf("%q: %+v %v", src, r, err)
		}
	}
	for _, base := range []string{"registry.example.com:5000/team/app:v1", "node:20", "a/b@sha256:" + strings.Repeat("0", 64), "oci-layout:/srv/image:tag", "debian:trixie"} {
		if _, err := Parse("x", []byte("base: \""+base+"\"\n")); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestDigests(t *testing.T) {
	parse := func(s string) Recipe {
		r, err := Parse("x", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := parse("base: debian:bookworm\nenv: {B: x, A: y}\n")
	same := parse("# comment\nenv:\n  A: y\n  B: \"x\"\nbase: debian:bookworm\n")
	check := parse("base: debian:bookworm\nenv: {B: x, A: y}\nchecks: {t: {run: x}}\n")
	other := parse("base: debian:bookworm\nenv: {B: x, A: z}\n")
	if a.Digest() != same.Digest() || a.Digest() == check.Digest() || a.BuildDigest() != check.BuildDigest() || a.BuildDigest() == other.BuildDigest() {
		t.Error("digests")
	}
	if !strings.HasPrefix(a.Digest(), "sha256:") || len(a.Digest()) != 71 {
		t.Error(a.Digest())
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"reports/*.xml", "reports/a.xml", true},
		{"reports/*.xml", "reports/b/a.xml", false},
		{"**/*.xml", "a.xml", true},
		{"**/*.xml", "x/y/a.xml", true},
		{"a/**", "a/b/c", true},
		{"a/**/c", "a/c", true},
		{"a/**/c", "a/b/d", false},
		{"*", "", true},
		{"?.js", "a.js", true},
	} {
		if got := Match(c.glob, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.glob, c.name, got)
		}
	}
	start := time.Now()
	Match(strings.Repeat("**/", 200)+"x", strings.Repeat("a/", 400)+"y")
	if time.Since(start) > time.Second {
		t.Error("patterns with many ** are slow")
	}
}

func files(m map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if s, ok := m[path]; ok {
			return []byte(s), nil
		}
		return nil, fs.ErrNotExist
	}
}

func TestDetect(t *testing.T) {
	ctx := t.Context()
	yamlText, jsonText := "base: debian:bookworm\n", `{"image": "debian:trixie"}`
	for _, c := range []struct {
		files map[string]string
		file  string
		base  string
	}{
		{map[string]string{"drydock.yaml": yamlText, ".devcontainer/devcontainer.json": jsonText}, "drydock.yaml", "debian:bookworm"},
		{map[string]string{".devcontainer/devcontainer.json": jsonText}, ".devcontainer/devcontainer.json", "debian:trixie"},
		{map[string]string{"devcontainer.json": jsonText}, "devcontainer.json", "debian:trixie"},
	} {
		r, src, err := Detect(ctx, files(c.files))
		if err != nil || src.File != c.file || r.Base != c.base || src.Devcontainer != (c.file != "drydock.yaml") {
			t.Errorf("%v: %+v %+v %v", c.files, src, r, err)
		}
	}
	_, _, err := Detect(ctx, files(nil))
	if !core.Is(err, core.NotFound) || !strings.Contains(core.HintOf(err), "base: debian:bookworm") {
		t.Errorf("nothing: %v %q", err, core.HintOf(err))
	}
	if _, err := Parse("example", []byte(example)); err != nil {
		t.Errorf("the example in the hint is wrong: %v", err)
	}
	broken := func(string) ([]byte, error) { return nil, core.E("x", core.Unavailable, nil, "away") }
	if _, _, err := Detect(ctx, broken); !core.Is(err, core.Unavailable) {
		t.Errorf("unreadable: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := Detect(canceled, files(nil)); !core.Is(err, core.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestDevcontainer(t *testing.T) {
	r, err := ParseDevcontainer("devcontainer.json", []byte(`// a comment
{
  "name": "x", /* and
  another */
  "image": "registry.example.com/dev:1",
  "onCreateCommand": "echo one",
  "postCreateCommand": {"b": "echo three", "a": ["npm", "ci"]},
  "updateContentCommand": ["echo", "two"],
  "forwardPorts": [3000, "8080", "localhost:9000", "db:5432", 3000,],
  "containerEnv": {"A": "1", "HOME_X": "${localEnv:HOME}", "W": "${containerWorkspaceFolder}/x", "F": "${localEnv:Q:fall}"},
  "remoteEnv": {"B": "${containerEnv:A}2", "P": "${containerEnv:PATH}:/x"},
  "remoteUser": "vscode",
  "workspaceFolder": "/code",
  "postStartCommand": "x",
  "mounts": ["a"],
  "customizations": {"vscode": {"extensions": ["a.b"]}},
}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Recipe{
		Base: "registry.example.com/dev:1", User: "vscode", Workspace: "/code", Refresh: DefaultRefresh,
		Env: map[string]string{"A": "1", "B": "12", "W": "/code/x", "F": "fall"},
		Setup: []Step{
			{Name: "onCreateCommand", Run: "echo one"},
			{Name: "updateContentCommand", Argv: []string{"echo", "two"}},
			{Name: "postCreateCommand b", Run: "echo three"},
			{Name: "postCreateCommand a", Argv: []string{"npm", "ci"}},
		},
		Ports:        []int{3000, 8080, 9000},
		Network:      core.NetworkPolicy{Allow: []string{"registries"}},
		BuildNetwork: core.NetworkPolicy{Allow: []string{"registries"}},
	}
	warnings := strings.Join(r.Warnings, "\n")
	for _, w := range []string{"db:5432", "postStartCommand", `"mounts"`, "HOME_X", "variable P"} {
		if !strings.Contains(warnings, w) {
			t.Errorf("no warning of %s in %s", w, warnings)
		}
	}
	if len(r.Warnings) != 5 {
		t.Errorf("warnings: %s", warnings)
	}
	r.Warnings = nil
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestDevcontainerFaults(t *testing.T) {
	for src, want := range map[string]string{
		`{"build": {"dockerfile": "Dockerfile"}}`:                             `2:0 Dockerfile "Dockerfile" in build is refused`,
		`{"dockerFile": "D"}`:                                                 `Dockerfile "D" in dockerFile is refused`,
		`{"dockerComposeFile": "c.yml"}`:                                      "compose files are not read",
		`{"image": "x", "features": {"r.example.com/a/node:1": {}, "b": {}}}`: `feature "r.example.com/a/node:1" is refused`,
		`{}`:                                     "the key image is missing",
		`[]`:                                     "must hold an object",
		`{"image": "x" "a": 1}`:                  "a comma or } must stand here",
		`{"image": "x", "image": "y"}`:           "is there twice",
		`{"image": "x"} y`:                       "after the end",
		`{"image": "x`:                           "is not closed",
		`{"image": "x", /* }`:                    "a comment is not closed",
		`{"image": x}`:                           "not a JSON value",
		`{"image": 01e}`:                         "a number is malformed",
		`{"image": "x", "forwardPorts": [0]}`:    "a port is a number",
		`{"image": "x", "postCreateCommand": 5}`: "must be text, a list or an object",
		strings.Repeat("[", 1000):                "nests too deeply",
		`{"image": "x", "workspaceFolder": "/etc"}`:              "belongs to the system",
		`{"image": "x", "containerEnv": {"A B": "x"}}`:           "not the name of a variable",
		"{\"image\": \"x\\q\"}":                                  "unknown escape",
		"{\n\"image\": \"x\",\n\"remoteUser\": \"Root Admin\"}":  "devcontainer.json:3:15",
		`{"image": "x", "postCreateCommand": {"a": {"b": "c"}}}`: "a command must be text or a list",
		`{"image": "x", "features": {"a": {}, "second": {}}}`:    `feature "second" is refused`,
	} {
		want = strings.TrimPrefix(want, "2:0 ")
		_, err := ParseDevcontainer("devcontainer.json", []byte(src))
		if !core.Is(err, core.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", src, err)
		}
		if strings.Contains(want, "refused") && core.HintOf(err) == "" {
			t.Errorf("%s: no hint", src)
		}
	}
}

func TestJSONStrings(t *testing.T) {
	for in, want := range map[string]string{`a\n\u00e9\/`: "a\né/", `\ud83d\ude00`: "😀", `\ud83dx`: "\ufffdx"} {
		if got, ok := unquote(in); !ok || got != want {
			t.Errorf("%s: %q %v", in, got, ok)
		}
	}
}

func TestSchemaFitsTheParser(t *testing.T) {
	s := Schema()
	keys := func(s *jsonschema.Schema) []string { return slices.Sorted(maps.Keys(s.Properties)) }
	sorted := func(in []string) []string { return slices.Sorted(slices.Values(in)) }
	for name, pair := range map[string][2][]string{
		"top":      {keys(s), sorted(topKeys)},
		"services": {keys(s.Properties["services"].AdditionalProperties), sorted(serviceKeys)},
		"checks":   {keys(s.Properties["checks"].AdditionalProperties), sorted(checkKeys)},
		"pages":    {keys(s.Properties["pages"].AdditionalProperties), sorted(pageKeys)},
		"warm":     {keys(s.Properties["warm"]), sorted(warmKeys)},
		"on_sync":  {keys(s.Properties["on_sync"].Items), sorted(syncKeys)},
		"limits":   {keys(s.Properties["limits"]), sorted(limitKeys)},
		"network":  {keys(s.Properties["network"]), sorted(networkKeys)},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		var v any
		if err := strictyaml.Decode("x", []byte(text), &v); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(v)
	}
	for name, text := range map[string]string{"full": full, "example": example} {
		if err := valid(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"{}", "base: debian:x\npakages: []", "base: debian:x\nlimits: {memory: 4}", "base: debian:x\nservices: {a: {ready: x}}"} {
		if valid(text) == nil {
			t.Errorf("schema accepts %q", text)
		}
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

var update = flag.Bool("update", false, "write golden files")

// The schema that editors are pointed at is the one the command prints.
func TestGoldenSchema(t *testing.T) {
	raw, err := json.MarshalIndent(Schema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	raw = append(raw, '\n')
	const path = "../../../../docs/formats/drydock.schema.json"
	if *update {
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(raw)); diff != "" {
		t.Errorf("%s is old, run `make generate`: %s", path, diff)
	}
}

// Every key is documented, and every YAML example of the document parses.
func TestDocumentation(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/formats/drydock-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	for _, keys := range [][]string{topKeys, serviceKeys, checkKeys, pageKeys, warmKeys, syncKeys, limitKeys, networkKeys} {
		for _, k := range keys {
			if !strings.Contains(doc, "`"+k+"`") {
				t.Errorf("key %s is not documented", k)
			}
		}
	}
	for i, part := range strings.Split(doc, "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		if _, err := Parse("example", []byte(text)); err != nil {
			t.Errorf("example %d: %v", i+1, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(example))
	f.Add([]byte("base: debian:x\nservices: {a: {run: x, after: [a]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 20_000 {
			return
		}
		r, err := Parse("x", data)
		if err != nil {
			if !core.Is(err, core.Invalid) {
				t.Errorf("kind: %v", err)
			}
			return
		}
		if r.Base == "" || !strings.HasPrefix(r.Workspace, "/") || len(r.StartOrder()) != len(r.Services) {
			t.Errorf("accepted %+v", r)
		}
		_ = r.Digest()
	})
}

func FuzzDevcontainer(f *testing.F) {
	f.Add([]byte(`{"image": "x", "postCreateCommand": {"a": ["b"]}, "forwardPorts": [1,], "containerEnv": {"A": "${localEnv:X:y}"}}`))
	f.Add([]byte("// c\n{ /* */ \"image\": \"\\u00e9\" }"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseDevcontainer("x", data)
		if err != nil {
			if !core.Is(err, core.Invalid) {
				t.Errorf("kind: %v", err)
			}
			return
		}
		if r.Base == "" || !strings.HasPrefix(r.Workspace, "/") {
			t.Errorf("accepted %+v", r)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("a/**/b", "a/x/b")
	f.Fuzz(func(_ *testing.T, glob, name string) {
		if len(glob)+len(name) < 4096 && checkGlob(glob) == nil {
			_ = Match(glob, name)
		}
	})
}
