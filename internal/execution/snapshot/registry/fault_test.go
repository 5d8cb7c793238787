package registry

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
	"drydock/internal/testkit/docker"
)

// small is a snapshot with a memory image, of which one file does not compress.
func (h *host) small() core.SnapshotID {
	h.t.Helper()
	bottom := shell(h.t, `echo base > base`)
	id := h.frozen(snapshot.Draft{Base: []snapshot.Layer{{Base: "sha256:0", Path: bottom}}}, shell(h.t, `head -c 3M /dev/urandom > big; echo top > top`, bottom))
	h.remember(id, map[string]string{"pages.img": "pages"})
	return id
}

// cutter passes an answer on, but breaks the connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func isBlob(r *http.Request, method string) bool {
	return r.Method == method && strings.Contains(r.URL.Path, "/blobs/sha256:")
}

func TestPullGoesOn(t *testing.T) {
	srv := newServer(t)
	a, b := newHost(t), newHost(t)
	id := a.small()
	ref := srv.host + "/shop:v1"
	a.push(id, ref)
	var cuts, ranges atomic.Int32
	srv.use(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if !isBlob(r, http.MethodGet) {
			return false
		}
		if r.Header.Get("Range") != "" {
			ranges.Add(1)
			return false
		}
		cuts.Add(1)
		next.ServeHTTP(&cutter{w, 50}, r)
		return true
	})
	pulled := b.pull(ref)
	if a.seen(id) != b.seen(pulled.Snapshot.ID) || !pulled.Snapshot.Memory {
		t.Errorf("pulled %+v", pulled)
	}
	if cuts.Load() < 5 || ranges.Load() < 5 {
		t.Errorf("%d connections were cut, %d went on", cuts.Load(), ranges.Load())
	}
}

// TestPushGoesOn breaks uploads off, then the push; a second one sends only
// what is missing, and nobody sees the tag before.
func TestPushGoesOn(t *testing.T) {
	srv := newServer(t)
	a := newHost(t)
	id := a.small()
	var broken atomic.Int32
	srv.use(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/") && broken.Add(1) <= 2 {
			_, _ = io.CopyN(io.Discard, r.Body, 20)
			panic(http.ErrAbortHandler)
		}
		return false
	})
	a.push(id, srv.host+"/shop:v1")

	srv.use(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		// The connection is gone for good once a blob is there.
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	_, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: srv.host + "/again:v1"}, nil)
	if !core.Is(err, core.Unavailable) || !strings.Contains(err.Error(), "/again:v1") {
		t.Errorf("without manifests: %v", err)
	}
	srv.use(nil)
	if _, err := newHost(t).Pull(t.Context(), PullRequest{Reference: srv.host + "/again:v1"}, nil); !core.Is(err, core.NotFound) {
		t.Errorf("a push that broke off is seen: %v", err)
	}
	out, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: srv.host + "/again:v1"}, nil)
	if err != nil || out.Sent != 0 {
		t.Errorf("sent again: %+v %v", out, err)
	}
}

