package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
)

const (
	maxLines  = 100 // console errors, failed requests
	quietTime = 300 * time.Millisecond
	quietMost = 5 * time.Second
	loadMost  = 20 * time.Second
	pause     = 120 * time.Millisecond
	captures  = 8
)

// page is one tab while it is pictured.
type page struct {
	b       *Browser
	session string
	frame   string

	loaded   bool
	status   int
	inflight map[string]string // request to "GET url"
	console  []string
	failed   []string
}

func (b *Browser) picture(ctx context.Context, req Request) (Shot, error) {
	shot := Shot{BrowserVersion: b.version}
	p, closeTab, err := b.open(ctx, req)
	if err != nil {
		return shot, err
	}
	defer closeTab()
	if err = p.load(ctx, req); err == nil {
		err = p.appear(ctx, req)
	}
	shot.Status, shot.ConsoleErrors, shot.FailedRequests = p.status, p.console, p.failed
	if err != nil {
		return shot, err
	}
	var info struct {
		Title string `json:"title"`
		URL   string `json:"url"`
	}
	if err := p.evaluate(ctx, `(async () => {
		await document.fonts.ready;
		await Promise.all([...document.images].filter(i => i.loading !== 'lazy').map(i => i.decode().catch(() => {})));
		await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
		return {title: String(document.title), url: String(location.href)};
	})()`, &info); err != nil {
		return shot, err
	}
	shot.Title, shot.URL = clip(info.Title, 300), clip(info.URL, 2000)
	for i := range captures {
		raw, err := p.capture(ctx, req)
		if err != nil {
			return shot, err
		}
		if shot.Stable = i > 0 && same(raw, shot.PNG); shot.Stable {
			break
		}
		shot.PNG = raw
		if err := p.listen(ctx, pause, func() bool { return false }); err != nil {
			return shot, err
		}
	}
	shot.ConsoleErrors, shot.FailedRequests = p.console, p.failed
	config, err := checkPNG(shot.PNG)
	if err != nil {
		return shot, err
	}
	shot.Width, shot.Height = config.Width, config.Height
	return shot, nil
}

// same compares captures; most equal ones are equal byte for byte.
func same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := decode(a)
	y, err2 := decode(b)
	return err == nil && err2 == nil && x.Rect == y.Rect && bytes.Equal(x.Pix, y.Pix)
}

// tab finds a place for a page: first the empty tab that the browser came up
// with, whose process is there already, then one in a context of its own.
func (b *Browser) tab(ctx context.Context, req Request) (target string, closeTab func(), err error) {
	undo := func(method string, params map[string]any) func() {
		return func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			_ = b.client.call(ctx, "", method, params, nil)
		}
	}
	if target, b.spare = b.spare, ""; target != "" {
		return target, undo("Target.closeTarget", map[string]any{"targetId": target}), nil
	}
	var made struct {
		BrowserContextID string `json:"browserContextId"`
		TargetID         string `json:"targetId"`
	}
	if err := b.client.call(ctx, "", "Target.createBrowserContext", nil, &made); err != nil {
		return "", nil, err
	}
	closeTab = undo("Target.disposeBrowserContext", map[string]any{"browserContextId": made.BrowserContextID})
	if err := b.client.call(ctx, "", "Target.createTarget", map[string]any{
		"url": "about:blank", "browserContextId": made.BrowserContextID, "width": req.Width, "height": req.Height,
	}, &made); err != nil {
		closeTab()
		return "", nil, err
	}
	return made.TargetID, closeTab, nil
}

// findSpare remembers the empty tab of a browser that has just come up.
func (b *Browser) findSpare(ctx context.Context) error {
	var all struct {
		Infos []struct {
			TargetID string `json:"targetId"`
			Type     string `json:"type"`
			URL      string `json:"url"`
		} `json:"targetInfos"`
	}
	if err := b.client.call(ctx, "", "Target.getTargets", nil, &all); err != nil {
		return err
	}
	for _, t := range all.Infos {
		if t.Type == "page" && t.URL == "about:blank" {
			b.spare = t.TargetID
		}
	}
	return nil
}

// open makes a tab that is fixed in every way that could make two pictures
// differ.
func (b *Browser) open(ctx context.Context, req Request) (*page, func(), error) {
	target, closeTab, err := b.tab(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	var made struct {
		SessionID string `json:"sessionId"`
	}
	p := &page{b: b, inflight: map[string]string{}}
	err = b.client.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &made)
	if err == nil {
		p.session = made.SessionID
		err = p.fix(ctx, req)
	}
	if err != nil {
		closeTab()
		return nil, nil, err
	}
	return p, closeTab, nil
}

