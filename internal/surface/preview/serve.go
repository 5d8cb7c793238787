package preview

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"drydock/internal/core"
)

// maxConns bounds the connections of one listener.
const maxConns = 1024

// Serve shows previews until ctx ends; sockets and streams end with it. In
// ModeHosts it answers on l and closes it; in the others l is nil.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	var loops sync.WaitGroup
	loops.Go(func() { s.watch(ctx) })
	defer loops.Wait()
	defer s.release()
	if s.doors != nil {
		defer s.doors.close()
	}
	if l == nil {
		<-ctx.Done()
		return nil
	}
	s.listening(l)
	return s.serve(ctx, l, func(r *http.Request) (target, bool) {
		at, ok := s.names.parse(r.Host)
		return target{label: at, scheme: s.names.scheme, host: s.names.host(at), safe: s.names.safe()}, ok
	})
}

// Listening says where previews will answer, before Serve does.
func (s *Service) Listening(l net.Listener) { s.listening(l) }

func (s *Service) listening(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names.base == "" {
		at, _ := l.Addr().(*net.TCPAddr)
		s.names = wildcard{scheme: "http", base: "localhost", port: strconv.Itoa(at.Port)}
	}
	s.ready = true
}

func (s *Service) serve(ctx context.Context, l net.Listener, find func(*http.Request) (target, bool)) error {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	hs := &http.Server{
		Handler: s.handler(find), ReadHeaderTimeout: s.opts.Head, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return base }, Protocols: new(http.Protocols),
	}
	hs.Protocols.SetHTTP1(true)
	done := make(chan error, 1)
	go func() { done <- hs.Serve(netutil.LimitListener(l, maxConns)) }()
	select {
	case err := <-done:
		cut(errEnded)
		return core.E("preview.serve", core.Unavailable, err, "show previews on %s", l.Addr())
	case <-ctx.Done():
	}
	cut(errEnded)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if hs.Shutdown(grace) != nil {
		_ = hs.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// watch looks after what runs on.
func (s *Service) watch(ctx context.Context) {
	tick := time.NewTicker(s.opts.Recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.recheck(ctx)
		}
	}
}

// handler answers whatever is asked for on a listener of previews.
func (s *Service) handler(find func(*http.Request) (target, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v != http.ErrAbortHandler { //nolint:errorlint // a value of panic, compared as net/http does
				s.log.ErrorContext(r.Context(), "panic in a preview", "err", v, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Time{}) // that of the request before
		if r.Body != http.NoBody {           // the server reads on what nobody wanted
			defer func() { _ = rc.SetReadDeadline(time.Now().Add(s.opts.Slow)) }()
		}
		if why := malformed(r); why != "" {
			w.Header().Set("Connection", "close")
			s.page(w, r, target{}, sheet{status: http.StatusBadRequest, title: "Not a request for an app", text: why})
			return
		}
		t, ok := find(r)
		if !ok {
			s.page(w, r, target{}, sheet{status: http.StatusMisdirectedRequest, title: "No preview has this name", text: "Previews answer under names of their own only."})
			return
		}
		if isOwn(r.URL.Path) {
			s.own(w, r, t)
			return
		}
		g, err := s.admit(r, t)
		if err != nil {
			s.refuse(w, r, t, err)
			return
		}
		place, err := s.still(r.Context(), g)
		if err != nil {
			s.refuse(w, r, t, err)
			return
		}
		if place.Sandbox == "" {
			s.asleep(w, r, t)
			return
		}
		s.forward(w, r, t, g, place)
	})
}
