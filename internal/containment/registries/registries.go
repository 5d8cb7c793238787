package registries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Endpoint is a host that a package manager of this machine uses.
type Endpoint struct {
	Host    string `json:"host"`
	Port    uint16 `json:"port"`
	Manager string `json:"manager"` // go, npm, apt, pip, uv, cargo, maven
	Source  string `json:"source"`  // file or command that says so
}

// File is to be put into a sandbox.
type File struct {
	Path string
	Data []byte
}

// Settings are what a sandbox gets of the host's.
type Settings struct {
	Endpoints []Endpoint
	Env       []string // NAME=value
	Apt       []AptSource
	Dropped   []string // secrets that were left out, by name and place
	Notes     []string // what could not be read or used

	files    []File
	keyrings map[string][]byte // by path
	release  osRelease
}

// Options of Read. The zero value reads the machine itself, with no
// environment.
type Options struct {
	Root    string   // "" is "/"; for tests
	Environ []string // of the daemon
	// Run asks an installed program; nil runs it. Tests give their own.
	Run func(ctx context.Context, env []string, name string, args ...string) ([]byte, error)
}

const (
	maxFile   = 1 << 20
	maxBundle = 8 << 20
	maxEntry  = 256 // endpoints, sources
	askTime   = 20 * time.Second
)

// reader gathers settings.
type reader struct {
	Settings
	ctx  context.Context //nolint:containedctx // lives for one call of Read
	opts Options
	env  map[string]string
	home string
}

// Read gathers the settings of every manager.
func Read(ctx context.Context, opts Options) Settings {
	if opts.Run == nil {
		opts.Run = run
	}
	r := &reader{ctx: ctx, opts: opts, env: map[string]string{}}
	r.keyrings = map[string][]byte{}
	for _, kv := range opts.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			r.env[name] = value
		}
	}
	r.home = r.env["HOME"]
	if r.home == "" {
		r.home = "/root"
	}
	for _, manager := range []func(){r.readCertificates, r.readGo, r.readNpm, r.readApt, r.readPip, r.readUv, r.readCargo, r.readMaven} {
		manager()
	}
	return r.Settings
}

// Hosts are the endpoints without repetition.
func (s Settings) Hosts() []Endpoint {
	var out []Endpoint
	for _, e := range s.Endpoints {
		if !slices.ContainsFunc(out, func(o Endpoint) bool { return o.Host == e.Host && o.Port == e.Port }) {
			out = append(out, e)
		}
	}
	return out
}

// run asks a program. Its working directory is the root, so that no project's
// own settings take part.
func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = env
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &limitWriter{w: &out, left: maxFile}
	err := cmd.Run()
	return out.Bytes(), err
}

type limitWriter struct {
	w    io.Writer
	left int
}

func (l *limitWriter) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, io.ErrShortBuffer
	}
	l.left -= len(p)
	return l.w.Write(p)
}

// ask runs a program if it is installed.
func (r *reader) ask(name string, args ...string) ([]byte, bool) {
	if !r.installed(name) {
		return nil, false
	}
	out, err := r.opts.Run(r.ctx, r.opts.Environ, name, args...)
	if err != nil {
		r.note("%s %s failed: %v", name, strings.Join(args, " "), err)
		return nil, false
	}
	return out, true
}

func (r *reader) installed(name string) bool {
	for _, dir := range filepath.SplitList(r.env["PATH"]) {
		info, err := os.Stat(filepath.Join(r.opts.Root, dir, name))
		if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// file reads a bounded file of the host; ok is false if it is not there.
func (r *reader) file(path string, most int64) ([]byte, bool) {
	if path == "" || !filepath.IsAbs(path) {
		return nil, false
	}
	f, err := os.Open(filepath.Join(r.opts.Root, path))
	if err != nil {
		if !os.IsNotExist(err) {
			r.note("%s: %v", path, cause(err))
		}
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil || int64(len(data)) > most {
		r.note("%s is not read: larger than %d bytes or unreadable", path, most)
		return nil, false
	}
	return data, true
}

func cause(err error) error {
	p := &fs.PathError{}
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (r *reader) note(format string, args ...any) {
	if len(r.Notes) < maxEntry {
		r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
	}
}

func (r *reader) drop(manager, what, source string) {
	if text := fmt.Sprintf("%s: %s in %s", manager, what, source); !slices.Contains(r.Dropped, text) && len(r.Dropped) < maxEntry {
		r.Dropped = append(r.Dropped, text)
	}
}

func (r *reader) setEnv(name, value string) {
	if value != "" && !strings.ContainsAny(value, "\x00\n") {
		r.Env = append(r.Env, name+"="+value)
	}
}

func (r *reader) give(path string, data []byte) {
	r.files = append(r.files, File{Path: path, Data: data})
}

// endpoint notes the host of an address and returns the address without
// secrets, or "" if it is not one that leads to a host.
func (r *reader) endpoint(manager, source, raw string) string {
	clean, host, port, secret := parseURL(raw)
	if secret {
		r.drop(manager, "the user and password of "+host, source)
	}
	if host == "" {
		return ""
	}
	e := Endpoint{Host: host, Port: port, Manager: manager, Source: source}
	if !slices.Contains(r.Endpoints, e) && len(r.Endpoints) < maxEntry {
		r.Endpoints = append(r.Endpoints, e)
	}
	return clean
}

// parseURL takes an address apart. Prefixes such as "sparse+" stay.
func parseURL(raw string) (clean, host string, port uint16, secret bool) {
	raw = strings.TrimSpace(raw)
	if len(raw) > 2048 {
		return "", "", 0, false
	}
	prefix := ""
	if i := strings.Index(raw, "+"); i > 0 && i < strings.Index(raw, "://") {
		prefix, raw = raw[:i+1], raw[i+1:]
	}
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", "", 0, false
	}
	port = 443
	if u.Scheme == "http" {
		port = 80
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", "", 0, false
		}
		port = uint16(n)
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && (a.IsUnspecified() || a.IsLoopback()) {
		return "", "", 0, false // such an entry blocks, or means this host alone
	}
	secret = u.User != nil
	u.User = nil
	return prefix + u.String(), strings.ToLower(u.Hostname()), port, secret
}
