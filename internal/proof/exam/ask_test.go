package exam_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/proof/exam"
)

// What C and D are made of.
func TestOverlays(t *testing.T) {
	s := scene{
		change: change{
			base: map[string]string{"a.go": "package a\n", "a_test.go": "package a\n", "old_test.go": "package a\n// a long enough text\n", "gone_test.go": "package a\n//x\n", "go.mod": "module a\n", "testdata/x.golden": "1\n", "Makefile": "x\n"},
			head: map[string]string{"a.go": "package a // new\n", "a_test.go": "package a // new\n", "old_test.go": "", "moved_test.go": "package a\n// a long enough text\n", "gone_test.go": "", "go.mod": "module b\n", "testdata/x.golden": "2\n", "new_test.go": "package a // n\n", "Makefile": "y\n"},
		},
		rooms: &scripted{run: byCell(cells{"A": report("a"), "B": report("a"), "C": report("a"), "D": report("a")})},
	}
	run(t, s)
	want := map[exam.Cell][]string{
		exam.CellC: {"-moved_test.go", "-new_test.go", "a_test.go", "gone_test.go", "old_test.go", "testdata/x.golden"},
		exam.CellD: {"-gone_test.go", "-old_test.go", "a_test.go", "moved_test.go", "new_test.go", "testdata/x.golden"},
	}
	if diff := cmp.Diff(want, s.rooms.overlays); diff != "" {
		t.Errorf("overlays (-want +got):\n%s", diff)
	}
}

type mapCache struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (c *mapCache) Get(_ context.Context, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.m[key]
	return v, ok, nil
}

func (c *mapCache) Put(_ context.Context, key string, value []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[key] = value
	return nil
}

func TestBaseRunsOnce(t *testing.T) {
	repo := newRepository(t)
	c := fixChange()
	base, head := repo.commit(c.base), repo.commit(c.head)
	cache := &mapCache{m: map[string][]byte{}}
	exam1 := exam.Exam{Repository: "shop", Snapshot: "one", Base: base, Head: head, Checks: []exam.CheckSpec{{Name: "test", Run: "x", Report: "junit:*.xml"}}}
	ran := func(ex exam.Exam, die bool) int {
		t.Helper()
		rooms := &scripted{checks: map[string]string{"x": "test"}, run: byCell(cells{"A": report("a"), "B": report("a", "n"), "D": report("a", "-n")})}
		if die {
			rooms.open = func(req exam.RoomRequest) error {
				if req.Cell == exam.CellA {
					return errors.New("no")
				}
				return nil
			}
		}
		if _, err := exam.New(exam.Deps{Rooms: rooms, Repo: repo.repo(), Cache: cache}, exam.Options{NoCoverage: true}).Run(t.Context(), ex); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range rooms.ran {
			if strings.HasPrefix(r, "A/") {
				n++
			}
		}
		return n
	}
	other := exam1
	other.Snapshot = "two"
	if n := ran(other, true); n != 0 || len(cache.m) != 0 {
		t.Errorf("a base that could not run was remembered: %d", len(cache.m))
	}
	for i, want := range []struct {
		ex exam.Exam
		n  int
	}{{exam1, 1}, {exam1, 0}, {other, 1}, {other, 0}} {
		if n := ran(want.ex, false); n != want.n {
			t.Errorf("exam %d ran the base %d times, want %d", i, n, want.n)
		}
	}
}