// fix asks for everything at once: each answer takes as long as the tab's
// process takes to come up, and their order does not matter.
func (p *page) fix(ctx context.Context, req Request) error {
	g, ctx := errgroup.WithContext(ctx)
	for method, params := range map[string]map[string]any{
		"Page.enable":                           nil,
		"Runtime.enable":                        nil,
		"Network.enable":                        nil,
		"Log.enable":                            nil,
		"Page.setBypassCSP":                     {"enabled": true},
		"Network.setCacheDisabled":              {"cacheDisabled": true},
		"Emulation.setDeviceMetricsOverride":    {"width": req.Width, "height": req.Height, "deviceScaleFactor": 1, "mobile": false},
		"Emulation.setTimezoneOverride":         {"timezoneId": "UTC"},
		"Emulation.setLocaleOverride":           {"locale": "en-US"},
		"Emulation.setScrollbarsHidden":         {"hidden": true},
		"Emulation.setFocusEmulationEnabled":    {"enabled": true},
		"Page.addScriptToEvaluateOnNewDocument": {"source": fixture(req.Clock)},
		"Emulation.setEmulatedMedia": {"features": []map[string]any{
			{"name": "prefers-reduced-motion", "value": "reduce"}, {"name": "prefers-color-scheme", "value": "light"},
		}},
	} {
		g.Go(func() error { return p.b.client.call(ctx, p.session, method, params, nil) })
	}
	return g.Wait()
}

// fixture is the script that stops a page's clock, its chance and its motion.
func fixture(clock time.Time) string {
	return fmt.Sprintf(`(() => {
  const now = %d, Real = Date;
  class Fixed extends Real { constructor(...a) { a.length ? super(...a) : super(now); } static now() { return now; } }
  globalThis.Date = new Proxy(Fixed, { apply: () => new Fixed().toString() });
  let seed = 42;
  Math.random = () => { seed = (seed * 1664525 + 1013904223) %% 4294967296; return seed / 4294967296; };
  const still = () => {
    if (!document.documentElement || document.getElementById('drydock-still')) return;
    const s = document.createElement('style');
    s.id = 'drydock-still';
    s.textContent = '*,*::before,*::after{animation-duration:0s!important;animation-delay:0s!important;animation-iteration-count:1!important;' +
      'transition:none!important;caret-color:transparent!important;scroll-behavior:auto!important}';
    document.documentElement.appendChild(s);
  };
  document.addEventListener('DOMContentLoaded', still);
  addEventListener('load', still);
})()`, clock.UnixMilli())
}

// load goes to the page and waits until it is there and quiet. A page that
// cannot be reached is an error: there is nothing of it to picture.
func (p *page) load(ctx context.Context, req Request) error {
	var nav struct {
		FrameID   string `json:"frameId"`
		ErrorText string `json:"errorText"`
	}
	if err := p.b.client.call(ctx, p.session, "Page.navigate", map[string]any{"url": req.URL}, &nav); err != nil {
		return err
	}
	p.frame = nav.FrameID
	if nav.ErrorText != "" {
		return core.E("browser.picture", core.Unavailable, nil, "page %s cannot be opened: %s", req.URL, clip(nav.ErrorText, 200))
	}
	if err := p.listen(ctx, loadMost, func() bool { return p.loaded }); err != nil {
		return err
	}
	deadline := time.Now().Add(quietMost)
	for quiet := false; !quiet && time.Now().Before(deadline); {
		quiet = true
		if err := p.listen(ctx, quietTime, func() bool {
			quiet = quiet && len(p.inflight) == 0
			return false
		}); err != nil {
			return err
		}
		quiet = quiet && len(p.inflight) == 0
	}
	return nil
}

// appear waits for what the recipe says must be there.
func (p *page) appear(ctx context.Context, req Request) error {
	if req.Selector == "" {
		return p.listen(ctx, req.Wait, func() bool { return false })
	}
	selector, err := json.Marshal(req.Selector)
	if err != nil {
		return err
	}
	script := `(() => {
		const e = document.querySelector(` + string(selector) + `);
		if (!e) return false;
		const box = e.getBoundingClientRect(), style = getComputedStyle(e);
		return box.width > 0 && box.height > 0 && style.visibility !== 'hidden' && style.opacity !== '0';
	})()`
	for deadline := time.Now().Add(loadMost); ; {
		visible := false
		if err := p.evaluate(ctx, script, &visible); err != nil {
			return err
		}
		if visible {
			return p.listen(ctx, req.Wait, func() bool { return false })
		}
		if time.Now().After(deadline) {
			return core.E("browser.picture", core.Unavailable, nil, "page %s shows nothing that matches %q within %s", req.URL, clip(req.Selector, 200), loadMost)
		}
		if err := p.listen(ctx, pause, func() bool { return false }); err != nil {
			return err
		}
	}
}