// TestChunks sends a blob of several chunks; the connection breaks in one, and
// the upload goes on from what has arrived.
func TestChunks(t *testing.T) {
	addr := docker.Registry(t)
	a := newHost(t)
	id := a.frozen(snapshot.Draft{}, shell(t, `head -c 80M /dev/urandom > big`))
	var broken, patches atomic.Int32
	proxy := proxyTo(t, addr, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && patches.Add(1) == 2 {
			broken.Add(1)
			_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
			panic(http.ErrAbortHandler)
		}
		return false
	})
	var sending []int64
	out, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: proxy + "/shop:v1"}, func(p Progress) {
		if p.State == StateSending {
			sending = append(sending, p.Done)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if broken.Load() != 1 || patches.Load() != 4 {
		t.Errorf("%d chunks broke, %d were sent", broken.Load(), patches.Load())
	}
	if len(sending) < 10 {
		t.Errorf("progress: %v", sending)
	}
	if got := newHost(t).pull(addr + "/shop:v1"); got.Digest != out.Digest {
		t.Errorf("pulled %+v", got)
	}
}

// proxyTo stands before a registry.
func proxyTo(t *testing.T, addr string, hook func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	var own string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hook(w, r) {
			return
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", addr, ""
		out.Host = own // so that it points back to us
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(proxy.Close)
	own = strings.TrimPrefix(proxy.URL, "http://")
	return own
}

// TestRefused gives hostile and broken answers. Each error names the reference,
// and nothing is left of the pull.
func TestRefused(t *testing.T) {
	srv := newServer(t)
	a := newHost(t)
	id := a.small()
	pushed := a.push(id, srv.host+"/shop:v1")
	raw := fetch(t, srv, "/v2/shop/manifests/"+pushed.Digest)

	answer := func(w http.ResponseWriter, body []byte) bool {
		w.Header().Set("Content-Type", mediaManifest)
		_, _ = w.Write(body)
		return true
	}
	// forged answers the tag with a changed manifest.
	forged := func(change func(*manifest)) func(http.ResponseWriter, *http.Request, http.Handler) bool {
		return func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
				return false
			}
			var m manifest
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Error(err)
			}
			change(&m)
			body, _ := json.Marshal(m)
			return answer(w, body)
		}
	}
	status := func(part string, code int) func(http.ResponseWriter, *http.Request, http.Handler) bool {
		return func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if !strings.Contains(r.URL.Path, part) {
				return false
			}
			if code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			}
			w.WriteHeader(code)
			return true
		}
	}
	blob := func(change func([]byte) []byte) func(http.ResponseWriter, *http.Request, http.Handler) bool {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
			if !isBlob(r, http.MethodGet) || r.Header.Get("Range") != "" {
				return isBlob(r, http.MethodGet) // no second half either
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			_, _ = w.Write(change(rec.Body.Bytes()))
			return true
		}
	}
	cases := map[string]struct {
		hook func(http.ResponseWriter, *http.Request, http.Handler) bool
		kind core.Kind
		says string
	}{
		"no access":      {status("/v2/", http.StatusUnauthorized), core.Denied, "refuses access"},
		"forbidden":      {status("/manifests/", http.StatusForbidden), core.Denied, "refuses access"},
		"not there":      {status("/manifests/v1", http.StatusNotFound), core.NotFound, "not in the registry"},
		"trouble":        {status("/manifests/v1", http.StatusInternalServerError), core.Unavailable, "trouble"},
		"blob is gone":   {status("/blobs/", http.StatusNotFound), core.NotFound, "not in the registry"},
		"blob trouble":   {status("/blobs/", http.StatusBadGateway), core.Unavailable, "trouble"},
		"truncated":      {blob(func(b []byte) []byte { return b[:len(b)/2] }), core.Invalid, "bytes there"},
		"one bit":        {blob(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), core.Invalid, ""},
		"another blob":   {blob(func(b []byte) []byte { return make([]byte, len(b)) }), core.Invalid, ""},
		"huge":           {forged(func(m *manifest) { m.Layers[1].Size = 1 << 60 }), core.Exhausted, "is said to have"},
		"negative":       {forged(func(m *manifest) { m.Layers[1].Size = -1 }), core.Exhausted, "is said to have"},
		"larger":         {forged(func(m *manifest) { m.Layers[1].Size++ }), core.Invalid, "bytes there"},
		"layers swapped": {forged(func(m *manifest) { m.Layers[0], m.Layers[1] = m.Layers[1], m.Layers[0] }), core.Invalid, "digest"},
		"no layer":       {forged(func(m *manifest) { m.Layers = nil }), core.Invalid, "no sense"},
		"other digest":   {forged(func(m *manifest) { m.Layers[0].Digest = "md5:x" }), core.Invalid, "no digest"},
		"other kind":     {forged(func(m *manifest) { m.Layers[0].MediaType = "text/plain" }), core.Invalid, "kind"},
		"not ours":       {forged(func(m *manifest) { m.Annotations = nil }), core.Invalid, "no snapshot"},
		"unknown field":  {forged(func(m *manifest) { m.Annotations[annotation] = `{"format":1,"x":1}` }), core.Invalid, "description"},
		"other form":     {forged(func(m *manifest) { m.Annotations[annotation] = `{"format":9}` }), core.Invalid, "form"},
		"commit": {forged(func(m *manifest) {
			m.Annotations[annotation] = strings.Replace(m.Annotations[annotation], `"format":1`, `"format":1,"commit":"--upload-pack=x"`, 1)
		}), core.Invalid, "no sense"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newHost(t)
			srv.use(c.hook)
			defer srv.use(nil)
			_, err := b.Pull(t.Context(), PullRequest{Reference: srv.host + "/shop:v1"}, nil)
			if !core.Is(err, c.kind) || !strings.Contains(err.Error(), srv.host+"/shop:v1") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("kind %v: %v", core.KindOf(err), err)
			}
			b.clean()
		})
	}
}

