package registries

import (
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// host builds a root directory with files and says what programs answer.
func host(t *testing.T, files, programs map[string]string) Options {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text, 0o644)
	}
	for name := range programs {
		write(filepath.Join("/bin", strings.Fields(name)[0]), "", 0o755)
	}
	return Options{
		Root: root, Environ: []string{"PATH=/bin", "HOME=/home/dev"},
		Run: func(_ context.Context, _ []string, name string, args ...string) ([]byte, error) {
			line := name + " " + strings.Join(args, " ")
			for begin, answer := range programs {
				if strings.HasPrefix(line, begin) {
					return []byte(answer), nil
				}
			}
			return nil, fmt.Errorf("%s is not expected", line)
		},
	}
}

func endpoints(s Settings) []string {
	var out []string
	for _, e := range s.Endpoints {
		out = append(out, fmt.Sprintf("%s %s:%d", e.Manager, e.Host, e.Port))
	}
	slices.Sort(out)
	return out
}

func fileText(s Settings, t Target, path string) string {
	for _, f := range s.Files(t) {
		if f.Path == path {
			return string(f.Data)
		}
	}
	return ""
}

var bookworm = Target{Distribution: "debian", Suite: "bookworm"}

func TestNothingConfiguredMeansNothing(t *testing.T) {
	s := Read(t.Context(), host(t, nil, nil))
	if len(s.Endpoints)+len(s.Files(bookworm))+len(s.Dropped)+len(s.Notes) != 0 {
		t.Errorf("got %+v", s)
	}
}

