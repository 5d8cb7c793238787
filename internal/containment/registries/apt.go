package registries

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// AptSource is one archive that the host's apt uses.
type AptSource struct {
	URIs       []string
	Suites     []string
	Components []string
	SignedBy   string // path of a keyring, or ""
	File       string
}

// Target is the system inside a sandbox.
type Target struct {
	Distribution string // ID of os-release, e.g. "debian"
	Suite        string // e.g. "bookworm"
}

type osRelease struct{ id, codename string }

func (r *reader) readApt() {
	if data, ok := r.file("/etc/os-release", maxFile); ok {
		v := parseAssignments(data)
		r.release = osRelease{v["ID"], v["VERSION_CODENAME"]}
	}
	files := []string{"/etc/apt/sources.list"}
	for _, pattern := range []string{"*.list", "*.sources"} {
		found, _ := filepath.Glob(filepath.Join(r.opts.Root, "/etc/apt/sources.list.d", pattern))
		for _, f := range found {
			files = append(files, path.Join("/etc/apt/sources.list.d", filepath.Base(f)))
		}
	}
	for _, file := range files[:min(len(files), maxEntry)] {
		data, ok := r.file(file, maxFile)
		if !ok {
			continue
		}
		parse := parseAptList
		if strings.HasSuffix(file, ".sources") {
			parse = parseAptSources
		}
		for _, s := range parse(data) {
			s.File = file
			s.URIs = slices.DeleteFunc(s.URIs, func(u string) bool { return r.endpoint("apt", file, u) == "" })
			for i, u := range s.URIs {
				s.URIs[i], _, _, _ = parseURL(u)
			}
			if len(s.URIs) == 0 || len(r.Apt) >= maxEntry {
				continue
			}
			r.Apt = append(r.Apt, s)
			if key, ok := r.file(s.SignedBy, maxFile); ok && looksPublic(key) {
				r.keyrings[s.SignedBy] = key
			}
		}
	}
	for _, pattern := range []string{"/etc/apt/auth.conf", "/etc/apt/auth.conf.d/*"} {
		found, _ := filepath.Glob(filepath.Join(r.opts.Root, pattern))
		for _, f := range found {
			if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
				r.drop("apt", "credentials", path.Join("/", strings.TrimPrefix(f, r.opts.Root)))
			}
		}
	}
}

// looksPublic keeps a private key from passing for a keyring.
func looksPublic(key []byte) bool { return !bytes.Contains(key, []byte("PRIVATE KEY")) }

// parseAptList reads the one-line form.
func parseAptList(data []byte) []AptSource {
	var out []AptSource
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		options := ""
		if before, rest, ok := strings.Cut(line, "["); ok {
			var after string
			if options, after, ok = strings.Cut(rest, "]"); !ok {
				continue
			}
			line = before + " " + after
		}
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "deb" || len(out) >= maxEntry {
			continue
		}
		s := AptSource{URIs: []string{f[1]}, Suites: []string{f[2]}, Components: f[3:]}
		for o := range strings.FieldsSeq(options) {
			if v, ok := strings.CutPrefix(o, "signed-by="); ok && path.IsAbs(v) {
				s.SignedBy = v
			}
		}
		out = append(out, s)
	}
	return out
}

// parseAptSources reads the form with paragraphs.
func parseAptSources(data []byte) []AptSource {
	var out []AptSource
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n\n") {
		fields, last := map[string]string{}, ""
		for line := range strings.Lines(paragraph) {
			switch {
			case strings.HasPrefix(line, "#"):
			case (line[0] == ' ' || line[0] == '\t') && last != "":
				fields[last] += " " + strings.TrimSpace(line)
			default:
				name, value, ok := strings.Cut(line, ":")
				if ok && len(fields) < 64 {
					last = strings.ToLower(strings.TrimSpace(name))
					fields[last] = strings.TrimSpace(value)
				}
			}
		}
		if e := strings.ToLower(fields["enabled"]); e == "no" || e == "false" || e == "0" {
			continue
		}
		s := AptSource{URIs: strings.Fields(fields["uris"]), Suites: strings.Fields(fields["suites"]), Components: strings.Fields(fields["components"])}
		if v := fields["signed-by"]; path.IsAbs(v) && !strings.ContainsAny(v, " \t") {
			s.SignedBy = v
		}
		if slices.Contains(strings.Fields(fields["types"]), "deb") && len(s.URIs) > 0 && len(s.Suites) > 0 && len(out) < maxEntry {
			out = append(out, s)
		}
	}
	return out
}

