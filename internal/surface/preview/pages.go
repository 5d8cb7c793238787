package preview

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"drydock/internal/core"
)

// sheet is a page of ours. Everything on it is text.
type sheet struct {
	status  int
	title   string
	text    string
	hint    string
	log     string
	form    string // path that the button posts to
	button  string
	refresh int // seconds
	back    bool
}

const style = `:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:12vh auto;padding:0 1rem}` +
	`h1{font-size:1.3rem}p{margin:.5rem 0}pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.75rem;font-size:.85rem}small{opacity:.7}`

var (
	styleHash = func() string {
		sum := sha256.Sum256([]byte(style))
		return base64.StdEncoding.EncodeToString(sum[:])
	}()
	pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{{if .Refresh}}<meta http-equiv="refresh" content="{{.Refresh}}">{{end}}<title>{{.Title}}</title><style>` + style + `</style></head>
<body><main><h1>{{.Title}}</h1><p>{{.Text}}</p>{{if .Hint}}<p>{{.Hint}}</p>{{end}}{{if .Log}}<pre>{{.Log}}</pre>{{end}}
{{if .Form}}<form method="post" action="{{.Form}}"><button>{{.Button}}</button></form>{{end}}
{{if .Back}}<p><a href="{{.Back}}" rel="noopener noreferrer" target="_blank">The session in Drydock</a></p>{{end}}
<p><small>This page is Drydock's, not the app's: port {{.Port}} of session {{.Session}}.</small></p></main></body></html>
`))
)

// ownHeaders are those of everything we answer ourselves on a preview's host.
func ownHeaders(h http.Header, ancestors string) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+styleHash+"'; form-action 'self'; base-uri 'none'; frame-ancestors "+ancestors)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // a form of ours has to say where it is from
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// ancestors are who may frame a preview: itself and the control plane.
func (s *Service) ancestors() string {
	return strings.Join(append([]string{"'self'"}, s.opts.Control...), " ")
}

// page answers with a page of ours, or with plain text whoever wants no page.
func (s *Service) page(w http.ResponseWriter, r *http.Request, t target, v sheet) {
	h := w.Header()
	ownHeaders(h, s.ancestors())
	s.deps.Meter.PreviewRequest("own", v.status)
	if v.refresh > 0 {
		h.Set("Retry-After", strconv.Itoa(v.refresh))
	}
	if !navigates(r) || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(v.status)
		if r.Method != http.MethodHead {
			_, _ = w.Write([]byte("drydock: " + v.title + ": " + v.text + "\n" + v.hint + "\n"))
		}
		return
	}
	if r.Method != http.MethodGet {
		v.refresh = 0 // a form is not sent again by itself
	}
	back := ""
	if v.back && len(s.opts.Control) > 0 && t.Session != "" {
		back = s.opts.Control[0] + "/sessions/" + string(t.Session)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(v.status)
	if r.Method != http.MethodHead {
		_ = pageTemplate.Execute(w, map[string]any{
			"Title": v.title, "Text": v.text, "Hint": v.hint, "Log": v.log, "Form": v.form, "Button": v.button,
			"Refresh": v.refresh, "Back": back, "Port": t.Port, "Session": string(t.Session),
		})
	}
}

// refuse answers with what an error says.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, t target, err error) {
	kind := core.KindOf(err)
	v := sheet{status: kind.HTTPStatus(), title: "This preview is not open", text: "something went wrong here", back: true}
	if e, ours := errors.AsType[*core.Error](err); ours && kind != core.Internal {
		v.text, v.hint = e.Message, e.Hint
	}
	switch kind {
	case core.Conflict:
		v.status, v.title = http.StatusGone, "This session is over"
	case core.Unavailable, core.Exhausted:
		v.title = "Not now"
	case core.Internal:
		s.log.ErrorContext(r.Context(), "a preview failed", "session", t.Session, "err", err)
	}
	s.page(w, r, t, v)
}

// asleep offers to wake the sandbox.
func (s *Service) asleep(w http.ResponseWriter, r *http.Request, t target) {
	s.page(w, r, t, sheet{
		status: http.StatusServiceUnavailable, title: "The sandbox is asleep", text: "Nothing of this session runs at the moment. It goes on where it was.",
		form: wakePath, button: "Wake it", back: true,
	})
}

// waiting says why nothing answers on a port yet.
func (s *Service) waiting(w http.ResponseWriter, r *http.Request, t target) {
	got := s.deps.Boxes.Waiting(r.Context(), t.Session, t.Port)
	v := sheet{
		status: http.StatusServiceUnavailable, refresh: 2, back: true, title: "Waiting for port " + strconv.Itoa(t.Port),
		text: "Nothing listens on it yet.", log: plainLog(got.Log),
	}
	if got.Listening {
		v.title, v.text = "Port "+strconv.Itoa(t.Port)+" does not answer", "Something listens on it, but the connection was refused."
	}
	if got.Service != "" {
		v.hint = "Service " + got.Service + " is " + got.State
		if !got.Since.IsZero() {
			v.hint += " since " + got.Since.UTC().Format(time.TimeOnly) + " UTC (" + time.Since(got.Since).Round(time.Second).String() + ")"
		}
		v.hint += "."
	}
	s.page(w, r, t, v)
}

// plainLog keeps the last lines, short, without what terminals obey.
func plainLog(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-20):]
	for i, line := range lines {
		line = escapes(line)
		lines[i] = clip(strings.TrimSpace(line), 300)
	}
	return strings.Join(lines, "\n")
}

// escapes removes colours and everything else that is not to be seen.
func escapes(line string) string {
	var out strings.Builder
	inside := false
	for _, c := range line {
		switch {
		case c == 0x1b:
			inside = true
		case inside:
			inside = c == '[' || c == ';' || c >= '0' && c <= '9' || c == '?'
		case unicode.IsPrint(c):
			out.WriteRune(c)
		}
	}
	return out.String()
}