// TestCompanyMirrors reads a host whose managers all use mirrors, with secrets
// in every place where people put them.
func TestCompanyMirrors(t *testing.T) {
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("s3cret")}))
	opts := host(t, map[string]string{
		"/etc/os-release":                        "ID=debian\nVERSION_CODENAME=bookworm\n",
		"/etc/apt/sources.list":                  "deb [arch=amd64 signed-by=/etc/apt/keyrings/a.asc] https://bob:s3cret@apt.corp.example:8443/debian bookworm main contrib # x\ndeb-src http://src.example/ bookworm main\n",
		"/etc/apt/keyrings/a.asc":                "public",
		"/etc/apt/auth.conf.d/corp.conf":         "machine apt.corp.example login bob password s3cret",
		"/etc/apt/sources.list.d/x.sources":      "Types: deb\nURIs: http://two.example/debian\n http://three.example/debian\nSuites: bookworm-updates bookworm\nComponents: main\n\nEnabled: no\nTypes: deb\nURIs: http://off.example/\nSuites: bookworm\n\nTypes: deb\nURIs: https://tools.example/apt\nSuites: stable\nComponents: main\n",
		"/home/dev/.npmrc":                       "registry=https://npm.corp.example/repo/\n@corp:registry=https://bob:s3cret@scoped.corp.example/\n//npm.corp.example/:_authToken=s3cret\n_auth = s3cret\n",
		"/etc/pip.conf":                          "[global]\nindex-url = https://bob:s3cret@pip.corp.example/simple\nextra-index-url =\n    https://extra1.example/simple\n    https://extra2.example/simple\n",
		"/home/dev/.config/uv/uv.toml":           "[[index]]\nname = \"corp\"\nurl = \"https://uv.corp.example/simple\"\n",
		"/home/dev/.cargo/config.toml":           "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = \"sparse+https://cargo.corp.example/index/\"\n[registries.own]\nindex = 'https://own.corp.example/git'\ntoken = \"s3cret\"\n[build]\njobs = 4\n",
		"/home/dev/.m2/settings.xml":             "<settings><servers><server><id>corp</id><password>s3cret</password></server></servers><mirrors><mirror><id>corp</id><mirrorOf>*</mirrorOf><url>https://maven.corp.example/all</url></mirror><mirror><id>block</id><url>http://0.0.0.0/</url></mirror></mirrors></settings>",
		"/etc/ssl/certs/ca-certificates.crt":     cert + key + cert,
		"/usr/local/share/ca-certificates/c.crt": cert,
	}, map[string]string{
		"go env":     `{"GOPROXY":"https://bob:s3cret@go.corp.example,https://go2.example:8081|direct","GOSUMDB":"sum.corp.example+abc https://sum.corp.example/db","GOPRIVATE":"corp.example/*"}`,
		"npm config": `{"registry":"https://npm.corp.example/repo/","@corp:registry":"https://bob:s3cret@scoped.corp.example/","userconfig":"/home/dev/.npmrc","maxsockets":15}`,
	})
	s := Read(t.Context(), opts)
	want := []string{
		"apt apt.corp.example:8443", "apt three.example:80", "apt tools.example:443", "apt two.example:80",
		"cargo cargo.corp.example:443", "cargo own.corp.example:443", "go go.corp.example:443", "go go2.example:8081", "go sum.corp.example:443",
		"maven maven.corp.example:443", "npm npm.corp.example:443", "npm scoped.corp.example:443",
		"pip extra1.example:443", "pip extra2.example:443", "pip pip.corp.example:443", "uv uv.corp.example:443",
	}
	if diff := cmp.Diff(want, endpoints(s)); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	for _, v := range []string{
		"GOPROXY=https://go.corp.example,https://go2.example:8081|direct", "GOPRIVATE=corp.example/*", "PIP_INDEX_URL=https://pip.corp.example/simple",
		"PIP_EXTRA_INDEX_URL=https://extra1.example/simple https://extra2.example/simple", "UV_INDEX=https://uv.corp.example/simple",
		"NPM_CONFIG_GLOBALCONFIG=/etc/drydock/npmrc", "NODE_EXTRA_CA_CERTS=/etc/drydock/ca-certificates.crt",
	} {
		if !slices.Contains(s.Env, v) {
			t.Errorf("%s is missing in %v", v, s.Env)
		}
	}
	for path, want := range map[string]string{
		"/etc/drydock/npmrc":                     "@corp:registry=https://scoped.corp.example/\nregistry=https://npm.corp.example/repo/\n",
		"/.cargo/config.toml":                    "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = \"sparse+https://cargo.corp.example/index/\"\n[registries.own]\nindex = \"https://own.corp.example/git\"\n",
		"/etc/drydock/ca-certificates.crt":       cert + cert,
		"/usr/local/share/ca-certificates/c.crt": cert,
		"/etc/apt/keyrings/a.asc":                "public",
		"/etc/apt/sources.list.d/drydock.sources": "Types: deb\nURIs: https://apt.corp.example:8443/debian\nSuites: bookworm\nComponents: main contrib\nSigned-By: /etc/apt/keyrings/a.asc\n\n" +
			"Types: deb\nURIs: http://two.example/debian http://three.example/debian\nSuites: bookworm-updates bookworm\nComponents: main\n\n",
	} {
		if diff := cmp.Diff(want, fileText(s, bookworm, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if !strings.Contains(fileText(s, Target{"debian", "trixie"}, aptPath), "Suites: trixie-updates trixie\n") {
		t.Error("another suite of the same distribution is not served")
	}
	if fileText(s, Target{"alpine", "v3"}, aptPath) != "" {
		t.Error("another distribution got apt sources")
	}
	whole := fmt.Sprintf("%+v %q", s, s.Files(bookworm))
	for _, secret := range []string{"s3cret", "bob", "PRIVATE KEY"} {
		if strings.Contains(whole, secret) {
			t.Errorf("%q is in the settings", secret)
		}
	}
	for _, name := range []string{"go: the user and password of go.corp.example", "npm: //npm.corp.example/:_authToken", "npm: _auth", "pip: the user", "cargo: registries.own.token", "maven: the credentials of server corp", "apt: credentials in /etc/apt/auth.conf.d/corp.conf", "apt: the user"} {
		if !slices.ContainsFunc(s.Dropped, func(d string) bool { return strings.HasPrefix(d, name) }) {
			t.Errorf("%q is not named in %q", name, s.Dropped)
		}
	}
}

// TestFilesAloneAreEnough reads a host where no manager is installed.
func TestFilesAloneAreEnough(t *testing.T) {
	opts := host(t, map[string]string{
		"/home/dev/.config/go/env": "GOPROXY=https://go.example\nGOSUMDB=off\n",
		"/home/dev/.npmrc":         "registry = https://npm.example/\n",
	}, nil)
	opts.Environ = append(opts.Environ, "PIP_INDEX_URL=https://pip.example/simple", "UV_DEFAULT_INDEX=https://u:p@uv.example/simple")
	s := Read(t.Context(), opts)
	want := []string{"go go.example:443", "npm npm.example:443", "pip pip.example:443", "uv uv.example:443"}
	if diff := cmp.Diff(want, endpoints(s)); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

func TestDefaultIsAskedOfTheTool(t *testing.T) {
	s := Read(t.Context(), host(t, nil, map[string]string{
		"pip help": "  -i, --index-url <url>       Base URL of the Python Package Index (default\n      https://index.example/simple). This should\n  --extra-index-url <url> more",
	}))
	if diff := cmp.Diff([]string{"pip index.example:443"}, endpoints(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBrokenSettingsAreNamedNotFatal(t *testing.T) {
	s := Read(t.Context(), host(t, map[string]string{
		"/home/dev/.m2/settings.xml": "<settings><mirrors>", "/etc/apt/sources.list": "deb\ndeb [x http://y/ z\n\x00\xff\n", "/etc/pip.conf": strings.Repeat("x", maxFile+1),
	}, map[string]string{"go env": "no json", "npm config": "{"}))
	if len(s.Endpoints) != 0 || len(s.Notes) < 4 {
		t.Errorf("endpoints %v, notes %q", s.Endpoints, s.Notes)
	}
}

func TestTheMachineItself(t *testing.T) {
	s := Read(t.Context(), Options{Environ: os.Environ()})
	for _, e := range s.Hosts() {
		t.Logf("%s says %s uses %s:%d", e.Source, e.Manager, e.Host, e.Port)
	}
	for _, note := range slices.Concat(s.Notes, s.Dropped) {
		t.Log(note)
	}
}

func FuzzReaders(f *testing.F) {
	for _, s := range []string{
		"deb [signed-by=/a] http://a.example/ b c", "Types: deb\nURIs: http://a.example/\nSuites: b\n", "[global]\nindex-url = https://a.example\n  https://b.example\n",
		"[source.a]\nregistry = \"sparse+https://a.example/\"", "<settings><mirrors><mirror><url>https://a.example</url></mirror></mirrors></settings>",
		"a=b\n//h/:_authToken=c", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "sum.example+key https://sum.example", "--index-url x (default https://a.example)",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range slices.Concat(parseAptList(data), parseAptSources(data)) {
			if len(s.URIs) == 0 || len(s.Suites) == 0 || (s.SignedBy != "" && s.SignedBy[0] != '/') {
				t.Fatalf("half a source: %+v", s)
			}
		}
		if n := len(parseINI(data)) + len(parseTOML(data)) + len(parseAssignments(data)); n > 3*maxEntry+3 {
			t.Fatalf("%d entries", n)
		}
		_, _ = parseMaven(data)
		defaultIndex(string(data))
		goSumDB(string(data))
		if out, _ := onlyCertificates(data); strings.Contains(string(out), "PRIVATE") {
			t.Fatal("a private key came through")
		}
		if clean, host, port, _ := parseURL(string(data)); host != "" && (port == 0 || strings.Contains(clean[strings.Index(clean, "://")+3:], host+"@")) {
			t.Fatalf("address %q of host %q", clean, host)
		}
	})
}
