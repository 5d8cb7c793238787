package exam_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/proof/exam"
)

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
