package render

import "strings"

// Style paints clean text. The zero value paints nothing and uses ASCII.
type Style struct {
	Color   bool
	Unicode bool
}

func (s Style) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) Bold(t string) string   { return s.paint("1", t) }
func (s Style) Dim(t string) string    { return s.paint("2", t) }
func (s Style) Red(t string) string    { return s.paint("31", t) }
func (s Style) Green(t string) string  { return s.paint("32", t) }
func (s Style) Yellow(t string) string { return s.paint("33", t) }
func (s Style) Cyan(t string) string   { return s.paint("36", t) }

// Good and its siblings are marks that start lines.
func (s Style) Good() string { return s.Green(s.either("✓", "ok")) }
func (s Style) Bad() string  { return s.Red(s.either("✗", "!!")) }
func (s Style) Warn() string { return s.Yellow(s.either("!", "!")) }
func (s Style) Dot() string  { return s.either(" · ", ", ") }

func (s Style) either(unicode, ascii string) string {
	if s.Unicode {
		return unicode
	}
	return ascii
}

// State paints a state word by what it means for a person.
func (s Style) State(word string) string {
	switch word {
	case "done", "ready", "proven", "merged", "approved", "idle", "fresh", "answered":
		return s.Green(word)
	case "failed", "broken", "dead", "denied", "failing", "lost":
		return s.Red(word)
	case "waiting", "handed_over", "unproven", "stopping", "pending", "expired", "stale", "pinned", "needs you", "handed over", "paused":
		return s.Yellow(word)
	case "running", "starting", "creating", "writing", "building", "working":
		return s.Cyan(word)
	case "archived", "closed", "removed", "gone", "stopped":
		return s.Dim(word)
	}
	return word
}

// Words makes a stable word readable: handed_over becomes handed over.
func Words(s string) string { return strings.ReplaceAll(Line(s), "_", " ") }

// Diff paints a clean unified diff line by line.
func (s Style) Diff(text string) string {
	if !s.Color {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, nl := strings.CutSuffix(line, "\n")
		b.WriteString(s.diffLine(body))
		if nl {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (s Style) diffLine(line string) string {
	switch {
	case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		return s.Bold(line)
	case strings.HasPrefix(line, "@@"):
		return s.Cyan(line)
	case strings.HasPrefix(line, "+"):
		return s.Green(line)
	case strings.HasPrefix(line, "-"):
		return s.Red(line)
	}
	return line
}

// Arrow leads to what to do.
func (s Style) Arrow() string { return s.either("→", "->") }
