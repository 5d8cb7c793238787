package render

import (
	"io"
	"slices"
	"strings"
)

// Table prints rows in columns that fit a width. One column may give way:
// the one named by Flex is cut when the rows are too long.
type Table struct {
	Head  []string
	Flex  int
	Width int // 0: never cut
	Style Style
	// Paint colours a cell after it was measured; nil paints nothing.
	Paint func(column int, cell string) string
	rows  [][]string
}

// Row adds one; cells are made clean.
func (t *Table) Row(cells ...string) {
	for i := range cells {
		cells[i] = Line(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write prints the table.
func (t *Table) Write(w io.Writer) error {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	if t.Width > 0 {
		total := 2 * (len(widths) - 1)
		for _, n := range widths {
			total += n
		}
		if over := total - t.Width; over > 0 {
			widths[t.Flex] = max(widths[t.Flex]-over, 8, Width(t.Head[t.Flex]))
		}
	}
	var b strings.Builder
	t.line(&b, widths, t.Head, func(_ int, s string) string { return t.Style.Dim(s) })
	for _, row := range t.rows {
		t.line(&b, widths, row, t.Paint)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) line(b *strings.Builder, widths []int, cells []string, paint func(int, string) string) {
	last := len(cells) - 1
	for last > 0 && cells[last] == "" {
		last--
	}
	for i, cell := range cells[:last+1] {
		if i == t.Flex && t.Width > 0 {
			cell = Cut(cell, widths[i])
		}
		gap := ""
		if i < last {
			gap = strings.Repeat(" ", max(0, widths[i]-Width(cell))+2)
		}
		if paint != nil {
			cell = paint(i, cell)
		}
		b.WriteString(cell + gap)
	}
	b.WriteByte('\n')
}

// Pairs prints names and values, names in one column; empty values are left
// out. Values are made clean, and wrapped to width.
func Pairs(w io.Writer, st Style, width int, pairs ...[2]string) error {
	pairs = slices.DeleteFunc(pairs, func(p [2]string) bool { return p[1] == "" })
	n := 0
	for _, p := range pairs {
		n = max(n, Width(p[0]))
	}
	var b strings.Builder
	for _, p := range pairs {
		limit := 10000
		if width > 0 {
			limit = width - n - 2
		}
		for i, line := range Wrap(Clean(p[1]), limit) {
			name := strings.Repeat(" ", n)
			if i == 0 {
				name = Pad(p[0], n)
			}
			b.WriteString(st.Dim(name) + "  " + line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
