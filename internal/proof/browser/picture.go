package browser

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"drydock/internal/core"
)

// Machine is a place with a browser in it: a sandbox.
type Machine interface {
	// Start runs a program in the background until stop is called; stop ends
	// its whole process group and returns when it is gone. output is the end of
	// what it wrote so far.
	Start(ctx context.Context, argv []string) (stop func(), output func() string, err error)
	// Dial reaches a TCP port on the machine's loopback.
	Dial(ctx context.Context, port int) (net.Conn, error)
}

// Request says what to picture.
type Request struct {
	URL    string // http or https, as seen inside
	Width  int    // default 1280
	Height int    // default 800
	Full   bool   // the whole height of the page, at most 10,000 pixels
	// Selector and Wait say what to wait for after loading: something visible
	// that matches (at most 20 s), and then a time.
	Selector string
	Wait     time.Duration
	// Timeout of the whole picture; default 45 s and Wait.
	Timeout time.Duration
	// Clock is what the page takes for now; default a fixed day.
	Clock time.Time
}

// Shot is a pictured page.
type Shot struct {
	PNG            []byte
	Width, Height  int
	Title          string
	URL            string // after redirects
	Status         int    // of the document, 0 if it came from nowhere
	ConsoleErrors  []string
	FailedRequests []string
	BrowserVersion string
	Stable         bool // two captures in a row were equal
}

const (
	maxSide     = 4096
	maxFull     = 10_000
	startTime   = time.Minute // of one browser, on a busy machine
	askTime     = 5 * time.Second
	defaultTime = 45 * time.Second
)

// Picture starts a browser in the machine, pictures one page and stops it.
func Picture(ctx context.Context, m Machine, req Request) (Shot, error) {
	var shot Shot
	err := With(ctx, m, func(b *Browser) error {
		var err error
		shot, err = b.Picture(ctx, req)
		return err
	})
	return shot, err
}

// Browser is one running browser. It is used by one goroutine.
type Browser struct {
	client  *client
	version string
	events  chan event
	spare   string // the empty tab it came up with, until a page is put there
}

// Services are ports of the machine's own services. One of them may be a
// browser that was kept running: it is used instead of a new one, which takes
// seconds to come up.
type Services interface{ ServicePorts() []int }

// askRunning bounds the question whether a service is a browser.
const askRunning = 500 * time.Millisecond

// With starts a browser, hands it to use and stops it. A browser that does not
// come up gets a second chance on another port.
func With(ctx context.Context, m Machine, use func(*Browser) error) error {
	if s, ok := m.(Services); ok {
		for _, port := range s.ServicePorts() {
			if used, err := attach(ctx, m, port, use); used {
				return err
			}
		}
	}
	started, err := once(ctx, m, use)
	if err != nil && !started && core.Is(err, core.Unavailable) && ctx.Err() == nil {
		_, err = once(ctx, m, use)
	}
	return err
}

// attach uses a browser that runs already, and leaves it running: every page
// gets a context of its own there.
func attach(ctx context.Context, m Machine, port int, use func(*Browser) error) (used bool, err error) {
	ask, cancel := context.WithTimeout(ctx, askRunning)
	defer cancel()
	v, err := readVersion(ask, m.Dial, port)
	if err != nil || v.URL == "" {
		return false, nil //nolint:nilerr // a service that is no browser
	}
	b := &Browser{version: v.Browser, events: make(chan event, 4096)}
	open, cancelOpen := context.WithTimeout(ctx, askTime)
	defer cancelOpen()
	if b.client, err = connect(open, m.Dial, port, v, b.take); err != nil {
		return false, nil //nolint:nilerr // it does not answer like one
	}
	defer b.client.close()
	return true, use(b)
}

func once(ctx context.Context, m Machine, use func(*Browser) error) (up bool, err error) {
	const op = "browser.start"
	port := 20_000 + rand.IntN(9_000) //nolint:gosec // a port number is no secret
	stop, output, err := m.Start(ctx, command(port))
	if err != nil {
		return false, core.E(op, core.Unavailable, err, "start the browser")
	}
	defer stop()
	started, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	v, err := await(started, m.Dial, port, output)
	if err != nil {
		if ctx.Err() != nil {
			return false, core.E(op, core.KindOf(ctx.Err()), context.Cause(ctx), "the browser was not waited for")
		}
		return false, err
	}
	b := &Browser{version: v.Browser, events: make(chan event, 4096)}
	b.client, err = connect(started, m.Dial, port, v, b.take)
	if err != nil {
		return false, core.E(op, core.Unavailable, err, "connect to the browser")
	}
	defer b.client.close()
	if err := b.findSpare(started); err != nil {
		return false, core.E(op, core.Unavailable, err, "ask the browser for its tabs")
	}
	return true, use(b)
}

// take queues an event; a page that makes more than anybody reads loses them.
func (b *Browser) take(e event) {
	select {
	case b.events <- e:
	default:
	}
}

