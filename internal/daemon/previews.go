package daemon

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"drydock/internal/control/access"
	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/surface/api"
	"drydock/internal/surface/preview"
	"drydock/internal/surface/server"
)

// openPreviews opens the listener of previews, which is not that of the API.
func (d *Daemon) openPreviews(ctx context.Context) error {
	mode := d.opts.PreviewMode
	if mode == "" {
		mode = preview.ModeHosts
	}
	opts := preview.Options{Mode: mode, URL: d.opts.PreviewURL, Control: d.origins(), Reserved: []int{sandbox.GuestPort}}
	if mode == preview.ModeListeners {
		opts.ListenHost, opts.Name, opts.File = d.previewHost(), d.previewName(), filepath.Join(d.opts.State, "preview.ports")
	}
	var err error
	d.previews, err = preview.New(preview.Deps{
		People: d.access, Boxes: &boxes{d: d}, Meter: d.metrics, Log: d.log, Secret: access.IsSecret,
	}, opts)
	if err != nil || mode != preview.ModeHosts {
		return err
	}
	if d.previewListener, err = d.listenPreviews(ctx); err != nil {
		return err
	}
	d.previews.Listening(d.previewListener)
	return nil
}

// listenPreviews takes what is configured, or the loopback port next to that
// of the API: it stays the same, and with it what apps keep in browsers.
func (d *Daemon) listenPreviews(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	at := d.opts.PreviewListen
	if at == "" {
		_, port, _ := net.SplitHostPort(d.listener.Addr().String())
		if n, err := strconv.Atoi(port); err == nil && n < 65535 {
			if l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n+1))); err == nil {
				return l, nil
			}
		}
		at = "127.0.0.1:0"
	}
	l, err := lc.Listen(ctx, "tcp", at)
	if err != nil {
		return nil, core.E("daemon.start", core.Unavailable, err, "listen on %s for previews", at).
			WithHint("previews need an address and port of their own: web.preview_listen in the configuration")
	}
	return l, nil
}

// origins are those of the page; the first is the one to show.
func (d *Daemon) origins() []string {
	var out []string
	if d.opts.PublicURL != "" {
		out = append(out, originOf(d.opts.PublicURL))
	}
	host, port, _ := net.SplitHostPort(d.listener.Addr().String())
	for _, name := range []string{"localhost", "127.0.0.1"} {
		out = append(out, "http://"+net.JoinHostPort(name, port))
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() && !ip.IsUnspecified() {
		out = append(out, "http://"+net.JoinHostPort(host, port))
	}
	return out
}

func (d *Daemon) previewHost() string {
	host, _, err := net.SplitHostPort(d.opts.PreviewListen)
	if err != nil {
		return "127.0.0.1"
	}
	return host
}

// previewName is the name that browsers use where each preview has a listener.
func (d *Daemon) previewName() string {
	host := d.previewHost()
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return host
	}
	return hostnameOf(d.opts.PublicURL)
}

// previews gives the interface the previews.
type previews struct{ s *preview.Service }

var _ server.Previews = previews{}

// Ports implements server.Previews.
func (p previews) Ports(ctx context.Context, by core.Author, id core.SessionID) (api.Ports, error) {
	return p.s.Ports(ctx, by, id)
}

// Open implements server.Previews.
func (p previews) Open(ctx context.Context, secret string, id core.SessionID, req api.OpenPreview) (api.Preview, error) {
	return p.s.Open(ctx, access.Credential(secret), id, req)
}

// Frames implements server.Previews.
func (p previews) Frames() string { return p.s.Frames() }

// maxRecipes bounds how many recipes of sleeping sessions are remembered.
const maxRecipes = 200

// boxes gives previews the sandboxes of sessions.
type boxes struct {
	d *Daemon

	mu      sync.Mutex
	recipes map[string]recipe.Recipe // by environment and commit
}

var _ preview.Boxes = (*boxes)(nil)

