package preview

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Modes of previews.
const (
	ModeHosts     = "hosts"     // one listener, a host name for each port
	ModeListeners = "listeners" // a listener for each port; weaker: cookies do not know ports
	ModeOff       = "off"
)

// Bounds.
const (
	maxPorts   = 16  // of one grant: each is one redirect of the entry
	maxRunning = 256 // exchanges of one grant at once
)

// People says who still is who. A credential is what stands for the token or
// the browser a preview was opened with; it is no secret that lets anybody in.
type People interface {
	// Still is Unauthorized once the credential is worth nothing any more.
	Still(ctx context.Context, credential string) (core.Author, error)
}

// Place is where a session is at the moment.
type Place struct {
	Sandbox  core.SandboxID // what runs; "" while it sleeps
	Declared []Port
	Linked   bool // the recipe lets its ports call each other without credentials
}

// Port is one that a recipe declares.
type Port struct {
	Port    int
	Name    string
	Service string
}

// Waiting says why nothing answers on a port yet.
type Waiting struct {
	Service   string
	State     string
	Since     time.Time
	Listening bool
	Log       string // the end of what the service wrote
}

// Boxes reaches into the sandboxes of sessions.
type Boxes interface {
	// Place is NotFound for a session that does not exist or is not for this
	// person, and Conflict for one that is over.
	Place(ctx context.Context, who core.Author, id core.SessionID) (Place, error)
	// Listening are the ports that something listens on.
	Listening(ctx context.Context, id core.SessionID) ([]int, error)
	// Dial connects to a port on the loopback of the sandbox.
	Dial(ctx context.Context, id core.SessionID, port int) (net.Conn, error)
	Waiting(ctx context.Context, id core.SessionID, port int) Waiting
	Wake(ctx context.Context, id core.SessionID) error
	// Hold keeps a sandbox from falling asleep until done is called.
	Hold(id core.SessionID) (done func())
}

// Meter counts. It is told no address of an app.
type Meter interface {
	PreviewRequest(kind string, status int)
	PreviewBytes(up, down int64)
}

// Deps of a Service. Meter and Log may be nil.
type Deps struct {
	People People
	Boxes  Boxes
	Meter  Meter
	Log    *slog.Logger
	// Secret reports whether a text is a secret of Drydock's own, which no app
	// is to see. It may be nil.
	Secret func(string) bool
}

// Options of a Service.
type Options struct {
	Mode string
	URL  string // https://*.preview.example; "": http://*.localhost and the port of the listener
	// Control are the origins of the control plane's page, which may frame
	// previews. The first is where our own pages point to.
	Control []string
	// ListenHost and Name are for ModeListeners: where to listen, and the host
	// name that browsers use.
	ListenHost, Name string
	File             string        // remembers which ports were whose; ModeListeners
	Reserved         []int         // ports that are never shown
	Recheck          time.Duration // of what runs on; default 2 s
	Slow             time.Duration // without a byte of a body; default 60 s
	Head             time.Duration // for a request's head; default 10 s
}

// Service is the part of the daemon that shows previews.
type Service struct {
	deps    Deps
	opts    Options
	log     *slog.Logger
	key     []byte // of links
	proxy   http.Handler
	release func()

	doors *doors // ModeListeners

	mu      sync.Mutex
	names   wildcard // set before anything is served
	ready   bool
	tickets map[[32]byte]ticket
	grants  map[[32]byte]*grant
}

