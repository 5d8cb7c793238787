package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/net/http/httpproxy"

	"drydock/internal/core"
)

// stallAfter is how long a download may stand still.
const stallAfter = 60 * time.Second

// httpTransport speaks to registries: through the host's proxy, with the host's
// certificates, and without TLS only where that was said.
func (s *Store) httpTransport(insecure []string, answer time.Duration) (http.RoundTripper, error) {
	proxy := &httpproxy.Config{
		HTTPProxy: first(s.env("http_proxy"), s.env("HTTP_PROXY")), HTTPSProxy: first(s.env("https_proxy"), s.env("HTTPS_PROXY")),
		NoProxy: first(s.env("no_proxy"), s.env("NO_PROXY")),
	}
	choose := proxy.ProxyFunc()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := first(s.opts.CABundle, s.env("SSL_CERT_FILE")); file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, core.E("image.registry", core.Invalid, err, "cannot read the certificate bundle %s", file)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM(raw)
		config.RootCAs = pool
	}
	return &guarded{insecure: insecure, next: &http.Transport{
		Proxy:                 func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
		DialContext:           (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   20 * time.Second,
		ResponseHeaderTimeout: answer,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       30 * time.Second,
	}}, nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// guarded refuses to send or read anything without TLS, redirects included,
// unless the host is this machine or was named.
type guarded struct {
	next     *http.Transport
	insecure []string
}

var errPlain = errors.New("refused to speak to a registry without TLS")

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !plainAllowed(r.URL.Host, g.insecure) {
		return nil, errPlain
	}
	return g.next.RoundTrip(r)
}

func (g *guarded) CloseIdleConnections() { g.next.CloseIdleConnections() }

func plainAllowed(host string, insecure []string) bool {
	bare := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		bare = h
	}
	if bare == "localhost" || slices.Contains(insecure, host) || slices.Contains(insecure, bare) {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(bare, "[]"))
	return err == nil && addr.IsLoopback()
}

// parseReference reads a name as people write it. Without a registry in it,
// the configured default is meant.
func (s *Store) parseReference(base string, insecure []string) (name.Reference, error) {
	full := base
	registry, _, hasSlash := strings.Cut(base, "/")
	if !hasSlash || !strings.ContainsAny(registry, ".:") && registry != "localhost" {
		if s.opts.Registry.Default == "" {
			return nil, core.E("image.reference", core.Invalid, nil, "image %q does not say which registry it is in", base).
				WithHint("write it as registry.example.com/%s, or set images.default_registry in the configuration", base)
		}
		full = strings.TrimSuffix(s.opts.Registry.Default, "/") + "/" + base
	}
	host, _, _ := strings.Cut(full, "/")
	opts := []name.Option{name.WithDefaultTag("latest")}
	if slices.Contains(insecure, host) {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(full, opts...)
	if err != nil {
		return nil, core.E("image.reference", core.Invalid, err, "%q is not an image reference", base).
			WithHint("write registry/repository:tag or registry/repository@sha256:...")
	}
	return ref, nil
}

// credentials finds who to be at a registry: the configuration, else the
// host's file of registry logins, else nobody.
func (s *Store) credentials(registry string) (authn.Authenticator, error) {
	if c, ok := s.opts.Registry.Credentials[registry]; ok {
		return &authn.Basic{Username: c.User, Password: c.Password}, nil
	}
	dir := s.env("DOCKER_CONFIG")
	if dir == "" && s.env("HOME") != "" {
		dir = filepath.Join(s.env("HOME"), ".docker")
	}
	if dir == "" {
		return authn.Anonymous, nil
	}
	path := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return authn.Anonymous, nil
	}
	if err != nil {
		return nil, core.E("image.credentials", core.Invalid, err, "cannot read %s", path)
	}
	c, ok, err := loginFor(raw, registry)
	if err != nil {
		return nil, core.E("image.credentials", core.Invalid, err, "cannot read %s", path)
	}
	if !ok {
		return authn.Anonymous, nil
	}
	return &authn.Basic{Username: c.User, Password: c.Password}, nil
}

// loginFor reads the file format that registry clients share.
func loginFor(raw []byte, registry string) (Credential, bool, error) {
	var file struct {
		Auths map[string]struct {
			Auth     string `json:"auth"`
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return Credential{}, false, err
	}
	for _, key := range []string{registry, "https://" + registry, "https://" + registry + "/v1/", "https://" + registry + "/v2/"} {
		entry, ok := file.Auths[key]
		if !ok {
			continue
		}
		if entry.Auth == "" {
			return Credential{entry.Username, entry.Password}, entry.Username != "", nil
		}
		text, err := base64.StdEncoding.DecodeString(entry.Auth)
		if err != nil {
			return Credential{}, false, err
		}
		user, password, ok := strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
		return Credential{user, password}, ok, nil
	}
	return Credential{}, false, nil
}

// remoteError says what a registry's answer means.
func remoteError(err error, what string) error {
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	fail := func(kind core.Kind, message, hint string) error {
		return core.E("image.registry", kind, err, "%s: %s", what, message).WithHint("%s", hint)
	}
	if errors.Is(err, context.Canceled) {
		return fail(core.Canceled, "interrupted", "")
	}
	if strings.Contains(err.Error(), "error verifying sha256 checksum") {
		return fail(core.Invalid, "the registry sent something else than was asked for", "")
	}
	if errors.Is(err, errPlain) {
		return fail(core.Denied, "its registry would be spoken to without TLS", "add it to images.insecure in the configuration if that is meant")
	}
	if e, ok := errors.AsType[*transport.Error](err); ok {
		switch {
		case e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden:
			return fail(core.Denied, "the registry refuses access", "check the name, and user and password under images.credentials in the configuration")
		case e.StatusCode == http.StatusNotFound:
			return fail(core.NotFound, "not in the registry", "check the name and the tag")
		case e.StatusCode == http.StatusTooManyRequests:
			return fail(core.Unavailable, "the registry asks to slow down", "try again later, or log in")
		case e.StatusCode >= 500:
			return fail(core.Unavailable, "the registry has trouble", "try again")
		case e.StatusCode >= 400:
			return fail(core.Invalid, "the registry refuses it", "")
		}
	}
	return fail(core.Unavailable, "the registry cannot be reached", "check the network and the proxy settings of this host")
}

// stalling ends a stream that stands still.
type stalling struct {
	io.ReadCloser
	timer *time.Timer
}

// withStall calls cancel when nothing was read for a while.
func withStall(r io.ReadCloser, cancel context.CancelFunc) *stalling {
	return &stalling{r, time.AfterFunc(stallAfter, cancel)}
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if n > 0 {
		s.timer.Reset(stallAfter)
	}
	return n, err
}

func (s *stalling) Close() error {
	s.timer.Stop()
	return s.ReadCloser.Close()
}
