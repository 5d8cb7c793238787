package check

import (
	"io"
	"path"
	"strings"

	"drydock/internal/core"
)

// Formats that can be read.
const (
	FormatGoTest = "gotest"
	FormatJUnit  = "junit"
	FormatTAP    = "tap"
	FormatExit   = "exit"
)

// Source says where a check's report is: in files, or on standard output
// where Globs is empty.
type Source struct {
	Format string
	Globs  []string // relative to the repository
}

// ParseSource reads the recipe's report key: "junit:reports/*.xml",
// "gotest", "tap:out.tap", or nothing for the exit code alone. Several globs
// are separated by commas.
func ParseSource(s string) (Source, error) {
	const op = "check.source"
	s = strings.TrimSpace(s)
	if s == "" {
		return Source{Format: FormatExit}, nil
	}
	format, rest, _ := strings.Cut(s, ":")
	format = strings.ToLower(strings.TrimSpace(format))
	switch format {
	case "go", "gotest", "go-test":
		format = FormatGoTest
	case FormatJUnit, FormatTAP, FormatExit:
	default:
		return Source{}, core.E(op, core.Invalid, nil, "report %q has the unknown format %q", s, format).
			WithHint("use gotest, junit:GLOB, tap, tap:GLOB, or leave it out for the exit code alone")
	}
	out := Source{Format: format}
	for glob := range strings.SplitSeq(rest, ",") {
		glob = strings.TrimSpace(glob)
		if glob == "" {
			continue
		}
		clean := path.Clean(glob)
		if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(clean, "\x00") {
			return Source{}, core.E(op, core.Invalid, nil, "report %q points outside the repository", s).
				WithHint("give a path relative to the repository's root")
		}
		out.Globs = append(out.Globs, clean)
	}
	if format == FormatJUnit && len(out.Globs) == 0 {
		return Source{}, core.E(op, core.Invalid, nil, "report %q names no file", s).
			WithHint("junit reports are files: write junit:reports/*.xml")
	}
	return out, nil
}

// Read reads one report of a format that ParseSource knows, except "exit",
// which has no text: see FromExit.
func Read(format string, r io.Reader, o Options) Report {
	switch format {
	case FormatGoTest:
		return ReadGoTest(r, o)
	case FormatJUnit:
		return ReadJUnit(r, o)
	case FormatTAP:
		return ReadTAP(r, o)
	}
	return Report{Format: format, Partial: true, Faults: []string{"no reader for the format " + format}}
}

// FromExit makes the one case of a check that writes no report. Its output
// only helps to tell an assertion from a build that failed.
func FromExit(o Options, code int, timedOut bool, output []byte) Report {
	one := Case{ID: ID{Check: o.Check, Name: o.Check}, Status: Pass}
	switch {
	case timedOut:
		one.Status, one.Fault = Error, FaultTimeout
	case code != 0:
		text := string(output)
		one.Status, one.Fault = judgeText(text)
		if one.Status == Fail && one.Fault == FaultNone && !looksAsserted(text) {
			one.Status, one.Fault = Error, FaultExit
		}
		one.Message = cutMiddle(strings.TrimSpace(text), maxText)
	}
	return Report{Format: FormatExit, Cases: []Case{one}}
}
