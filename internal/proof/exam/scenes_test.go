package exam_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/proof/exam"
)

// junit makes a report: "name" is green, "-name" red, "!name" an error,
// "?name" skipped.
func junit(cases ...string) map[string]string {
	var b strings.Builder
	b.WriteString("<testsuites><testsuite name=\"s\">")
	for _, c := range cases {
		switch c[0] {
		case '-':
			fmt.Fprintf(&b, `<testcase name=%q><failure message="AssertionError: expected 1 but was 2"/></testcase>`, c[1:])
		case '!':
			fmt.Fprintf(&b, `<testcase name=%q><error message="TypeError: foo is not a function"/></testcase>`, c[1:])
		case '?':
			fmt.Fprintf(&b, `<testcase name=%q><skipped/></testcase>`, c[1:])
		default:
			fmt.Fprintf(&b, `<testcase name=%q/>`, c)
		}
	}
	b.WriteString("</testsuite></testsuites>")
	return map[string]string{"out.xml": b.String()}
}

func report(cases ...string) answer {
	a := answer{files: junit(cases...)}
	for _, c := range cases {
		if c[0] == '-' || c[0] == '!' {
			a.exit = 1
		}
	}
	return a
}

// byCell answers by cell; D is the base where nothing else is said.
func byCell(answers map[exam.Cell]answer) func(exam.RoomRequest, string) answer {
	return func(req exam.RoomRequest, _ string) answer { return answers[req.Cell] }
}

type cells = map[exam.Cell]answer

// change is a branch as files before and after.
type change struct{ base, head map[string]string }

func fixChange() change {
	return change{
		base: map[string]string{"app.js": "old\n", "app.test.js": "expect(old)\n", "package.json": "{}\n", "README.md": "x\n"},
		head: map[string]string{"app.js": "new\n", "new.test.js": "expect(new)\n"},
	}
}

type scene struct {
	name    string
	change  change
	rooms   *scripted
	exam    func(*exam.Exam)
	verdict exam.Verdict
	code    string
	tier    string
	says    []string
	ran     []string // exactly these, in any order, if set
}

func run(t *testing.T, s scene) exam.Result {
	t.Helper()
	repo := newRepository(t)
	base := repo.commit(s.change.base)
	head := repo.commit(s.change.head)
	ex := exam.Exam{
		Repository: "shop", Snapshot: "snp", Base: base, Head: head, PromptAuthors: []string{"ada"},
		Checks: []exam.CheckSpec{{Name: "test", Run: "run test", Report: "junit:*.xml"}},
	}
	if s.exam != nil {
		s.exam(&ex)
	}
	s.rooms.checks = map[string]string{}
	for _, c := range ex.Checks {
		s.rooms.checks[c.Run] = c.Name
	}
	got, err := exam.New(exam.Deps{Rooms: s.rooms, Repo: repo.repo()}, exam.Options{NoCoverage: true}).Run(t.Context(), ex)
	if err != nil {
		t.Fatal(err)
	}
	if s.rooms.living != 0 {
		t.Errorf("%d rooms were left open", s.rooms.living)
	}
	return got
}