func TestAcknowledge(t *testing.T) {
	s := scene{
		change: change{fixChange().base, map[string]string{"app.js": "new\n", "app.test.js": "expect(other)\n", "new.test.js": "expect(new)\n"}},
		rooms:  &scripted{run: byCell(cells{"A": report("a"), "B": report("a", "n"), "C": report("-a"), "D": report("-a", "-n")})},
	}
	r := run(t, s)
	open := r.Open()
	if r.Verdict != exam.Unproven || len(open) != 1 {
		t.Fatalf("%s with %d open findings", r.Verdict, len(open))
	}
	ack := exam.Acknowledgement{By: "grace", Head: r.Exam.Head, Findings: []string{open[0].ID}, At: time.Now()}
	for want, change := range map[core.Kind]func(*exam.Acknowledgement){
		core.Unauthorized: func(a *exam.Acknowledgement) { a.By = " " },
		core.Denied:       func(a *exam.Acknowledgement) { a.By = "Ada" },
		core.Conflict:     func(a *exam.Acknowledgement) { a.Head = r.Exam.Base },
		core.Invalid:      func(a *exam.Acknowledgement) { a.Findings = nil },
		core.NotFound:     func(a *exam.Acknowledgement) { a.Findings = []string{"nope"} },
	} {
		bad := ack
		change(&bad)
		if err := r.Acknowledge(bad); !core.Is(err, want) || r.Verdict != exam.Unproven {
			t.Errorf("want %s, got %v and %s", want, err, r.Verdict)
		}
	}
	if err := r.Acknowledge(ack); err != nil {
		t.Fatal(err)
	}
	expect(t, r, exam.Proven, exam.CodeProven, "acknowledged by grace: 1 finding", "s: a expects something else now")
}

func TestCancelledExam(t *testing.T) {
	repo := newRepository(t)
	c := fixChange()
	base, head := repo.commit(c.base), repo.commit(c.head)
	ctx, cancel := context.WithCancel(t.Context())
	rooms := &scripted{checks: map[string]string{"x": "test"}, run: func(exam.RoomRequest, string) answer {
		cancel()
		return report("a")
	}}
	_, err := exam.New(exam.Deps{Rooms: rooms, Repo: repo.repo()}, exam.Options{}).Run(ctx, exam.Exam{
		Base: base, Head: head, Checks: []exam.CheckSpec{{Name: "test", Run: "x", Report: "junit:*.xml"}},
	})
	if !errors.Is(err, context.Canceled) || rooms.living != 0 {
		t.Errorf("%v, %d rooms left", err, rooms.living)
	}
}

func TestBadExams(t *testing.T) {
	repo := newRepository(t)
	base := repo.commit(map[string]string{"a": "b"})
	for name, ex := range map[string]exam.Exam{
		"unknown report": {Base: base, Checks: []exam.CheckSpec{{Name: "a", Run: "b", Report: "trx:x"}}},
		"no command":     {Base: base, Checks: []exam.CheckSpec{{Name: "a"}}},
		"twice":          {Base: base, Checks: []exam.CheckSpec{{Name: "a", Run: "b"}, {Name: "a", Run: "c"}}},
		"outside":        {Base: base, Checks: []exam.CheckSpec{{Name: "a", Run: "b", Report: "junit:../x.xml"}}},
	} {
		if _, err := exam.New(exam.Deps{Rooms: &scripted{}, Repo: repo.repo()}, exam.Options{}).Run(t.Context(), ex); !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := exam.New(exam.Deps{Rooms: &scripted{}, Repo: repo.repo()}, exam.Options{}).Run(t.Context(), exam.Exam{Base: strings.Repeat("1", 40)}); !core.Is(err, core.NotFound) {
		t.Errorf("an unknown base: %v", err)
	}
}

func TestEventPayloads(t *testing.T) {
	r := run(t, scene{change: fixChange(), rooms: &scripted{run: byCell(cells{"A": report("a"), "B": report("a", "n"), "D": report("a", "-n")})}})
	v := r.VerdictData("evd_1")
	if v.Verdict != "proven" || v.Fixed != 1 || v.Kept != 1 || v.Broken != 0 || len(v.Reasons) == 0 || v.Evidence != "evd_1" {
		t.Errorf("%+v", v)
	}
	var told []string
	for _, one := range r.Runs {
		d := one.CheckData()
		told = append(told, d.Cell+" "+d.Result+" "+d.Detail)
	}
	want := []string{"A passed ", "B passed ", "B passed try 2", "B passed try 3", "D failed exit 1", "D failed try 2; exit 1"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