// await asks the debugging port until the browser answers.
func await(ctx context.Context, dial dialer, port int, output func() string) (version, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ask, cancel := context.WithTimeout(ctx, askTime)
		v, err := readVersion(ask, dial, port)
		cancel()
		if err == nil {
			return v, nil
		}
		if text := output(); strings.Contains(text, missingBrowser) {
			return v, core.E("browser.start", core.NotFound, nil, "there is no browser in this environment").
				WithHint("add chromium-headless-shell (or chromium) to the packages of drydock.yaml")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return v, core.E("browser.start", core.Unavailable, err, "the browser did not answer within %s; it wrote: %s", startTime, clip(output(), 500))
		}
	}
}

const missingBrowser = "drydock: no browser"

// homeCalls are hosts that a browser calls by itself, whatever the page. They
// are answered inside the browser, so that nobody reads their denials as the
// page's. Hosts that pages use stay the business of the sandbox's policy.
func homeCalls() string {
	var rules []string
	for _, host := range []string{
		"accounts.google.com", "clients*.google.com", "update.googleapis.com", "optimizationguide-pa.googleapis.com",
		"content-autofill.googleapis.com", "safebrowsing.googleapis.com", "safebrowsingohttpgateway.googleapis.com", "*.gvt1.com",
	} {
		rules = append(rules, "MAP "+host+" ~NOTFOUND")
	}
	return strings.Join(rules, ", ")
}

// command starts whichever Chromium is there, with a profile of its own that
// goes away with it. The one without windows comes first: it starts in a third
// of the time and shows the same. The program itself is preferred to the script
// by which a distribution starts it: the script takes a second, and adds flags
// of the machine's user. The profile's path is short: a socket lies below it,
// and a browser whose socket has too long a path does not come up.
func command(port int) []string {
	flags := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--disable-breakpad", "--disable-crash-reporter", "--disable-default-apps", "--disable-domain-reliability",
		"--disable-dev-shm-usage", "--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--font-render-hinting=none", "--disable-font-subpixel-positioning", "--disable-lcd-text", "--hide-scrollbars",
		"--force-color-profile=srgb", "--force-device-scale-factor=1", "--disable-partial-raster", "--lang=en-US",
		"--mute-audio", "--password-store=basic", "--use-mock-keychain", "--no-proxy-server",
		"--host-resolver-rules=" + homeCalls(),
		"--remote-debugging-address=127.0.0.1", fmt.Sprintf("--remote-debugging-port=%d", port), "about:blank",
	}
	script := `for b in chromium-headless-shell headless_shell chromium chromium-browser google-chrome-stable google-chrome chrome; do
  if command -v "$b" >/dev/null 2>&1; then found=$b; break; fi
done
[ -n "${found:-}" ] || { echo "` + missingBrowser + `"; exit 127; }
[ ! -x "/usr/lib/$found/$found" ] || found="/usr/lib/$found/$found"
d=$(mktemp -d /tmp/b.XXXXXX 2>/dev/null || mktemp -d) || exit 1
export HOME="$d" TMPDIR="$d" XDG_CONFIG_HOME="$d" XDG_CACHE_HOME="$d" TZ=UTC LANG=C.UTF-8
trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$d"; exit 0' TERM INT HUP
"$found" --user-data-dir="$d/profile" "$@" &
pid=$!
wait "$pid"; code=$?
rm -rf "$d"
exit $code`
	return append([]string{"sh", "-c", script, "sh"}, flags...)
}

func (r *Request) defaults() error {
	const op = "browser.picture"
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return core.E(op, core.Invalid, err, "%.200q is not the address of a page", r.URL).
			WithHint("use http://127.0.0.1:PORT/PATH, as seen inside the sandbox")
	}
	if r.Width == 0 {
		r.Width = 1280
	}
	if r.Height == 0 {
		r.Height = 800
	}
	if r.Width < 16 || r.Height < 16 || r.Width > maxSide || r.Height > maxSide {
		return core.E(op, core.Invalid, nil, "viewport %dx%d is outside 16x16 to %dx%d", r.Width, r.Height, maxSide, maxSide)
	}
	if r.Timeout <= 0 {
		r.Timeout = defaultTime + r.Wait
	}
	if r.Clock.IsZero() {
		r.Clock = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	}
	return nil
}

// Picture pictures one page in a context of its own: no cookie, no storage and
// no cache of an earlier one.
func (b *Browser) Picture(ctx context.Context, req Request) (Shot, error) {
	const op = "browser.picture"
	if err := req.defaults(); err != nil {
		return Shot{}, err
	}
	limited, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	shot, err := b.picture(limited, req)
	if err != nil {
		if ctx.Err() != nil {
			return Shot{}, core.E(op, core.KindOf(ctx.Err()), context.Cause(ctx), "page %s", req.URL)
		}
		if _, known := errors.AsType[*core.Error](err); known {
			return shot, err
		}
		return shot, core.E(op, core.Unavailable, err, "page %s", req.URL)
	}
	return shot, nil
}