func fetch(t *testing.T, srv *server, path string) []byte {
	t.Helper()
	resp, err := srv.Client().Get(srv.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
	}
	return raw
}

// TestForgedMemory changes what belongs to the memory image.
func TestForgedMemory(t *testing.T) {
	srv := newServer(t)
	a := newHost(t)
	pushed := a.push(a.small(), srv.host+"/shop:v1")
	to, err := a.deps.Images.Remote(t.Context(), srv.host+"/shop:v1", image.Access{Push: true})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	_, raw, err := to.Manifest(t.Context(), pushed.Memory)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(*manifest, *memory){
		"name leads out": func(m *manifest, c *memory) {
			c.Memory.Files[0].Name = "../../x"
			m.Layers[0].Annotations[annoTitle] = "../../x"
		},
		"file is larger":   func(_ *manifest, c *memory) { c.Memory.Files[0].Bytes++ },
		"file is smaller":  func(_ *manifest, c *memory) { c.Memory.Files[0].Bytes-- },
		"file is huge":     func(_ *manifest, c *memory) { c.Memory.Files[0].Bytes = 1 << 60 },
		"no file":          func(m *manifest, _ *memory) { m.Layers = m.Layers[1:] },
		"no live layer":    func(m *manifest, _ *memory) { m.Layers = m.Layers[:1] },
		"other live layer": func(_ *manifest, c *memory) { c.LiveSum = image.Digest([]byte("x")) },
		"other subject":    func(m *manifest, _ *memory) { m.Subject.Digest = image.Digest([]byte("x")) },
		"unknown part":     func(m *manifest, _ *memory) { m.Layers[0].MediaType = "text/plain" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			var m manifest
			var c memory
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(fetch(t, srv, "/v2/shop/blobs/"+m.Config.Digest), &c); err != nil {
				t.Fatal(err)
			}
			change(&m, &c)
			config, _ := json.Marshal(c)
			if m.Config, err = sendSmall(t.Context(), to, mediaMemoryJSON, config); err != nil {
				t.Fatal(err)
			}
			forged, _ := json.Marshal(m)
			d := image.Descriptor{
				MediaType: mediaManifest, ArtifactType: mediaMemory, Digest: image.Digest(forged), Size: int64(len(forged)),
				Annotations: map[string]string{annoCreated: "2999-01-01T00:00:00Z"},
			}
			if _, err := to.PutManifest(t.Context(), d.Digest, mediaManifest, forged); err != nil {
				t.Fatal(err)
			}
			list, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []image.Descriptor{d}})
			srv.use(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				if !strings.Contains(r.URL.Path, "/referrers/") {
					return false
				}
				w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
				_, _ = w.Write(list)
				return true
			})
			defer srv.use(nil)
			b := newHost(t)
			_, err := b.Pull(t.Context(), PullRequest{Reference: srv.host + "/shop:v1"}, nil)
			if !core.Is(err, core.Invalid) && !core.Is(err, core.Exhausted) {
				t.Errorf("%v", err)
			}
			b.clean()
			if out, err := b.Pull(t.Context(), PullRequest{Reference: srv.host + "/shop:v1", NoMemory: true}, nil); err != nil || out.Snapshot.Memory {
				t.Errorf("without memory: %+v %v", out, err)
			}
		})
	}
}