// Place implements preview.Boxes. Everybody who is known may look into every
// session, as in the rest of the interface.
func (b *boxes) Place(ctx context.Context, _ core.Author, id core.SessionID) (preview.Place, error) {
	s, err := b.d.db.Session(ctx, id)
	if err != nil {
		return preview.Place{}, err
	}
	if s.State == core.SessionArchived {
		return preview.Place{}, core.E("preview.place", core.Conflict, nil, "session %s is archived: its sandbox is gone", id)
	}
	if w, err := b.d.workspaces.Living(ctx, id); err == nil {
		return place(w.Recipe(), w.Machine().ID()), nil
	}
	r, err := b.recipe(ctx, s)
	if err != nil {
		return preview.Place{}, err
	}
	return place(r, ""), nil
}

func place(r recipe.Recipe, id core.SandboxID) preview.Place {
	p := preview.Place{Sandbox: id, Linked: r.LinkPorts}
	for _, s := range r.Services {
		if s.Port > 0 {
			p.Declared = append(p.Declared, preview.Port{Port: s.Port, Name: s.Name, Service: s.Name})
		}
	}
	for _, port := range r.Ports {
		if !slices.ContainsFunc(p.Declared, func(have preview.Port) bool { return have.Port == port }) {
			p.Declared = append(p.Declared, preview.Port{Port: port})
		}
	}
	return p
}

// recipe is that of a session that sleeps.
func (b *boxes) recipe(ctx context.Context, s core.Session) (recipe.Recipe, error) {
	if s.BaseCommit == "" {
		return recipe.Recipe{}, nil // it has not started yet
	}
	key := string(s.Environment) + " " + s.BaseCommit
	b.mu.Lock()
	r, ok := b.recipes[key]
	b.mu.Unlock()
	if ok {
		return r, nil
	}
	repo, err := b.d.workspaces.Mirror(ctx, s.Environment)
	if err != nil {
		return r, err
	}
	if r, _, err = environment.ReadRecipe(ctx, repo, s.BaseCommit); err != nil {
		return r, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recipes == nil || len(b.recipes) >= maxRecipes {
		b.recipes = map[string]recipe.Recipe{}
	}
	b.recipes[key] = r
	return r, nil
}

// Listening implements preview.Boxes.
func (b *boxes) Listening(ctx context.Context, id core.SessionID) ([]int, error) {
	w, err := b.d.workspaces.Living(ctx, id)
	if err != nil {
		return nil, err
	}
	ports, err := w.Machine().Guest().Ports(ctx)
	if err != nil {
		return nil, w.Machine().Explain(ctx, err)
	}
	out := make([]int, 0, len(ports))
	for _, p := range ports {
		if !slices.Contains(out, p.Port) {
			out = append(out, p.Port)
		}
	}
	return out, nil
}

// Dial implements preview.Boxes: from inside, since servers of developers
// listen on loopback only.
func (b *boxes) Dial(ctx context.Context, id core.SessionID, port int) (net.Conn, error) {
	w, err := b.d.workspaces.Living(ctx, id)
	if err != nil {
		return nil, err
	}
	return workspace.Browser{Machine: w.Machine()}.Dial(ctx, port)
}

// Waiting implements preview.Boxes.
func (b *boxes) Waiting(ctx context.Context, id core.SessionID, port int) preview.Waiting {
	var out preview.Waiting
	w, err := b.d.workspaces.Living(ctx, id)
	if err != nil {
		return out
	}
	m := w.Machine()
	for _, s := range w.Recipe().Services {
		if s.Port == port {
			out.Service, out.State = s.Name, "not started"
		}
	}
	if listening, err := b.Listening(ctx, id); err == nil {
		out.Listening = slices.Contains(listening, port)
	}
	if out.Service == "" {
		return out
	}
	list, err := m.Guest().Services(ctx)
	if err != nil {
		return out
	}
	at := slices.IndexFunc(list, func(s guest.ServiceStatus) bool { return s.Name == out.Service })
	if at >= 0 {
		out.State, out.Since = list[at].State, list[at].Since
		if out.Log = m.ServiceOutput(ctx, list[at]); b.d.opts.Redact != nil {
			out.Log = b.d.opts.Redact(out.Log)
		}
	}
	return out
}

// Wake implements preview.Boxes.
func (b *boxes) Wake(ctx context.Context, id core.SessionID) error {
	_, err := b.d.workspaces.Wake(ctx, id)
	return err
}

// Hold implements preview.Boxes.
func (b *boxes) Hold(id core.SessionID) (done func()) { return b.d.workspaces.Attach(id) }

// originOf is scheme and host of an address.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func hostnameOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
