package exam_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/proof/exam"
)

// watched are scripted rooms that tell which files were opened.
type watched struct {
	*scripted
	opens    map[string][]string // by check; "" is the start of the services
	partial  bool                // not everything was seen
	broken   bool                // nothing can be watched
	exchange []string            // what was asked for
}

type watchedRoom struct {
	*scriptedRoom
	w    *watched
	last string // check that ran since the watch began
}

func (w *watched) Open(ctx context.Context, req exam.RoomRequest) (exam.Room, error) {
	room, err := w.scripted.Open(ctx, req)
	if err != nil {
		return nil, err
	}
	plain, _ := room.(*scriptedRoom)
	return &watchedRoom{scriptedRoom: plain, w: w}, nil
}

func (r *watchedRoom) Run(ctx context.Context, c exam.Command) (exam.Outcome, error) {
	r.last = r.s.checks[c.Shell]
	return r.scriptedRoom.Run(ctx, c)
}

func (r *watchedRoom) WatchOpens(_ context.Context, paths []string) (func(context.Context) ([]string, bool, error), error) {
	if r.w.broken {
		return nil, errors.New("no watches left")
	}
	r.w.exchange, r.last = paths, ""
	return func(context.Context) ([]string, bool, error) {
		var out []string
		for _, p := range r.w.opens[r.last] {
			if slices.Contains(paths, p) {
				out = append(out, p)
			}
		}
		return out, !r.w.partial, nil
	}, nil
}

