package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/web"
)

// Options are the settings of a Server; zero means the default.
type Options struct {
	Version   string        // of the program, told to clients
	Timeout   time.Duration // of one plain request; default 60 s
	Heartbeat time.Duration // between comments of an idle stream; default 15 s
	Patience  time.Duration // for a browser's stream that takes nothing; default 10 s
	Grace     time.Duration // for requests under way when Serve ends; default 10 s
	MaxDiff   int           // bytes of a diff; default 4 MiB

	// PublicURL is where people reach the page when something in front of the
	// daemon gives it another address (https://drydock.example.com).
	PublicURL string
	// PlainHTTP lets people sign in without TLS on hosts other than loopback.
	PlainHTTP bool
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Timeout, time.Minute)
	def(&o.Heartbeat, 15*time.Second)
	def(&o.Patience, 10*time.Second)
	def(&o.Grace, 10*time.Second)
	if o.MaxDiff <= 0 {
		o.MaxDiff = 4 << 20
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	return o
}

// Server answers the HTTP interface.
type Server struct {
	deps    Deps
	opts    Options
	log     *slog.Logger
	api     huma.API
	mux     *http.ServeMux // of the described interface alone
	doc     []byte         // the OpenAPI document
	handler http.Handler
	page    Page
	hosts   hosts
	tries   tries
	live    live
	closing chan struct{} // closed when Serve ends: every stream ends
	close   func()
}

// New builds the server; nothing listens yet.
func New(deps Deps, opts Options) (*Server, error) {
	if deps.Tokens == nil {
		return nil, core.E("server.new", core.Internal, nil, "no part that knows tokens: the interface would be open")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{deps: deps, opts: opts.withDefaults(), log: deps.Log, mux: http.NewServeMux()}
	var err error
	if s.hosts, err = newHosts(opts.PublicURL); err != nil {
		return nil, err
	}
	if s.page = deps.Web; s.page == nil {
		if s.page, err = web.Embedded(); err != nil {
			return nil, err
		}
	}
	s.closing = make(chan struct{})
	s.close = sync.OnceFunc(func() { close(s.closing) })
	s.describe()
	s.routes()
	doc, err := s.document()
	if err != nil {
		return nil, err
	}
	s.doc = doc
	s.handler = s.wrap(s.root())
	return s, nil
}

// Handler is the whole interface.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on l until ctx ends, then lets requests under way finish
// within the grace; streams end at once, their clients come back. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()
	select {
	case err := <-done:
		s.close()
		return core.E("server.serve", core.Unavailable, err, "serve on %s", l.Addr())
	case <-ctx.Done():
	}
	s.close()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Grace)
	defer cancel()
	err := hs.Shutdown(grace)
	if err != nil {
		err = hs.Close()
	}
	if serveErr := <-done; err == nil && !errors.Is(serveErr, http.ErrServerClosed) {
		err = serveErr
	}
	return err
}

// root spreads the paths.
func (s *Server) root() http.Handler {
	root := http.NewServeMux()
	root.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{\"status\":\"ok\"}\n"))
	})
	root.HandleFunc("GET "+openAPIPath, s.serveOpenAPI)
	apiHandler := strictQuery(http.HandlerFunc(s.serveAPI))
	root.Handle(api.Prefix+"/", s.visited(s.authenticated(bearerOrCookie, apiHandler)))
	root.Handle("POST "+loginPath, s.visited(apiHandler)) // nobody yet
	if s.deps.Git != nil {
		root.Handle("/git/", s.authenticated(bearerOrBasic, http.HandlerFunc(s.serveGit)))
	}
	if s.deps.Metrics != nil {
		root.Handle("GET /metrics", s.authenticated(bearerOnly, s.deps.Metrics))
	}
	miss := jsonMisses(http.NewServeMux())
	root.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead || !s.page.Has(r.URL.Path) {
			miss.ServeHTTP(w, r)
			return
		}
		s.page.Serve(s.framing(w), r, s.snapshot(r))
	})
	return jsonMisses(root)
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, api.MaxBody)
	jsonMisses(s.mux).ServeHTTP(w, r)
}

func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	http.StripPrefix("/git", s.deps.Git(authorOf(r.Context()))).ServeHTTP(w, r)
}
