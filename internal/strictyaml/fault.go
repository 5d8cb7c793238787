package strictyaml

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"drydock/internal/core"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	Line    int // from 1; 0 when it belongs to no place
	Column  int
	Message string
	Hint    string
}

// Faults collects what is wrong with one file. It is not safe for concurrent
// use.
type Faults struct {
	file  string
	lines [][]byte
	list  []Fault
}

// maxFaults bounds the list: a file that is all wrong need not be told so
// line by line.
const maxFaults = 50

// NewFaults begins a list for a file whose source is data.
func NewFaults(file string, data []byte) *Faults {
	return &Faults{file: file, lines: bytes.Split(data, []byte("\n"))}
}

// Add notes a fault at the place of a node; a nil node means the whole file.
func (f *Faults) Add(at *Node, format string, args ...any) { f.AddHint(at, "", format, args...) }

// AddHint is Add with advice.
func (f *Faults) AddHint(at *Node, hint, format string, args ...any) {
	if len(f.list) >= maxFaults {
		return
	}
	fault := Fault{Message: fmt.Sprintf(format, args...), Hint: hint}
	if at != nil {
		fault.Line, fault.Column = at.Line, at.Column
	}
	f.list = append(f.list, fault)
}

// List is every fault in the order of the file.
func (f *Faults) List() []Fault {
	out := slices.Clone(f.list)
	slices.SortStableFunc(out, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return out
}

// Err is nil without faults, else one error of kind Invalid that shows each
// fault with its line and a caret. Its hint is the first fault's.
func (f *Faults) Err() error {
	list := f.List()
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	hint := ""
	for i, fault := range list {
		if i > 0 {
			b.WriteString("\n")
		}
		f.write(&b, fault)
		if hint == "" {
			hint = fault.Hint
		}
	}
	return core.E("yaml.check", core.Invalid, nil, "%s", b.String()).WithHint("%s", hint)
}

func (f *Faults) write(b *strings.Builder, fault Fault) {
	if fault.Line <= 0 {
		fmt.Fprintf(b, "%s: %s", f.file, fault.Message)
		return
	}
	fmt.Fprintf(b, "%s:%d:%d: %s", f.file, fault.Line, fault.Column, fault.Message)
	if fault.Line > len(f.lines) {
		return
	}
	// Control characters would move the caret or the reader's terminal.
	line := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.TrimRight(string(f.lines[fault.Line-1]), "\r")))
	column := min(max(fault.Column-1, 0), len(line))
	const width = 100
	if column > width { // far to the right: show the neighbourhood
		line, column = line[column-width/2:], width/2
	}
	if len(line) > width+20 {
		line = line[:width+20]
	}
	fmt.Fprintf(b, "\n%5d | %s\n      | %s^", fault.Line, string(line), strings.Repeat(" ", column))
}