// Archives are the host's sources for a target: those of the host's own suite,
// written for the target's. Another distribution has none.
func (s Settings) Archives(t Target) []AptSource {
	if t.Distribution != s.release.id || s.release.codename == "" || strings.Trim(t.Suite, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || t.Suite == "" {
		return nil
	}
	var out []AptSource
	for _, a := range s.Apt {
		var suites []string
		for _, suite := range a.Suites {
			rest, ok := strings.CutPrefix(suite, s.release.codename)
			if ok && (rest == "" || rest[0] == '-' || rest[0] == '/') {
				suites = append(suites, t.Suite+rest)
			}
		}
		if len(suites) > 0 {
			a.Suites = suites
			out = append(out, a)
		}
	}
	return out
}

// aptPath replaces what an image brought along.
const aptPath = "/etc/apt/sources.list.d/drydock.sources"

// Files are what a sandbox with this system gets.
func (s Settings) Files(t Target) []File {
	out := slices.Clone(s.files)
	archives := s.Archives(t)
	if len(archives) == 0 {
		return out
	}
	var text strings.Builder
	for _, a := range archives {
		fmt.Fprintf(&text, "Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\n", strings.Join(a.URIs, " "), strings.Join(a.Suites, " "), strings.Join(a.Components, " "))
		if a.SignedBy != "" {
			fmt.Fprintf(&text, "Signed-By: %s\n", a.SignedBy)
			if key, ok := s.keyrings[a.SignedBy]; ok && !slices.ContainsFunc(out, func(f File) bool { return f.Path == a.SignedBy }) {
				out = append(out, File{Path: a.SignedBy, Data: key})
			}
		}
		text.WriteString("\n")
	}
	return append(out, File{Path: aptPath, Data: []byte(text.String())}, File{Path: "/etc/apt/sources.list", Data: nil})
}

// Where the certificate bundle goes: the place that Debian's own programs look
// at, and one that no package writes again.
const (
	debianBundle = "/etc/ssl/certs/ca-certificates.crt"
	ownBundle    = "/etc/drydock/ca-certificates.crt"
	localCerts   = "/usr/local/share/ca-certificates"
)

// bundles are where distributions keep theirs.
var bundles = []string{debianBundle, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}

// trustNames are the variables that programs with a mind of their own read.
var trustNames = []string{
	"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "DENO_CERT",
}

func (r *reader) readCertificates() {
	for _, file := range append([]string{r.env["SSL_CERT_FILE"]}, bundles...) {
		data, ok := r.file(file, maxBundle)
		if !ok {
			continue
		}
		clean, n := onlyCertificates(data)
		if n == 0 {
			continue
		}
		r.give(ownBundle, clean)
		r.give(debianBundle, clean)
		for _, name := range trustNames {
			r.setEnv(name, ownBundle)
		}
		break
	}
	found, _ := filepath.Glob(filepath.Join(r.opts.Root, localCerts, "*.crt"))
	for _, f := range found[:min(len(found), maxEntry)] {
		place := path.Join(localCerts, filepath.Base(f))
		data, ok := r.file(place, maxFile)
		if clean, n := onlyCertificates(data); ok && n > 0 {
			r.give(place, clean)
		}
	}
}

// onlyCertificates keeps the certificates of a PEM file and nothing else.
func onlyCertificates(data []byte) ([]byte, int) {
	var out bytes.Buffer
	n := 0
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return out.Bytes(), n
		}
		if block.Type == "CERTIFICATE" {
			_ = pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes})
			n++
		}
		data = rest
	}
}