// TestHostileLayer packs what no packer would.
func TestHostileLayer(t *testing.T) {
	srv := newServer(t)
	a := newHost(t)
	for name, c := range map[string]struct {
		entries []entry
		fine    bool
	}{
		"out":          {[]entry{{name: "../../evil", data: "x"}}, false},
		"through link": {[]entry{{name: "l", link: "/tmp"}, {name: "l/evil-of-a-layer", data: "x"}}, true},
		"device":       {[]entry{{name: "disk", device: true}, {name: "ok", data: "x"}}, true},
		"whiteout up":  {[]entry{{name: ".wh...", data: ""}}, false},
		"twice":        {[]entry{{name: "a", data: "1"}, {name: "a", data: "2"}}, true},
		"too many":     {make([]entry, 600), false},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.entries {
				if c.entries[i].name == "" {
					c.entries[i].name = strings.Repeat("x", i%200) + "y"
				}
			}
			ref := srv.host + "/hostile:v1"
			a.pushRaw(ref, archive(t, c.entries))
			b := newHost(t, func(o *Options) { o.Limits = image.Limits{Entries: 500, LayerBytes: 1 << 20} })
			got, err := b.Pull(t.Context(), PullRequest{Reference: ref}, nil)
			if c.fine != (err == nil) {
				t.Fatalf("%v", err)
			}
			if _, err := os.Lstat("/tmp/evil-of-a-layer"); err == nil {
				t.Error("it got out")
			}
			if !c.fine {
				b.clean()
				return
			}
			if strings.Contains(b.seen(got.Snapshot.ID), "disk") {
				t.Error("a device came in")
			}
		})
	}
}

func TestCancel(t *testing.T) {
	srv := newServer(t)
	a, b := newHost(t), newHost(t)
	id := a.small()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := a.Push(ctx, PushRequest{Snapshot: id, Reference: srv.host + "/shop:v1"}, func(p Progress) {
		if p.State == StateDone {
			cancel()
		}
	})
	if !core.Is(err, core.Canceled) || len(srv.asked(http.MethodPut, "/manifests/")) != 0 {
		t.Errorf("push: %v, manifests %v", err, srv.asked(http.MethodPut, "/manifests/"))
	}
	a.push(id, srv.host+"/shop:v1")
	ctx, cancel = context.WithCancel(t.Context())
	_, err = b.Pull(ctx, PullRequest{Reference: srv.host + "/shop:v1"}, func(p Progress) {
		if p.State == StateFetching {
			cancel()
		}
	})
	if !core.Is(err, core.Canceled) {
		t.Errorf("pull: %v", err)
	}
	b.clean()
}

func TestPrograms(t *testing.T) {
	srv := newServer(t)
	a, b, c := newHost(t), newHost(t), newHost(t)
	id := a.small()
	if _, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: srv.host + "/shop:v1", Runtime: true}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pull(t.Context(), PullRequest{Reference: srv.host + "/shop:v1", Runtime: true}, nil); err != nil {
		t.Fatal(err)
	}
	c.pull(srv.host + "/shop:v1")
	if len(b.progs.have) != 2 || len(c.progs.have) != 0 {
		t.Errorf("asked for: %v, not asked for: %v", b.progs.have, c.progs.have)
	}
}

// TestWithoutTLS refuses to speak to another machine in the open, unless that
// was asked for.
func TestWithoutTLS(t *testing.T) {
	a := newHost(t)
	id := a.small()
	inner := newServer(t)
	l, err := net.Listen("tcp", outside(t)+":0")
	if err != nil {
		t.Fatal(err)
	}
	open := httptest.NewUnstartedServer(inner.Config.Handler)
	open.Listener = l
	open.Start()
	t.Cleanup(open.Close)
	ref := l.Addr().String() + "/shop:v1"
	if _, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: ref}, nil); err == nil {
		t.Error("spoke in the open")
	}
	if got := inner.asked("", ""); len(got) > 0 {
		t.Errorf("it was asked %v", got)
	}
	if _, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: ref, Insecure: true}, nil); err != nil {
		t.Errorf("asked for: %v", err)
	}
	if _, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: "shop"}, nil); !core.Is(err, core.Invalid) {
		t.Errorf("no registry: %v", err)
	}
	if _, err := a.Push(t.Context(), PushRequest{Snapshot: id, Reference: inner.host + "/shop@" + image.Digest(nil)}, nil); !core.Is(err, core.Invalid) {
		t.Errorf("to a digest: %v", err)
	}
}

// outside is an address of this machine that is not a loopback one.
func outside(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("skipped: this machine has no address of its own")
	return ""
}
