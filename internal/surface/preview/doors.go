package preview

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"drydock/internal/core"
)

// Bounds of listeners.
const (
	maxDoors = 64
	maxKnown = 20000 // ports that were somebody's
)

// doors are the listeners of ModeListeners, one for each port of each session.
// A port that was a session's is never another one's: what an app left in a
// browser there (a service worker, say) would meet the next app.
type doors struct {
	host, file string

	mu     sync.Mutex
	ctx    context.Context //nolint:containedctx // the life of the listeners
	stop   context.CancelFunc
	owner  map[string]label // by port, open or not
	opened map[label]string // port of those that are open
	wg     sync.WaitGroup
	done   bool
}

// newDoors reads which ports were whose.
func newDoors(host, file string) (*doors, error) {
	d := &doors{host: host, file: file, owner: map[string]label{}, opened: map[label]string{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	if file == "" {
		return d, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, core.E("preview.new", core.Unavailable, err, "read whose ports were whose in %s", file)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(d.owner) < maxKnown {
		port, name, _ := strings.Cut(lines.Text(), " ")
		if l, ok := parseLabel(name); ok {
			d.owner[port] = l
		}
	}
	return d, nil
}

func (d *doors) close() {
	d.mu.Lock()
	d.done = true
	d.stop()
	d.mu.Unlock()
	d.wg.Wait()
}

// whose is the label of a port.
func (d *doors) whose(port string) (label, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.owner[port]
	return l, ok && d.opened[l] == port
}

// open finds the listener of a label, or makes it.
func (d *doors) open(ctx context.Context, s *Service, l label) (port string, err error) {
	const op = "preview.listen"
	d.mu.Lock()
	defer d.mu.Unlock()
	if port = d.opened[l]; port != "" {
		return port, nil
	}
	if d.done {
		return "", core.E(op, core.Unavailable, nil, "the daemon is shutting down")
	}
	if len(d.opened) >= maxDoors || len(d.owner) >= maxKnown {
		return "", core.E(op, core.Exhausted, nil, "%d previews have a listener of their own", len(d.opened)).
			WithHint("web.preview_url with a wildcard name needs one listener for all of them")
	}
	listener, err := d.listen(ctx, l)
	if err != nil {
		return "", core.E(op, core.Unavailable, err, "a listener for port %d of session %s", l.Port, l.Session)
	}
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	if err := d.remember(port, l); err != nil {
		_ = listener.Close()
		return "", core.E(op, core.Unavailable, err, "note whose port %s is", port)
	}
	d.owner[port], d.opened[l] = l, port
	t := s.behind(l, port)
	d.wg.Go(func() {
		err := s.serve(d.ctx, listener, func(r *http.Request) (target, bool) {
			return t, strings.ToLower(r.Host) == t.host
		})
		if err != nil {
			s.log.Warn("a listener of a preview ended", "session", l.Session, "err", err)
		}
		d.mu.Lock()
		delete(d.opened, l)
		d.mu.Unlock()
	})
	return port, nil
}

// listen takes the port that this label had before, or one that nobody had.
func (d *doors) listen(ctx context.Context, l label) (net.Listener, error) {
	var lc net.ListenConfig
	for port, owner := range d.owner {
		if owner == l {
			if got, err := lc.Listen(ctx, "tcp", net.JoinHostPort(d.host, port)); err == nil {
				return got, nil
			}
		}
	}
	for range 100 {
		got, err := lc.Listen(ctx, "tcp", net.JoinHostPort(d.host, "0"))
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(got.Addr().String())
		if owner, had := d.owner[port]; !had || owner == l {
			return got, nil
		}
		_ = got.Close()
	}
	return nil, fmt.Errorf("every port that is free was another session's")
}

func (d *doors) remember(port string, l label) error {
	if _, err := strconv.Atoi(port); err != nil || d.owner[port] == l || d.file == "" {
		return err
	}
	f, err := os.OpenFile(d.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", port, l)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
