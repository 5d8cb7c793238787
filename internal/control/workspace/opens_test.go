package workspace

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// watchedGuest answers a watch of files.
type watchedGuest struct {
	asked  []string
	answer guest.Opens
}

func (g *watchedGuest) WatchOpens(_ context.Context, paths []string) (guest.OpensID, error) {
	g.asked = paths
	return "one", nil
}

func (g *watchedGuest) Opened(_ context.Context, id guest.OpensID) (guest.Opens, error) {
	if id != "one" {
		return guest.Opens{}, core.E("test", core.NotFound, nil, "watch %q", id)
	}
	return g.answer, nil
}

func TestWatchOpens(t *testing.T) {
	cases := []struct {
		name   string
		answer guest.Opens
		opened []string
		whole  bool
	}{
		{"nothing", guest.Opens{Complete: true}, nil, true},
		{"one", guest.Opens{Opened: []string{"/w/a/b"}, Complete: true}, []string{"a/./b"}, true},
		{"in doubt", guest.Opens{Opened: []string{"/w/c"}, Why: "x"}, []string{"c"}, false},
		{"in doubt without a word", guest.Opens{}, nil, false},
		{"not asked for", guest.Opens{Opened: []string{"/w/c", "/etc/passwd"}, Complete: true}, []string{"c"}, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			g := &watchedGuest{answer: tc.answer}
			end, err := watchOpens(t.Context(), g, "/w", []string{"a/./b", "c"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"/w/a/b", "/w/c"}, g.asked); diff != "" {
				t.Error(diff)
			}
			opened, why, err := end(t.Context())
			if diff := cmp.Diff(tc.opened, opened); diff != "" || err != nil || (why == "") != tc.whole {
				t.Errorf("why %q, error %v, %s", why, err, diff)
			}
		})
	}
	for _, p := range []string{"../x", "/etc/passwd", "", ".", "a/../.."} {
		if _, err := watchOpens(t.Context(), &watchedGuest{}, "/w", []string{p}); !core.Is(err, core.Invalid) {
			t.Errorf("path %q: %v", p, err)
		}
	}
}
