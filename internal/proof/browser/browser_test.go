package browser

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/proof/exam"
	"drydock/internal/testkit/need"
)

// A page with everything that makes pictures differ: a clock, chance, an
// animation, a caret.
const restless = `<!doctype html><title>Shop</title><style>
body{font:16px sans-serif;margin:20px;height:%dpx}
@keyframes spin{from{transform:rotate(0)}to{transform:rotate(360deg)}}
.s{width:40px;height:40px;background:#07c;animation:spin 1s linear infinite}
button{position:absolute;left:%dpx;top:200px;width:120px;height:40px}
</style><p id=t></p><p id=r></p><div class=s></div><input autofocus value=abc><button>Buy</button>
<script>setInterval(()=>{t.textContent=new Date().toISOString()+Date.now()},20);r.textContent=Math.random();%s</script>`

func site(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	page := func(path string, height, left int, script string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'")
			_, _ = fmt.Fprintf(w, restless, height, left, script)
		})
	}
	page("/base", 400, 100, `console.error("old fault", 7)`)
	page("/moved", 400, 102, `console.error("old fault", 7)`)
	page("/tall", 1200, 100, "")
	page("/faults", 400, 100, `console.error("old fault", 7);fetch('/missing?x=1');setTimeout(()=>{null.x})`)
	n := 0
	mux.HandleFunc("/noisy", func(w http.ResponseWriter, _ *http.Request) {
		n++
		_, _ = fmt.Fprintf(w, `<body style="margin:0;background:white"><div style="width:100px;height:100px;background:rgb(%d,0,0)"></div>`, n*60%256)
	})
	mux.HandleFunc("/late", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<title>early</title><p id=x style="display:none">there</p><script>
setTimeout(() => { document.title = 'shown'; x.style.display = 'block'; }, 1000); setTimeout(() => { document.title = 'waited'; }, 1500)</script>`))
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("oops"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestPictures(t *testing.T) {
	need.Chromium(t)
	machine := hostMachine{t: t, env: append(os.Environ(), "HOME="+t.TempDir())}
	url := site(t)
	err := With(t.Context(), machine, func(b *Browser) error {
		shoot := func(path string, full bool) Shot {
			t.Helper()
			s, err := b.Picture(t.Context(), Request{URL: url + path, Width: 640, Height: 480, Full: full})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			return s
		}
		one, two := shoot("/base", false), shoot("/base", false)
		if one.Title != "Shop" || one.Status != 200 || one.Width != 640 || one.Height != 480 || !one.Stable || !strings.Contains(one.BrowserVersion, "Chrome/") {
			t.Errorf("shot %+v", struct {
				string
				int
				bool
			}{one.Title, one.Status, one.Stable})
		}
		if diff := cmp.Diff([]string{"old fault 7"}, one.ConsoleErrors); diff != "" {
			t.Errorf("console (-want +got):\n%s", diff)
		}
		compare := func(branch Shot) Difference {
			t.Helper()
			d, err := Compare(one.PNG, two.PNG, branch.PNG)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if d := compare(two); d.Changed != 0 || d.Noise != 0 || len(d.Boxes) != 0 {
			t.Errorf("a page with a clock and an animation differs from itself: %v %v %v", d.Changed, d.Noise, d.Boxes)
		}
		d := compare(shoot("/moved", false))
		button := image.Rect(100, 200, 222, 240)
		if len(d.Boxes) == 0 || !d.Boxes[0].Overlaps(button) || d.Changed == 0 || d.Changed > 0.02 {
			t.Errorf("a button moved by 2 px: %v %v", d.Changed, d.Boxes)
		}
		tall := shoot("/tall", true)
		if d := compare(tall); d.Resized != "640x480 to 640x1240" && !strings.HasPrefix(d.Resized, "640x480 to 640x12") {
			t.Errorf("size change told as %q", d.Resized)
		}
		faults := shoot("/faults", false)
		if diff := cmp.Diff([]string{"GET " + url + "/missing: 404"}, faults.FailedRequests); diff != "" {
			t.Errorf("failed requests (-want +got):\n%s", diff)
		}
		if len(faults.ConsoleErrors) != 2 || !strings.HasPrefix(faults.ConsoleErrors[1], "uncaught: TypeError") {
			t.Errorf("console %q", faults.ConsoleErrors)
		}
		n1, n2, n3 := shoot("/noisy", false), shoot("/noisy", false), shoot("/noisy", false)
		d, err := Compare(n1.PNG, n2.PNG, n3.PNG)
		if err != nil || d.Changed != 0 || d.Noise < 0.03 || d.Noise > 0.04 {
			t.Errorf("noise %v changed %v %v", d.Noise, d.Changed, err)
		}
		if s, err := b.Picture(t.Context(), Request{URL: "http://127.0.0.1:1/"}); !core.Is(err, core.Unavailable) || len(s.PNG) != 0 {
			t.Errorf("a page that nobody serves: %d bytes, %v", len(s.PNG), err)
		}
		for _, c := range []struct {
			selector string
			wait     time.Duration
			title    string
		}{{"", 0, "early"}, {"#x", 0, "shown"}, {"#x", time.Second, "waited"}} {
			s, err := b.Picture(t.Context(), Request{URL: url + "/late", Selector: c.selector, Wait: c.wait})
			if err != nil || s.Title != c.title {
				t.Errorf("waiting for %q and %s shows %q, error %v", c.selector, c.wait, s.Title, err)
			}
		}
		if _, err := b.Picture(t.Context(), Request{URL: url + "/late", Selector: "#none", Timeout: 3 * time.Second}); err == nil {
			t.Error("something that never comes was waited for in vain, and nobody told")
		}
		if s := shoot("/broken", false); s.Status != 500 {
			t.Errorf("status %d", s.Status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// withServices is a machine one of whose services is a browser.
type withServices struct {
	hostMachine
	ports  []int
	starts *int
}

func (w withServices) ServicePorts() []int { return w.ports }

func (w withServices) Start(ctx context.Context, argv []string) (func(), func() string, error) {
	*w.starts++
	return w.hostMachine.Start(ctx, argv)
}

// A browser that is kept running as a service is used, and runs on.
func TestRunningBrowserIsUsed(t *testing.T) {
	need.Chromium(t)
	machine := hostMachine{t: t, env: append(os.Environ(), "HOME="+t.TempDir())}
	const port = 29_222
	stop, output, err := machine.Start(t.Context(), command(port))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := await(t.Context(), machine.Dial, port, output); err != nil {
		t.Fatal(err)
	}
	starts := 0
	served := withServices{machine, []int{1, port}, &starts}
	url := site(t)
	var first Shot
	for range 3 {
		shot, err := Picture(t.Context(), served, Request{URL: url + "/base", Width: 640, Height: 480})
		if err != nil || shot.Title != "Shop" {
			t.Fatalf("picture of %q, error %v", shot.Title, err)
		}
		if first.PNG == nil {
			first = shot
		}
		if !same(first.PNG, shot.PNG) {
			t.Error("two pictures by one browser differ")
		}
	}
	if starts != 0 {
		t.Errorf("%d browsers were started beside the one that runs", starts)
	}
	// Where no service is a browser, one is started.
	served.ports = []int{1}
	if _, err := Picture(t.Context(), served, Request{URL: url + "/base", Width: 640, Height: 480}); err != nil || starts != 1 {
		t.Errorf("%d browsers were started, error %v", starts, err)
	}
}

func TestNoBrowser(t *testing.T) {
	need.Program(t, "sh")
	_, err := Picture(t.Context(), hostMachine{t: t, env: []string{"PATH=" + t.TempDir()}}, Request{URL: "http://127.0.0.1/"})
	if !core.Is(err, core.NotFound) || core.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "file:///etc/passwd", "javascript:1", "chrome://settings", "http://", "data:text/html,x"} {
		r := Request{URL: bad}
		if err := r.defaults(); !core.Is(err, core.Invalid) {
			t.Errorf("%q is accepted: %v", bad, err)
		}
	}
}

func TestCompareJudgesPages(t *testing.T) {
	white := pngOf(t, 20, 20, image.Rectangle{})
	ok := exam.Shot{PNG: white, Status: 200, ConsoleErrors: []string{"old"}}
	compare := func(base, branch exam.Shot) exam.Comparison {
		t.Helper()
		c, err := Photographer{}.Compare(t.Context(), exam.Page{Name: "home"}, base, base, branch)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := compare(ok, exam.Shot{Failed: "connection refused"}); !c.Broken || c.Problem != "connection refused" {
		t.Errorf("%+v", c)
	}
	if c := compare(exam.Shot{Failed: "refused"}, exam.Shot{Failed: "refused"}); c.Broken || c.Problem == "" {
		t.Errorf("%+v", c)
	}
	if c := compare(ok, exam.Shot{PNG: white, Status: 500}); !c.Broken {
		t.Errorf("%+v", c)
	}
	c := compare(ok, exam.Shot{PNG: white, Status: 200, ConsoleErrors: []string{"old", "new"}, FailedRequests: []string{"GET /x: 404"}})
	if c.Broken || c.OldErrors != 1 || !cmp.Equal(c.NewErrors, []string{"new"}) || !cmp.Equal(c.NewFailures, []string{"GET /x: 404"}) {
		t.Errorf("%+v", c)
	}
	if c := compare(ok, exam.Shot{PNG: []byte("no picture"), Status: 200}); c.Problem == "" {
		t.Errorf("%+v", c)
	}
}

func pngOf(t testing.TB, w, h int, mark image.Rectangle) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.Draw(img, img.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(img, mark, image.NewUniform(color.NRGBA{200, 0, 0, 255}), image.Point{}, draw.Src)
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestBoxes(t *testing.T) {
	base := pngOf(t, 300, 200, image.Rectangle{})
	d, err := Compare(base, base, pngOf(t, 300, 200, image.Rect(50, 60, 90, 80)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]image.Rectangle{image.Rect(50, 60, 90, 80)}, d.Boxes); diff != "" || d.Changed != 800.0/60000 {
		t.Errorf("changed %v, boxes (-want +got):\n%s", d.Changed, diff)
	}
	// The noise of the base hides the same change.
	d, err = Compare(base, pngOf(t, 300, 200, image.Rect(50, 60, 90, 80)), pngOf(t, 300, 200, image.Rect(50, 60, 90, 80)))
	if err != nil || d.Changed != 0 || d.Noise == 0 || len(d.Boxes) != 0 {
		t.Errorf("%+v %v", d.Boxes, err)
	}
}

func TestStamp(t *testing.T) {
	raw := pngOf(t, 5, 5, image.Rectangle{})
	stamped := Stamp(raw, map[string]string{"Commit": "abc", "Page": "home\n\x00é"})
	if !bytes.Contains(stamped, []byte("tEXtCommit\x00abc")) || !bytes.Contains(stamped, []byte("tEXtPage\x00home")) {
		t.Errorf("%q", stamped)
	}
	if _, err := decode(stamped); err != nil {
		t.Error(err)
	}
	if got := Stamp([]byte("x"), map[string]string{"a": "b"}); string(got) != "x" {
		t.Errorf("%q", got)
	}
}

// A picture of a few bytes that claims to be huge is refused unread.
func TestHostilePNG(t *testing.T) {
	raw := pngOf(t, 5, 5, image.Rectangle{})
	huge := bytes.Clone(raw)
	copy(huge[16:], []byte{0, 1, 0, 0, 0, 1, 0, 0})
	for name, in := range map[string][]byte{"huge": huge, "cut": raw[:40], "empty": nil, "text": []byte("hello")} {
		if _, err := decode(in); !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzCompare(f *testing.F) {
	a := pngOf(f, 12, 9, image.Rect(1, 1, 3, 3))
	f.Add(a, a)
	f.Add(a, pngOf(f, 9, 12, image.Rectangle{}))
	f.Add([]byte{}, a)
	f.Fuzz(func(t *testing.T, x, y []byte) {
		for _, raw := range [][]byte{x, y} {
			if c, err := checkPNG(raw); err == nil && c.Width*c.Height > 1<<16 {
				t.Skip("slow")
			}
		}
		d, err := Compare(x, y, y)
		if err != nil {
			return
		}
		if d.Changed < 0 || d.Changed > 1 || d.Noise < 0 || d.Noise > 1 {
			t.Errorf("shares %v %v", d.Changed, d.Noise)
		}
		if _, err := decode(d.PNG); err != nil {
			t.Error(err)
		}
	})
}