func TestScenes(t *testing.T) {
	ok := func(cases ...string) answer { return report(cases...) }
	scenes := []scene{
		{
			name: "an honest fix", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a", "b"), "B": ok("a", "b", "n"), "D": ok("a", "b", "-n")})},
			verdict: exam.Proven, says: []string{"fixed: s: n (red on the base 2/2, green on the branch 3/3)", "2 cases kept"},
			ran: []string{"A/1 test", "B/1 test", "B/2 test", "B/3 test", "D/1 test", "D/2 test"},
		},
		{
			name: "a new test that the old code passes", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "n"), "D": ok("a", "n")})},
			verdict: exam.Unproven, code: exam.CodeNoTestFails, says: []string{"1 new case passes on the old code too: s: n"},
			ran: []string{"A/1 test", "B/1 test", "D/1 test"},
		},
		{
			name: "red only by an error", change: fixChange(), exam: func(e *exam.Exam) { e.Kind = exam.KindFix },
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "n"), "D": ok("a", "!n")})},
			verdict: exam.Unproven, code: exam.CodeNoTestFails, says: []string{"1 case is red on the old code only because"},
		},
		{
			name: "no test touched", change: change{fixChange().base, map[string]string{"app.js": "new\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a")})},
			verdict: exam.Unproven, code: exam.CodeNoTestFails, ran: []string{"A/1 test", "B/1 test"},
		},
		{
			name: "an old red test turned green", change: change{fixChange().base, map[string]string{"app.js": "new\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a", "-b"), "B": ok("a", "b")})},
			verdict: exam.Proven, says: []string{"fixed: s: b (red on the base 2/2, green on the branch 3/3)"},
		},
		{
			name: "a refactoring", change: change{fixChange().base, map[string]string{"app.js": "new\n"}}, exam: func(e *exam.Exam) { e.Kind = exam.KindRefactor },
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a")})},
			verdict: exam.Proven, says: []string{"what was green stayed green"},
		},
		{
			name: "a broken case", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a", "b"), "B": ok("a", "-b", "n"), "D": ok("a", "b", "-n")})},
			verdict: exam.Broken, says: []string{"broken: s: b is green on the base (4/4) and red on the branch (4/4): AssertionError: expected 1 but was 2"},
		},
		{
			name: "exit 1 and all green", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": {exit: 1, files: junit("a", "n")}, "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeEvidence, says: []string{"exit_contradicts"},
		},
		{
			name: "exit 0 with a red case", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": {exit: 0, files: junit("-a", "n")}, "D": ok("a", "-n")})},
			verdict: exam.Broken,
		},
		{
			name: "a cut report", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a", "b"), "B": {files: map[string]string{"out.xml": `<testsuites><testsuite name="s"><testcase name="a"/><testca`}}, "D": ok("a", "b", "-n")})},
			verdict: exam.Unproven, code: exam.CodeEvidence, says: []string{"report_partial", "1 cases could be read"},
		},
		{
			name: "nothing ran", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok(), "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeEvidence, says: []string{"nothing ran", "zero_cases"},
		},
		{
			name: "an old report of the warm-up", change: fixChange(),
			rooms:   &scripted{warm: junit("a", "n"), run: byCell(cells{"A": ok("a"), "B": {exit: 0}, "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeEvidence, says: []string{"report_missing"},
		},
		{
			name: "a report that the run copied from somewhere", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": {files: junit("a", "n"), age: time.Hour}, "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeEvidence, says: []string{"report_stale", "out.xml is older than the run"},
		},
		{
			name: "the command fails and leaves no report", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": {exit: 2, stdout: "syntax error in app.js"}, "D": ok("a", "-n")})},
			verdict: exam.Broken, says: []string{"check test", "the command ended with 2 and reported no case", "s: a is green on the base and does not run on the branch"},
		},
		{
			name: "mixed at the base", change: fixChange(),
			rooms: &scripted{run: func(req exam.RoomRequest, _ string) answer {
				flip := "b"
				if req.Cell == exam.CellA && req.Try == 2 || req.Cell == exam.CellB {
					flip = "-b"
				}
				return map[exam.Cell]answer{"A": ok("a", flip), "B": ok("a", flip, "n"), "D": ok("a", "b", "-n")}[req.Cell]
			}},
			verdict: exam.Proven, says: []string{"1 case is flaky on the base and does not count: s: b"},
		},
		{
			name: "mixed at the branch only", change: fixChange(),
			rooms: &scripted{run: func(req exam.RoomRequest, _ string) answer {
				flip := "b"
				if req.Cell == exam.CellB && req.Try == 1 {
					flip = "-b"
				}
				return map[exam.Cell]answer{"A": ok("a", "b"), "B": ok("a", flip, "n"), "D": ok("a", "b", "-n")}[req.Cell]
			}},
			verdict: exam.Unproven, code: exam.CodeNewFlake, says: []string{"new flake: this change may have made it: s: b was green 3 times and red once"},
		},
		{
			name: "retries inside one report", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("-a", "a", "a", "n"), "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeNewFlake,
		},
		{
			name: "red once on the old code", change: fixChange(),
			rooms: &scripted{run: func(req exam.RoomRequest, _ string) answer {
				flip := "n"
				if req.Cell == exam.CellD && req.Try == 1 {
					flip = "-n"
				}
				return map[exam.Cell]answer{"A": ok("a"), "B": ok("a", "n"), "D": ok("a", flip)}[req.Cell]
			}},
			verdict: exam.Unproven, code: exam.CodeNoTestFails,
		},
		{
			name: "a case that luck turned green", change: fixChange(),
			rooms: &scripted{run: func(req exam.RoomRequest, _ string) answer {
				flip := "n"
				if req.Cell == exam.CellB && req.Try == 3 {
					flip = "-n"
				}
				return map[exam.Cell]answer{"A": ok("a"), "B": ok("a", flip), "D": ok("a", "-n")}[req.Cell]
			}},
			verdict: exam.Unproven, code: exam.CodeNewFlake,
		},
		{
			name:    "an assertion flipped",
			change:  change{fixChange().base, map[string]string{"app.js": "new\n", "app.test.js": "expect(other)\n", "new.test.js": "expect(new)\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "n"), "C": ok("-a"), "D": ok("-a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, says: []string{"the base's version of this case is red on the branch: s: a", "old: expect(old)", "new: expect(other)"},
		},
		{
			name: "old tests that no longer fit", change: change{fixChange().base, map[string]string{"app.js": "new\n", "app.test.js": "expect(other)\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a"), "C": {exit: 1, stdout: "cannot build"}, "D": ok("-a")})},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, says: []string{"the base's tests do not fit the new code", "old: expect(old)", "new: expect(other)"},
		},
		{
			name: "a test file deleted", change: change{fixChange().base, map[string]string{"app.js": "new\n", "app.test.js": "", "new.test.js": "expect(new)\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a", "b"), "B": ok("n"), "C": ok("a", "b"), "D": ok("-n")})},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, says: []string{"gone: 2 in check test: s: a, s: b", "inventory_shrank"},
		},
		{
			name: "a test skipped", change: change{fixChange().base, map[string]string{"app.js": "new\n", "app.test.js": "expect(old)\nit.skip()\n", "new.test.js": "expect(new)\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("?a", "n"), "C": ok("a"), "D": ok("?a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, says: []string{"no longer run: 1 in check test: s: a", "skips_grew", "skip_mark_added"},
		},
		{
			name: "a conftest added", change: change{fixChange().base, map[string]string{"app.js": "new\n", "conftest.py": "forge()\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a"), "C": ok("-a"), "D": ok("a")})},
			verdict: exam.Unproven, says: []string{"conftest.py was added: it decides how tests run"},
			ran: []string{"A/1 test", "B/1 test", "C/1 test", "C/2 test", "D/1 test"},
		},
		{
			name: "code that asks whether it is tested", change: change{fixChange().base, map[string]string{"app.js": "if (process.env.JEST_WORKER_ID) {}\n", "new.test.js": "expect(new)\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "n"), "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, says: []string{"app.js:1 asks whether it runs in a test"},
		},
		{
			name: "the room runs out of memory", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": {dies: "out_of_memory", stdout: "limit 512 MiB"}, "D": ok("a", "-n")})},
			verdict: exam.HandedOver, code: exam.CodeCannot, tier: exam.TierResources, says: []string{"out_of_memory (limit 512 MiB)"},
			ran: []string{"A/1 test", "B/1 test", "B/1 test", "D/1 test"},
		},
		{
			name: "a room dies once", change: fixChange(),
			rooms: func() *scripted {
				var once sync.Once
				return &scripted{run: func(req exam.RoomRequest, _ string) answer {
					out := map[exam.Cell]answer{"A": ok("a"), "B": ok("a", "n"), "D": ok("a", "-n")}[req.Cell]
					if req.Cell == exam.CellB {
						once.Do(func() { out = answer{dies: "out_of_memory"} })
					}
					return out
				}}
			}(),
			verdict: exam.Proven, says: []string{"tried again in a new room"},
		},
		{
			name: "no room", change: fixChange(),
			rooms:   &scripted{open: func(exam.RoomRequest) error { return errors.New("no space") }},
			verdict: exam.HandedOver, code: exam.CodeCannot, tier: exam.TierPlatform, says: []string{"no room could be opened: no space"},
		},
		{
			name: "services do not start at the branch", change: fixChange(),
			rooms: &scripted{run: byCell(cells{"A": ok("a"), "D": ok("a", "-n")}), ready: func(req exam.RoomRequest) error {
				if req.Cell == exam.CellB {
					return errors.New("web: connection refused")
				}
				return nil
			}},
			verdict: exam.Broken, says: []string{"services did not become ready: web: connection refused"},
		},
		{
			name: "services start nowhere", change: fixChange(),
			rooms:   &scripted{ready: func(exam.RoomRequest) error { return errors.New("db: no disk") }},
			verdict: exam.HandedOver, tier: exam.TierServices,
		},
		{
			name: "the base does not work either", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": {exit: 127, stdout: "npm: not found"}, "B": {exit: 127, stdout: "npm: not found"}, "D": {exit: 127}})},
			verdict: exam.HandedOver, code: exam.CodeCannot, tier: exam.TierEnvironment, says: []string{"neither on the base nor on the branch"},
		},
		{
			name: "a time limit", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": {slow: true, exit: 137}, "D": ok("a", "-n")})},
			verdict: exam.Broken, says: []string{"the command did not end within its time limit"},
		},
		{
			name: "dependencies raised", change: change{fixChange().base, map[string]string{"package.json": `{"dependencies": {"left": "2"}}` + "\n", "new.test.js": "expect(new)\n"}},
			exam:    func(e *exam.Exam) { e.Setup = "npm ci" },
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "n"), "D": ok("a", "-n")})},
			verdict: exam.Proven, says: []string{"fixed: s: n"},
			ran: []string{"A/1 test", "B/1 setup", "B/1 test", "B/2 setup", "B/2 test", "B/3 setup", "B/3 test", "D/1 test", "D/2 test"},
		},
		{
			name: "dependencies that cannot be installed", change: change{fixChange().base, map[string]string{"package.json": `{"dependencies": {"left": "2"}}` + "\n", "new.test.js": "expect(new)\n"}},
			exam: func(e *exam.Exam) { e.Setup = "npm ci" },
			rooms: &scripted{run: byCell(cells{"A": ok("a"), "D": ok("a", "-n")}), setup: func(exam.RoomRequest) answer {
				return answer{exit: 1, stdout: "ETARGET left@2"}
			}},
			verdict: exam.HandedOver, tier: exam.TierSetup, says: []string{"ETARGET left@2"},
		},
		{
			name: "scripts edited", change: change{
				with(fixChange().base, "package.json", `{"scripts": {"test": "jest"}}`+"\n"),
				map[string]string{"app.js": "new\n", "new.test.js": "expect(new)\n", "package.json": `{"scripts": {"test": "true"}}` + "\n"},
			},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "n"), "C": ok("a"), "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, says: []string{"the scripts or the test configuration in package.json were changed"},
		},
		{
			name: "a script that a check calls", change: change{
				with(fixChange().base, "ci/test.sh", "jest\n"), map[string]string{"app.js": "new\n", "new.test.js": "expect(new)\n", "ci/test.sh": "true\n"},
			},
			exam:    func(e *exam.Exam) { e.Checks[0].Run = "sh ./ci/test.sh" },
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "n"), "C": ok("a"), "D": ok("a", "-n")})},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, says: []string{"ci/test.sh was modified: a check calls it"},
		},
		{
			name: "an optional check", change: fixChange(),
			exam: func(e *exam.Exam) {
				e.Checks = append(e.Checks, exam.CheckSpec{Name: "lint", Run: "run lint", Optional: true})
			},
			rooms: &scripted{run: func(req exam.RoomRequest, name string) answer {
				if name == "lint" {
					return answer{exit: map[exam.Cell]int{"B": 1}[req.Cell]}
				}
				return map[exam.Cell]answer{"A": ok("a"), "B": ok("a", "n"), "D": ok("a", "-n")}[req.Cell]
			}},
			verdict: exam.Proven, says: []string{"check lint is optional and red"},
		},
		{
			name: "a check without a report", change: fixChange(),
			exam: func(e *exam.Exam) { e.Checks[0].Report = "" },
			rooms: &scripted{run: byCell(cells{
				"A": {}, "B": {}, "D": {exit: 1, stdout: "AssertionError: expected 1 to equal 2"},
			})},
			verdict: exam.Proven, says: []string{"fixed: check test (red on the base 2/2, green on the branch 3/3)", "single cases of check test: its exit code is all it tells"},
		},
		{
			name: "a check without a report that does not build on the old code", change: fixChange(),
			exam:    func(e *exam.Exam) { e.Checks[0].Report, e.Kind = "", exam.KindFix },
			rooms:   &scripted{run: byCell(cells{"A": {}, "B": {}, "D": {exit: 1, stdout: "error TS2304: cannot find name x"}})},
			verdict: exam.Unproven, code: exam.CodeNoTestFails,
		},
		{
			name: "documentation", change: change{fixChange().base, map[string]string{"README.md": "y\n"}},
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a")})},
			verdict: exam.Proven, says: []string{"nothing that runs was changed (1 file)", "1 case kept", "1 changed file no check runs: README.md"},
		},
		{
			name: "red before and after, and skipped", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a", "-r", "?k"), "B": ok("a", "-r", "?k", "n"), "D": ok("a", "-r", "?k", "-n")})},
			verdict: exam.Proven, says: []string{"1 case is skipped: s: k", "1 case is red before and after: s: r"},
		},
		{
			name: "a new test that is red itself", change: fixChange(),
			rooms:   &scripted{run: byCell(cells{"A": ok("a"), "B": ok("a", "-n"), "D": ok("a", "-n")})},
			verdict: exam.Broken, says: []string{"s: n is a new case and red on the branch"},
		},
		{
			name: "no checks", change: fixChange(), exam: func(e *exam.Exam) { e.Checks = nil },
			rooms: &scripted{}, verdict: exam.Unproven, code: exam.CodeNoChecks, ran: []string{},
		},
		{
			name: "no commit", change: fixChange(), exam: func(e *exam.Exam) { e.Head = "" },
			rooms: &scripted{}, verdict: exam.HandedOver, code: exam.CodeNothing, tier: exam.TierNothing, says: []string{"there is no commit"}, ran: []string{},
		},
		{
			name: "an empty difference", change: change{fixChange().base, nil},
			rooms: &scripted{}, verdict: exam.HandedOver, code: exam.CodeNothing, says: []string{"change no file"}, ran: []string{},
		},
	}
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			got := run(t, s)
			expect(t, got, s.verdict, s.code, s.says...)
			if s.tier != "" && got.Tier != s.tier {
				t.Errorf("tier %q, want %q", got.Tier, s.tier)
			}
			if s.ran != nil {
				ran := slices.Clone(s.rooms.ran)
				slices.Sort(ran)
				if diff := cmp.Diff(s.ran, append([]string{}, ran...)); diff != "" {
					t.Errorf("ran (-want +got):\n%s", diff)
				}
			}
		})
	}
}