// New returns a service that answers nothing yet.
func New(deps Deps, opts Options) (*Service, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Secret == nil {
		deps.Secret = func(string) bool { return false }
	}
	if deps.Meter == nil {
		deps.Meter = nobody{}
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&opts.Recheck, 2 * time.Second}, {&opts.Slow, time.Minute}, {&opts.Head, 10 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	s := &Service{deps: deps, opts: opts, log: deps.Log, key: make([]byte, 32), tickets: map[[32]byte]ticket{}, grants: map[[32]byte]*grant{}}
	_, _ = rand.Read(s.key) // never fails
	switch opts.Mode {
	case ModeHosts:
		if opts.URL != "" {
			names, err := parseURL(opts.URL)
			if err != nil {
				return nil, err
			}
			if err := apart(names, opts.Control); err != nil {
				return nil, err
			}
			s.names = names
		}
	case ModeListeners:
		if opts.Name == "" {
			return nil, core.E("preview.new", core.Invalid, nil, "previews on listeners of their own need a name that browsers use").
				WithHint("set web.public_url, or give web.preview_listen an address")
		}
		var err error
		if s.doors, err = newDoors(opts.ListenHost, opts.File); err != nil {
			return nil, err
		}
	case ModeOff:
	default:
		return nil, core.E("preview.new", core.Invalid, nil, "there is no preview mode %q; modes: hosts, listeners, off", opts.Mode)
	}
	s.proxy, s.release = s.newProxy()
	return s, nil
}

// apart refuses names under which the control plane could be taken for an app.
func apart(names wildcard, control []string) error {
	for _, origin := range control {
		_, rest, _ := strings.Cut(origin, "://")
		name, _ := splitHost(names.scheme, rest)
		if name == names.base && !isLoopback(name) || strings.HasSuffix(name, "."+names.base) && !isLoopback(name) {
			return core.E("preview.new", core.Invalid, nil, "the control plane (%s) is inside the names of previews (*.%s): what an app sets there reaches it", name, names.base).
				WithHint("give web.preview_url a domain of its own")
		}
	}
	return nil
}

type nobody struct{}

func (nobody) PreviewRequest(string, int) {}
func (nobody) PreviewBytes(int64, int64)  {}

// target is what a request is for.
type target struct {
	label
	scheme string
	host   string // as browsers name it, with the port
	safe   bool   // browsers keep secure cookies here
	weak   bool   // a listener of its own: the host name is shared
}

func (t target) origin() string { return t.scheme + "://" + t.host }

// target is where a port of a session is; with listeners it opens one.
func (s *Service) target(ctx context.Context, l label) (target, error) {
	if s.doors == nil {
		s.mu.Lock()
		names, ready := s.names, s.ready
		s.mu.Unlock()
		if s.opts.Mode == ModeOff || !ready {
			return target{}, core.E("preview.open", core.Unavailable, nil, "this daemon shows no previews").
				WithHint("web.preview_mode in the configuration turns them on")
		}
		return target{label: l, scheme: names.scheme, host: names.host(l), safe: names.safe()}, nil
	}
	l.Link = "" // ports of one host are same-site, and there is no name to hide it in
	port, err := s.doors.open(ctx, s, l)
	if err != nil {
		return target{}, err
	}
	return s.behind(l, port), nil
}

func (s *Service) behind(l label, port string) target {
	return target{label: l, scheme: "http", host: joinHost("http", s.opts.Name, port), weak: true}
}

// Open makes a ticket, for whoever the credential stands for.
func (s *Service) Open(ctx context.Context, credential string, id core.SessionID, req api.OpenPreview) (api.Preview, error) {
	const op = "preview.open"
	who, err := s.deps.People.Still(ctx, credential)
	if err != nil {
		return api.Preview{}, err
	}
	place, err := s.deps.Boxes.Place(ctx, who, id)
	if err != nil {
		return api.Preview{}, err
	}
	if req.Port < 1 || req.Port > 65535 || slices.Contains(s.opts.Reserved, req.Port) {
		return api.Preview{}, core.E(op, core.Invalid, nil, "port %d is not one that can be shown", req.Port)
	}
	declared := slices.ContainsFunc(place.Declared, func(p Port) bool { return p.Port == req.Port })
	if !declared && !req.Any {
		return api.Preview{}, core.E(op, core.Denied, nil, "the recipe of session %s does not declare port %d", id, req.Port).
			WithHint("drydock.yaml declares ports with `ports: [%d]` or a service; `any` shows it all the same", req.Port)
	}
	ports := []int{req.Port}
	for _, p := range place.Declared {
		if len(ports) < maxPorts && !slices.Contains(s.opts.Reserved, p.Port) {
			ports = addPort(ports, p.Port)
		}
	}
	l := label{Port: req.Port, Session: id}
	if place.Linked {
		l.Link = s.link(credential, id)
	}
	t, err := s.target(ctx, l)
	if err != nil {
		return api.Preview{}, err
	}
	secret, expires, err := s.issue(ticket{credential: credential, user: who.Handle, label: t.label, ports: ports})
	if err != nil {
		return api.Preview{}, err
	}
	return api.Preview{
		URL: t.origin() + enterPath + "?ticket=" + secret, Port: req.Port, Declared: declared, Weak: t.weak, Expires: expires,
	}, nil
}

// Ports are those that are declared or listen.
func (s *Service) Ports(ctx context.Context, who core.Author, id core.SessionID) (api.Ports, error) {
	place, err := s.deps.Boxes.Place(ctx, who, id)
	if err != nil {
		return api.Ports{}, err
	}
	out := api.Ports{Items: []api.Port{}, Awake: place.Sandbox != ""}
	for _, p := range place.Declared {
		if !slices.Contains(s.opts.Reserved, p.Port) {
			out.Items = append(out.Items, api.Port{Port: p.Port, Name: p.Name, Service: p.Service, Declared: true})
		}
	}
	var listening []int
	if out.Awake {
		if listening, err = s.deps.Boxes.Listening(ctx, id); err != nil {
			return api.Ports{}, err
		}
	}
	for _, port := range listening {
		at := slices.IndexFunc(out.Items, func(p api.Port) bool { return p.Port == port })
		switch {
		case at >= 0:
			out.Items[at].Listening = true
		case !slices.Contains(s.opts.Reserved, port) && len(out.Items) < 1000:
			out.Items = append(out.Items, api.Port{Port: port, Listening: true})
		}
	}
	slices.SortFunc(out.Items, func(a, b api.Port) int { return a.Port - b.Port })
	if s.doors == nil && !place.Linked && s.opts.Mode == ModeHosts {
		for i, p := range out.Items {
			if t, err := s.target(ctx, label{Port: p.Port, Session: id}); err == nil {
				out.Items[i].URL = t.origin() + "/"
			}
		}
	}
	return out, nil
}

// link is the part of linked hosts that nobody can guess. It stays the same
// for as long as the daemon runs, so that what an app stores in the browser is
// found again.
func (s *Service) link(credential string, id core.SessionID) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(credential + "\x00" + string(id)))
	raw := mac.Sum(nil)[:linkLen]
	for i, b := range raw {
		raw[i] = linkLetters[b&31]
	}
	return string(raw)
}

// Frames is what the control plane's page may frame, for its policy.
func (s *Service) Frames() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.doors != nil:
		return "http://" + net.JoinHostPort(s.opts.Name, "*")
	case s.ready:
		return s.names.scheme + "://*." + joinHost(s.names.scheme, s.names.base, s.names.port)
	}
	return ""
}
