package render

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"drydock/internal/core"
)

// Options of a renderer. Out is necessary.
type Options struct {
	Out   io.Writer
	Width int // default 100
	Style Style
	Now   func() time.Time
	// Terminal: Out can redraw its last line. Live: events come as they happen.
	Terminal bool
	Live     bool
	Full     bool // do not fold outputs
	// Environment is the name that commands for the person use.
	Environment string
	// Flags is added to those commands, e.g. "--state /tmp/demo".
	Flags string
	// Picture saves a picture and returns its path; nil or "" shows none.
	Picture func(core.PictureData) string
}

func (o Options) withDefaults() Options {
	if o.Width <= 0 {
		o.Width = 100
	}
	o.Width = max(o.Width, 40)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Decode reads the payload of an event; what cannot be read is zero.
func Decode[T any](ev core.Event) T {
	var v T
	_ = json.Unmarshal(ev.Data, &v) // a newer daemon may send what we do not know
	return v
}

// Cost is an amount for people.
func Cost(c core.Cost) string {
	if c == (core.Cost{}) {
		return "$0"
	}
	return c.String()
}

// Money drops the digits that say nothing: $2.50, but $0.0042.
func Money(m core.Money) string {
	s := m.String()
	return strings.TrimSuffix(s, "00")
}

// Person is "Alice Example (alice)".
func Person(a core.Author) string {
	if a.Name == "" || a.Name == a.Handle {
		return Line(a.Handle)
	}
	return Line(a.Name) + " (" + Line(a.Handle) + ")"
}

// FileName makes a word fit for a file.
func FileName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, Line(s))
	s = strings.Trim(s, "-")
	if s == "" {
		return "picture"
	}
	if len(s) > 60 {
		s = s[:60]
	}
	return s
}

// Command is something the person may do next.
type Command struct{ Do, Line string }

// Commands lists them in two columns.
func Commands(st Style, cs []Command) string {
	n := 0
	for _, c := range cs {
		n = max(n, Width(c.Do))
	}
	var b strings.Builder
	for _, c := range cs {
		b.WriteString("  " + st.Dim(Pad(c.Do, n)) + "  " + st.Cyan(Line(c.Line)) + "\n")
	}
	return b.String()
}