// listen takes events until enough says so or the time is up.
func (p *page) listen(ctx context.Context, limit time.Duration, enough func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !enough() {
		select {
		case e := <-p.b.events:
			if e.Session == p.session {
				p.event(e)
			}
		case <-timer.C:
			return nil
		case <-p.b.client.done:
			p.b.client.mu.Lock()
			defer p.b.client.mu.Unlock()
			return p.b.client.failed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *page) event(e event) {
	switch e.Method {
	case "Page.loadEventFired":
		p.loaded = true
	case "Network.requestWillBeSent", "Network.responseReceived", "Network.loadingFinished", "Network.loadingFailed":
		p.network(e)
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		p.say(e)
	}
}

type networkEvent struct {
	RequestID string `json:"requestId"`
	FrameID   string `json:"frameId"`
	Type      string `json:"type"`
	Request   struct {
		URL    string `json:"url"`
		Method string `json:"method"`
	} `json:"request"`
	Response struct {
		URL    string `json:"url"`
		Status int    `json:"status"`
	} `json:"response"`
	ErrorText string `json:"errorText"`
	Canceled  bool   `json:"canceled"`
}

func (p *page) network(e event) {
	var n networkEvent
	if json.Unmarshal(e.Params, &n) != nil {
		return
	}
	switch e.Method {
	case "Network.requestWillBeSent":
		if n.Type != "EventSource" && n.Type != "WebSocket" && !strings.HasPrefix(n.Request.URL, "data:") && len(p.inflight) < 1000 {
			p.inflight[n.RequestID] = n.Request.Method + " " + place(n.Request.URL)
		}
	case "Network.responseReceived":
		if n.Type == "Document" && n.FrameID == p.frame {
			p.status = n.Response.Status
		}
		// Browsers ask for this one by themselves.
		if n.Response.Status >= 400 && !strings.HasSuffix(place(n.Response.URL), "/favicon.ico") {
			what := p.inflight[n.RequestID]
			if what == "" {
				what = "GET " + place(n.Response.URL)
			}
			p.failed = note(p.failed, fmt.Sprintf("%s: %d", what, n.Response.Status))
		}
	case "Network.loadingFailed":
		if what := p.inflight[n.RequestID]; !n.Canceled && what != "" {
			p.failed = note(p.failed, what+": "+clip(n.ErrorText, 100))
		}
		delete(p.inflight, n.RequestID)
	case "Network.loadingFinished":
		delete(p.inflight, n.RequestID)
	}
}

// place is an address without what changes from run to run.
func place(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return clip(address, 200)
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return clip(u.String(), 300)
}

func (p *page) say(e event) {
	var c struct {
		Type string `json:"type"`
		Args []struct {
			Value       any    `json:"value"`
			Description string `json:"description"`
		} `json:"args"`
		Details struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
		Entry struct {
			Source string `json:"source"`
			Level  string `json:"level"`
			Text   string `json:"text"`
		} `json:"entry"`
	}
	if json.Unmarshal(e.Params, &c) != nil {
		return
	}
	switch e.Method {
	case "Runtime.consoleAPICalled":
		if c.Type != "error" && c.Type != "assert" {
			return
		}
		var words []string
		for _, a := range c.Args[:min(len(c.Args), 10)] {
			switch {
			case a.Description != "":
				words = append(words, firstLine(a.Description))
			case a.Value != nil:
				words = append(words, fmt.Sprint(a.Value))
			}
		}
		p.console = note(p.console, strings.Join(words, " "))
	case "Runtime.exceptionThrown":
		p.console = note(p.console, "uncaught: "+firstLine(first(c.Details.Exception.Description, c.Details.Text)))
	case "Log.entryAdded":
		// Network faults are among the failed requests already.
		if c.Entry.Level == "error" && c.Entry.Source != "network" && c.Entry.Source != "javascript" {
			p.console = note(p.console, firstLine(c.Entry.Text))
		}
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// note adds a line once.
func note(list []string, line string) []string {
	line = clip(strings.Join(strings.Fields(line), " "), 500)
	if line == "" || len(list) >= maxLines || slices.Contains(list, line) {
		return list
	}
	return append(list, line)
}

func (p *page) evaluate(ctx context.Context, script string, out any) error {
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	err := p.b.client.call(ctx, p.session, "Runtime.evaluate", map[string]any{
		"expression": script, "awaitPromise": true, "returnByValue": true, "timeout": 10_000,
	}, &r)
	if err != nil {
		return err
	}
	if r.Exception != nil || len(r.Result.Value) == 0 {
		return nil // the page broke its own globals; the picture is still worth having
	}
	return json.Unmarshal(r.Result.Value, out)
}

func (p *page) capture(ctx context.Context, req Request) ([]byte, error) {
	params := map[string]any{"format": "png", "optimizeForSpeed": true}
	if req.Full {
		var layout struct {
			Size struct {
				Height float64 `json:"height"`
			} `json:"cssContentSize"`
		}
		if err := p.b.client.call(ctx, p.session, "Page.getLayoutMetrics", nil, &layout); err != nil {
			return nil, err
		}
		height := min(max(int(layout.Size.Height), req.Height), maxFull)
		params["captureBeyondViewport"] = true
		params["clip"] = map[string]any{"x": 0, "y": 0, "width": req.Width, "height": height, "scale": 1}
	}
	var out struct {
		Data []byte `json:"data"`
	}
	if err := p.b.client.call(ctx, p.session, "Page.captureScreenshot", params, &out); err != nil {
		return nil, err
	}
	return out.Data, nil
}
