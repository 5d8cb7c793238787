package render

import (
	"io"
	"strings"
	"time"
)

// screen prints lines and, on a terminal, keeps one line at the bottom that
// shows what goes on.
type screen struct {
	o       Options
	err     error
	drawn   bool // the bottom line is on the screen
	frame   int
	blank   bool // the last line printed was empty
	started bool
	count   int // lines printed
}

func (s *screen) raw(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.o.Out, text)
	}
}

// line prints one line, indented, without trailing blanks.
func (s *screen) line(indent int, text string) {
	s.clear()
	s.started = true
	s.count++
	if text == "" {
		s.blank = true
		s.raw("\n")
		return
	}
	s.blank = false
	if !s.o.Style.Unicode {
		text = strings.ReplaceAll(text, "…", "~") // of Cut
	}
	s.raw(strings.Repeat(" ", indent) + text + "\n")
}

// gap prints an empty line, unless there is one, or nothing yet.
func (s *screen) gap() {
	if s.started && !s.blank {
		s.line(0, "")
	}
}

// para prints clean text, wrapped.
func (s *screen) para(indent int, text string, paint func(string) string) {
	for _, l := range Wrap(text, s.o.Width-indent) {
		if l == "" {
			s.line(0, "")
			continue
		}
		if paint != nil {
			l = paint(l)
		}
		s.line(indent, l)
	}
}

// prose prints clean text whose line breaks within a paragraph mean nothing.
func (s *screen) prose(indent int, text string) { s.para(indent, Reflow(text), nil) }

func (s *screen) clear() {
	if s.drawn {
		s.raw("\r\x1b[K")
		s.drawn = false
	}
}

// status draws the bottom line: a spinner, what goes on, for how long.
func (s *screen) status(text string, since time.Time) {
	if !s.o.Terminal || text == "" {
		return
	}
	frames := []string{"-", "\\", "|", "/"}
	if s.o.Style.Unicode {
		frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	}
	s.frame++
	took := ""
	if d := s.o.Now().Sub(since); !since.IsZero() && d >= time.Second {
		took = " " + coarse(d)
	}
	room := s.o.Width - 4 - Width(took)
	line := s.o.Style.Cyan(frames[s.frame%len(frames)]) + " " + s.o.Style.Dim(Cut(Line(text), room)+took)
	s.raw("\r\x1b[K" + line)
	s.drawn = true
}
