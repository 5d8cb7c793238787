package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"drydock/internal/core"
)

// aptHost is what this host's apt knows: where packages come from, whose
// signatures count, and how to get out.
type aptHost struct {
	sources  []source
	codename string   // of this host, "" when it is not Debian
	keyrings []string // files
	acquire  []string // configuration lines
	given    bool     // sources were configured, not found
}

type source struct{ uri, suite, component string }

func (s source) line() string { return "deb " + s.uri + " " + s.suite + " " + s.component }

// aptFingerprint is the content of what says where packages come from.
func (s *Store) aptFingerprint() []string {
	if len(s.opts.DebianSources) > 0 {
		return s.opts.DebianSources
	}
	files := []string{"/etc/apt/sources.list"}
	more, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	var out []string
	for _, f := range append(files, more...) {
		if raw, err := os.ReadFile(f); err == nil && (strings.HasSuffix(f, ".list") || strings.HasSuffix(f, ".sources")) {
			out = append(out, f, string(raw))
		}
	}
	return out
}

// aptDiscover asks apt itself, so that every form of its configuration counts.
func (s *Store) aptDiscover(ctx context.Context) (aptHost, error) {
	var h aptHost
	dump, err := s.output(ctx, "apt-config", "dump", "--no-empty")
	if err != nil {
		return h, core.E("image.apt", core.Unavailable, err, "cannot read apt's configuration").
			WithHint("bootstrapping Debian needs apt on this host; use an OCI image otherwise")
	}
	h.acquire = acquireLines(dump)
	if raw, err := os.ReadFile("/etc/os-release"); err == nil {
		if o := parseOS(string(raw)); o.ID == "debian" {
			h.codename = o.Codename
		}
	}
	if len(s.opts.DebianSources) > 0 {
		h.given = true
		for _, line := range s.opts.DebianSources {
			fields := strings.Fields(line)
			if len(fields) < 3 || fields[0] != "deb" {
				return h, core.E("image.apt", core.Invalid, nil, "debian source %q is not of the form: deb URI {suite} COMPONENT...", line)
			}
			h.sources = append(h.sources, source{fields[1], fields[2], strings.Join(fields[3:], " ")})
		}
	} else {
		if h.sources, err = s.aptSources(ctx, dump); err != nil {
			return h, core.E("image.apt", core.Unavailable, err, "cannot read apt's sources")
		}
	}
	h.keyrings = hostKeyrings()
	return h, nil
}

// aptSources asks apt where packages come from. It reads whole indexes for the
// answer, which takes half a second and more, so the answer is kept for as
// long as nothing changes that it is made of.
func (s *Store) aptSources(ctx context.Context, dump []byte) ([]source, error) {
	s.aptMu.Lock()
	defer s.aptMu.Unlock()
	state := aptState(dump, "/etc/apt", "/var/lib/apt/lists")
	if state != "" && state == s.aptState {
		return slices.Clone(s.aptKnown), nil
	}
	out, err := s.output(ctx, "apt-get", "indextargets", "--format", "$(CREATED_BY)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)")
	if err != nil {
		return nil, err
	}
	// The state from before: if it changed meanwhile, it is asked again.
	s.aptState, s.aptKnown = state, parseTargets(out)
	return slices.Clone(s.aptKnown), nil
}

// aptState tells one state of apt's configuration and lists from another. It
// is "" when they are not where they normally are.
func aptState(dump []byte, dirs ...string) string {
	for _, line := range []string{`Dir "/";`, `Dir::Etc "etc/apt";`, `Dir::State "var/lib/apt";`, `Dir::State::lists "lists/";`} {
		if !bytes.Contains(append([]byte("\n"), dump...), []byte("\n"+line+"\n")) {
			return ""
		}
	}
	parts := []string{string(dump)}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Stat(path) // of what a link points to
			if err != nil {
				info, err = d.Info()
			}
			if err == nil {
				parts = append(parts, fmt.Sprintf("%s %s %d %d", path, info.Mode(), info.Size(), info.ModTime().UnixNano()))
			}
			return err
		})
		if err != nil {
			return ""
		}
	}
	return hash(parts...)
}

