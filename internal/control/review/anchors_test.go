package review

import (
	"bytes"
	"strings"
	"testing"
)

// Whatever a patch says, lines are followed without a panic, and what is kept
// stays in order.
func FuzzMapping(f *testing.F) {
	f.Add([]byte("@@ -2,2 +2 @@\n--- a\n-b\n+++ c\n@@ -9,0 +8,2 @@ x\n+d\n+e\n\\ No newline at end of file\n"), 1, 5, false)
	f.Add([]byte("@@ -1 +1 @@\n-x\n"), 1, 1, true)
	f.Fuzz(func(t *testing.T, patch []byte, a, b int, cut bool) {
		a, b = min(max(a, 1), 1<<20), min(max(b, 1), 1<<20)
		if b < a {
			a, b = b, a
		}
		m := newMapping(patch, cut)
		m.place(a, b)
		m.touches(a, b)
		total := 0
		for _, h := range hunks(string(patch)) {
			total += len(h)
			if !strings.HasPrefix(h, "@@ ") {
				t.Fatalf("a hunk begins with %q", h)
			}
		}
		if total > len(patch) {
			t.Fatal("hunks are more than the patch")
		}
		n := 0
		eachLine(patch, func(_ byte, _, _ int, _ []byte) { n++ })
		if n > bytes.Count(patch, []byte("\n"))+1 {
			t.Fatal("more lines than there are")
		}
	})
}

func TestMapping(t *testing.T) {
	m := newMapping([]byte("@@ -3,2 +3 @@\n-a line that is moved\n--- x\n+new\n@@ -10,0 +10,2 @@\n+a line that is moved\n+y\n"), false)
	for _, tt := range []struct{ a, b, from, to int }{
		{1, 1, 1, 1}, {2, 5, 2, 4}, {4, 4, 0, 0}, {3, 3, 10, 10}, {5, 5, 4, 4}, {10, 10, 9, 9}, {11, 12, 12, 13},
	} {
		from, to, ok := m.place(tt.a, tt.b)
		if from != tt.from || to != tt.to || ok != (tt.from > 0) {
			t.Errorf("%d-%d: %d-%d %v, want %d-%d", tt.a, tt.b, from, to, ok, tt.from, tt.to)
		}
	}
	for _, tt := range []struct {
		a, b int
		want bool
	}{{1, 2, false}, {2, 3, true}, {4, 4, true}, {5, 9, false}, {10, 10, true}, {11, 11, true}, {12, 20, false}} {
		if got := m.touches(tt.a, tt.b); got != tt.want {
			t.Errorf("touches %d-%d: %v", tt.a, tt.b, got)
		}
	}
	if _, _, ok := newMapping(nil, true).place(7, 7); ok {
		t.Error("what is behind a cut is taken for known")
	}
}
