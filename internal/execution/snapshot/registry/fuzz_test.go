package registry

import (
	"slices"
	"strings"
	"testing"
)

// FuzzRedirect reads what a layer says of where a directory was.
func FuzzRedirect(f *testing.F) {
	for _, text := range []string{"old", "/a/b", "/", "", "..", "/a/../b", "a/b", "/a//b", "/a/b/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		elems, rooted, err := parseRedirect(text)
		if err != nil {
			return
		}
		if len(elems) == 0 || !rooted && len(elems) != 1 || slices.ContainsFunc(elems, func(e string) bool {
			return e == "" || e == "." || e == ".." || strings.ContainsAny(e, "/\x00")
		}) {
			t.Errorf("%q was taken for %q", text, elems)
		}
	})
}

// FuzzDescription reads what a registry says of a snapshot.
func FuzzDescription(f *testing.F) {
	f.Add([]byte(`{"format":1,"snapshot":"snp_1","created":"2026-01-01T00:00:00Z","base":1,"runtime":{},"image":{}}`))
	f.Add([]byte(`{"format":1} {}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d described
		if err := decode(raw, &d, true); err != nil {
			return
		}
		if _, _, err := compose(d, nil); err != nil && d.Created.Year() < 9999 && d.Created.Year() >= 0 {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}