// parseTargets reads the package indexes of `apt-get indextargets`.
func parseTargets(out []byte) []source {
	var list []source
	for line := range bytes.Lines(out) {
		f := strings.Split(strings.TrimSpace(string(line)), "\t")
		if len(f) != 4 || f[0] != "Packages" || f[1] == "" || f[2] == "" || strings.HasSuffix(f[2], "/") {
			continue
		}
		if s := (source{f[1], f[2], f[3]}); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// acquireLines keeps what says how packages are fetched: proxies, certificates,
// retries, passwords. They are used while bootstrapping and not left in images.
func acquireLines(dump []byte) []string {
	var out []string
	for line := range bytes.Lines(dump) {
		l := strings.TrimSpace(string(line))
		key, _, _ := strings.Cut(l, " ")
		lower := strings.ToLower(strings.TrimSuffix(key, ";"))
		for _, prefix := range []string{"acquire::http", "acquire::https", "acquire::socks", "acquire::ftp", "acquire::retries", "acquire::forceipv", "acquire::proxy"} {
			if strings.HasPrefix(lower, prefix) {
				out = append(out, l)
				break
			}
		}
	}
	// Passwords of sources stay where they are.
	return append(out, `Dir::Etc::netrc "/etc/apt/auth.conf";`, `Dir::Etc::netrcparts "/etc/apt/auth.conf.d";`)
}

// hostKeyrings lists every key file that apt on this host trusts: its trusted
// parts, those that sources name, and Debian's own.
func hostKeyrings() []string {
	var out []string
	add := func(paths ...string) {
		for _, p := range paths {
			info, err := os.Stat(p)
			if err == nil && info.Mode().IsRegular() && info.Size() > 0 && !slices.Contains(out, p) &&
				(strings.HasSuffix(p, ".gpg") || strings.HasSuffix(p, ".asc")) {
				out = append(out, p)
			}
		}
	}
	glob := func(pattern string) {
		found, _ := filepath.Glob(pattern)
		add(found...)
	}
	etc := "/etc/apt"
	add(etc + "/trusted.gpg")
	glob(etc + "/trusted.gpg.d/*")
	glob("/usr/share/keyrings/debian-archive-*keyring.gpg")
	lists, _ := filepath.Glob(etc + "/sources.list.d/*")
	for _, file := range append(lists, etc+"/sources.list") {
		raw, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(file, ".list") && !strings.HasSuffix(file, ".sources") {
			continue
		}
		add(signedBy(string(raw))...)
	}
	return out
}

// signedBy finds the key files that a sources file names.
func signedBy(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		lower := strings.ToLower(line)
		i := strings.Index(lower, "signed-by")
		if i < 0 || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		rest := strings.TrimLeft(line[i+len("signed-by"):], " \t:=")
		if end := strings.IndexByte(rest, ']'); end >= 0 {
			rest = rest[:end]
		}
		for _, p := range strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' || r == '\r' }) {
			if filepath.IsAbs(p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// sourcesFor rewrites the host's sources to a suite, keeping those that have
// it.
func (s *Store) sourcesFor(ctx context.Context, h aptHost, suite string) ([]string, error) {
	if h.given {
		var lines []string
		for _, src := range h.sources {
			src.suite = strings.ReplaceAll(src.suite, "{suite}", suite)
			lines = append(lines, src.line())
		}
		return lines, nil
	}
	if h.codename == "" {
		return nil, core.E("image.debian", core.Unavailable, nil, "this host is not Debian, so its package sources do not have suite %q", suite).
			WithHint("set images.debian_sources in the configuration, or use an OCI image as base")
	}
	var lines []string
	for _, src := range h.sources {
		rest, ok := strings.CutPrefix(src.suite, h.codename)
		if !ok || rest != "" && rest[0] != '-' && rest[0] != '/' {
			continue // a source that is not arranged by Debian's suites
		}
		if suite != h.codename {
			src.suite = suite + rest
			if !s.suiteExists(ctx, h, src) {
				continue
			}
		}
		lines = append(lines, src.line())
	}
	if len(lines) == 0 {
		return nil, core.E("image.debian", core.NotFound, nil, "suite %q is not at the package sources of this host", suite).
			WithHint("check the name (bookworm, trixie, ...), or set images.debian_sources in the configuration")
	}
	return lines, nil
}

// suiteExists asks a source for the suite's signed list, by apt's own means.
func (s *Store) suiteExists(ctx context.Context, h aptHost, src source) bool {
	dir, done, err := s.stage()
	if err != nil {
		return false
	}
	defer done()
	_ = os.Chmod(dir, 0o755)
	url := strings.TrimSuffix(src.uri, "/") + "/dists/" + src.suite + "/InRelease"
	_, err = s.output(ctx, "/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root", "download-file", url, filepath.Join(dir, "InRelease"))
	return err == nil
}

// environ is the environment of bootstrap programs: a fixed one, plus what
// says how to get out.
func (s *Store) environ(extra ...string) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true"}
	for _, kv := range s.opts.Environ {
		name, _, _ := strings.Cut(kv, "=")
		switch strings.ToLower(name) {
		case "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
			env = append(env, kv)
		}
	}
	return append(env, extra...)
}

func (s *Store) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = s.environ()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, lastLines(stderr.String(), 5))
	}
	return out, nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

func (s *Store) env(name string) string {
	for _, kv := range slices.Backward(s.opts.Environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// extraCertificates are those of the host's bundle that do not come with
// Debian: a company's own authorities. Keyed by a name for their file.
func (s *Store) extraCertificates() (map[string][]byte, error) {
	bundle := s.opts.CABundle
	if bundle == "" {
		bundle = s.env("SSL_CERT_FILE")
	}
	if bundle == "" {
		bundle = "/etc/ssl/certs/ca-certificates.crt"
	}
	raw, err := os.ReadFile(bundle)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, core.E("image.certificates", core.Invalid, err, "cannot read the certificate bundle %s", bundle)
	}
	public := map[[32]byte]bool{}
	files, _ := filepath.Glob("/usr/share/ca-certificates/mozilla/*.crt")
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil {
			if block, _ := pem.Decode(raw); block != nil {
				public[sha256.Sum256(block.Bytes)] = true
			}
		}
	}
	if len(files) == 0 {
		return nil, nil // no way to tell them apart
	}
	extra := map[string][]byte{}
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		sum := sha256.Sum256(block.Bytes)
		if block.Type == "CERTIFICATE" && !public[sum] {
			extra["host-"+hex.EncodeToString(sum[:6])+".crt"] = pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
		}
	}
	return extra, nil
}