// A check that opens none of the changed test files is not asked again with
// exchanged ones; where that cannot be known, every check is.
func TestWhatIsNotReadIsNotExchanged(t *testing.T) {
	all := []string{"A/1 api", "A/1 unit", "B/1 api", "B/1 unit", "C/1 api", "C/1 unit", "D/1 api", "D/1 unit"}
	fewer := []string{"A/1 api", "A/1 unit", "B/1 api", "B/1 unit", "C/1 unit", "D/1 unit"}
	base := map[string]string{"app.js": "old\n", "unit.test.js": "expect(old)\n", "gone.test.js": "x\n"}
	edited := map[string]string{"app.js": "new\n", "unit.test.js": "expect(new)\n"}
	for name, c := range map[string]struct {
		head   map[string]string
		rooms  watched
		ran    []string
		unread bool // the result says that a check was left out
	}{
		"one check reads it": {edited, watched{opens: map[string][]string{"unit": {"unit.test.js"}, "api": {"app.js"}}}, fewer, true},
		"both read it":       {edited, watched{opens: map[string][]string{"unit": {"unit.test.js"}, "api": {"unit.test.js"}}}, all, false},
		"a service reads it": {edited, watched{opens: map[string][]string{"": {"unit.test.js"}, "unit": {"unit.test.js"}}}, all, false},
		"not all was seen":   {edited, watched{opens: map[string][]string{"unit": {"unit.test.js"}}, partial: true}, all, false},
		"nothing can be seen": {
			edited, watched{opens: map[string][]string{"unit": {"unit.test.js"}}, broken: true}, all, false,
		},
		"git may have brought it": {edited, watched{opens: map[string][]string{"unit": {"unit.test.js"}, "api": {".git/HEAD"}}}, all, false},
		"a new file decides how tests run": {
			map[string]string{"app.js": "new\n", "unit.test.js": "expect(new)\n", "jest.config.js": "x\n"},
			watched{opens: map[string][]string{"unit": {"unit.test.js"}}},
			all, false,
		},
		"a test was deleted": {
			map[string]string{"app.js": "new\n", "unit.test.js": "expect(new)\n", "gone.test.js": ""},
			watched{opens: map[string][]string{"unit": {"unit.test.js"}}},
			all, false,
		},
		"nobody reads it": {
			edited, watched{}, []string{"A/1 api", "A/1 unit", "B/1 api", "B/1 unit"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo := newRepository(t)
			from := repo.commit(base)
			to := repo.commit(c.head)
			rooms := &c.rooms
			rooms.scripted = &scripted{
				checks: map[string]string{"run unit": "unit", "run api": "api"},
				run:    func(exam.RoomRequest, string) answer { return report("a") },
			}
			got, err := exam.New(exam.Deps{Rooms: rooms, Repo: repo.repo()}, exam.Options{NoCoverage: true, Parallel: 1}).Run(t.Context(), exam.Exam{
				Repository: "shop", Snapshot: "snp", Base: from, Head: to, Services: true,
				Checks: []exam.CheckSpec{{Name: "unit", Run: "run unit", Report: "junit:*.xml"}, {Name: "api", Run: "run api", Report: "junit:*.xml"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(rooms.ran)
			if diff := cmp.Diff(c.ran, rooms.ran); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if said := len(got.Notes) > 0; said != c.unread {
				t.Errorf("notes %q", got.Notes)
			}
		})
	}
}

// Pictures of the base are taken once for all changes on it.
func TestBaseIsPicturedOnce(t *testing.T) {
	repo := newRepository(t)
	from := repo.commit(map[string]string{"app.js": "old\n"})
	to := repo.commit(map[string]string{"app.js": "new\n"})
	cache := &mapCache{m: map[string][]byte{}}
	camera := &camera{}
	shots := func(ex exam.Exam, pages ...string) []string {
		t.Helper()
		camera.shot = nil
		rooms := &scripted{checks: map[string]string{"run": "test"}, run: func(exam.RoomRequest, string) answer { return report("a") }}
		ex.Base, ex.Head, ex.Checks = from, to, []exam.CheckSpec{{Name: "test", Run: "run", Report: "junit:*.xml"}}
		for _, p := range pages {
			ex.Pages = append(ex.Pages, exam.Page{Name: p, URL: "http://127.0.0.1/" + p})
		}
		got, err := exam.New(exam.Deps{Rooms: rooms, Repo: repo.repo(), Cache: cache, Photographer: camera}, exam.Options{NoCoverage: true, Parallel: 1}).Run(t.Context(), ex)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range got.Pictures {
			if p.Problem != camera.fails {
				t.Errorf("picture %+v", p)
			}
		}
		slices.Sort(camera.shot)
		return camera.shot
	}
	one, two := exam.Exam{Repository: "shop", Snapshot: "one"}, exam.Exam{Repository: "shop", Snapshot: "two"}
	camera.fails = "no light"
	if got := shots(one, "home"); !slices.Contains(got, "A/1 home") || len(cache.m) != 1 {
		t.Errorf("failed pictures: %v, %d entries", got, len(cache.m))
	}
	camera.fails = ""
	for i, c := range []struct {
		ex    exam.Exam
		pages []string
		want  []string
	}{
		{one, []string{"home"}, []string{"A/1 home", "A/2 home", "B/1 home"}},
		{one, []string{"home"}, []string{"B/1 home"}},
		{one, []string{"home", "cart"}, []string{"A/1 cart", "A/1 home", "A/2 cart", "A/2 home", "B/1 cart", "B/1 home"}},
		{two, []string{"home"}, []string{"A/1 home", "A/2 home", "B/1 home"}},
		{two, []string{"home"}, []string{"B/1 home"}},
	} {
		if diff := cmp.Diff(c.want, shots(c.ex, c.pages...)); diff != "" {
			t.Errorf("exam %d (-want +got):\n%s", i, diff)
		}
	}
}

// camera makes pictures that show the cell they were taken in.
type camera struct {
	shot  []string
	fails string
}

func (c *camera) Shoot(_ context.Context, room exam.Room, pages []exam.Page) ([]exam.Shot, error) {
	scripted, _ := room.(*scriptedRoom)
	var out []exam.Shot
	for _, p := range pages {
		c.shot = append(c.shot, string(scripted.req.Cell)+"/"+string(rune('0'+scripted.req.Try))+" "+p.Name)
		out = append(out, exam.Shot{Page: p.Name, PNG: []byte(scripted.req.Cell), Failed: c.fails})
	}
	return out, nil
}

func (c *camera) Compare(_ context.Context, page exam.Page, base, again, branch exam.Shot) (exam.Comparison, error) {
	out := exam.Comparison{Page: page.Name}
	switch {
	case base.Failed != "":
		out.Problem = base.Failed
	case string(base.PNG) != "A" || string(again.PNG) != "A" || string(branch.PNG) != "B":
		out.Problem = "wrong pictures"
	}
	return out, nil
}
