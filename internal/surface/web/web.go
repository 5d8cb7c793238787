package web

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"drydock/internal/core"
)

//go:embed all:dist
var dist embed.FS

// Nonce stands in the built index.html wherever the nonce of an answer has to
// stand (html.cspNonce of the build).
const Nonce = "__CSP_NONCE__"

// index is the file that every route of the page shows.
const index = "index.html"

// routes are the first parts of paths that the page itself understands. The
// path below them is its own business.
var routes = []string{
	"s", "changes", "approvals", "environments", "selections", "automations", "campaigns", "trials", "usage", "audit", "settings", "login", "gallery",
}

// kinds of files a build may hold; others are not served.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".json": "application/json", ".map": "application/json", ".webmanifest": "application/manifest+json", ".txt": "text/plain; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".webp": "image/webp", ".woff2": "font/woff2",
}

type file struct {
	data []byte
	kind string
	tag  string // entity tag
}

// Page is one build.
type Page struct {
	files map[string]file
	shell []byte // index.html
	build string
}

// Embedded is the build in this program, or the stand-in.
func Embedded() (*Page, error) {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, core.E("web.new", core.Internal, err, "embedded page")
	}
	return New(sub)
}

// New reads a build. Without an index.html it is the stand-in.
func New(files fs.FS) (*Page, error) {
	p := &Page{files: map[string]file{}}
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		one := sha256.Sum256(data)
		sum.Write([]byte(name + "\x00"))
		sum.Write(one[:])
		if kind, known := kinds[path.Ext(name)]; known {
			p.files[name] = file{data: data, kind: kind, tag: `"` + hex.EncodeToString(one[:12]) + `"`}
		}
		return nil
	})
	if err != nil {
		return nil, core.E("web.new", core.Internal, err, "read the built page")
	}
	p.shell = []byte(standIn)
	if f, built := p.files[index]; built {
		p.shell = f.data
		delete(p.files, index)
	}
	if !bytes.Contains(p.shell, []byte("</head>")) {
		return nil, core.E("web.new", core.Internal, nil, "index.html of the built page has no </head>").WithHint("build the page anew")
	}
	sum.Write(p.shell)
	p.build = hex.EncodeToString(sum.Sum(nil)[:8])
	return p, nil
}

// Build is a digest of everything in it.
func (p *Page) Build() string { return p.build }

// Has reports whether a path is a file or a route of the page.
func (p *Page) Has(at string) bool {
	_, isFile := p.files[strings.TrimPrefix(at, "/")]
	return isFile || isRoute(at)
}

func isRoute(at string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	return at == "/" || slices.Contains(routes, first)
}

// Serve answers a GET or HEAD. snapshot is JSON as encoding/json writes it,
// with < escaped; nil is none.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request, snapshot []byte) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if f, ok := p.files[name]; ok {
		serveFile(w, r, name, f)
		return
	}
	if !isRoute(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	nonce := rand.Text()
	body := bytes.ReplaceAll(p.shell, []byte(Nonce), []byte(nonce))
	if snapshot != nil {
		body = bytes.Replace(body, []byte("</head>"), slices.Concat(
			[]byte(`<script type="application/json" id="snapshot">`), inert(snapshot), []byte("</script></head>")), 1)
	}
	h := w.Header()
	h.Set("Content-Type", kinds[".html"])
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy(nonce))
	send(w, r, body)
}

// inert makes sure that JSON cannot end the element that it stands in.
func inert(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte("<"), []byte(`\u003c`)) }

func serveFile(w http.ResponseWriter, r *http.Request, name string, f file) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if path.Ext(name) == ".js" { // a worker has the policy of its own script
		h.Set("Content-Security-Policy", policy(""))
	}
	if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	send(w, r, f.data)
}

func send(w http.ResponseWriter, r *http.Request, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// policy of the page: everything from here, no script inside the page, nobody
// frames it.
func policy(nonce string) string {
	style := "'self'"
	if nonce != "" {
		style += " 'nonce-" + nonce + "'"
	}
	return "default-src 'none'; script-src 'self'; style-src " + style + "; font-src 'self'; connect-src 'self'; worker-src 'self'; " +
		"manifest-src 'self'; img-src 'self' blob:; frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'self'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types default drydock"
}

// standIn is shown by a program that was built without the page.
const standIn = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Drydock</title></head>
<body>
<h1>Drydock</h1>
<p>The daemon is running. The page is not built into this program: <code>make web build</code> does it, with Node.</p>
<p>Everything can be done with the command line: <code>drydock session list</code>, <code>drydock run -e ENV "task"</code>.
The interface is described at <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p>
</body></html>
`
