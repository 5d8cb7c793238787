package check

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTAP(t *testing.T) {
	tests := map[string]struct {
		in    string
		want  []string
		fault string
	}{
		"plain":                    {"1..3\nok 1 - one\nnot ok 2 - two\nok 3\n", []string{"pass one", "fail two", "pass #3"}, ""},
		"plan at end":              {"ok 1 one\nok 2 two\n1..2\n", []string{"pass one", "pass two"}, ""},
		"todo and skip":            {"TAP version 13\n1..4\nnot ok 1 - a # TODO later\nok 2 - b # SKIP no db\nok 3 - c \\# not a comment\nok 4 # skip\n", []string{"todo a", "skip b", "pass c # not a comment", "skip #4"}, ""},
		"nothing to run":           {"1..0 # SKIP no tests here\n", []string{}, "1..0"},
		"bail out":                 {"1..3\nok 1 - a\nBail out! no database\nok 2 - b\n", []string{"pass a", "partial"}, "no database"},
		"no plan":                  {"TAP version 13\nok 1 - a\n", []string{"pass a", "partial"}, "no plan"},
		"fewer than planned":       {"1..3\nok 1 - a\nok 2 - b\n", []string{"pass a", "pass b", "partial"}, "planned 3 cases and has 2"},
		"two plans":                {"1..2\nok 1 - a\n1..1\n", []string{"pass a", "partial"}, "two plans"},
		"a stream cut at its plan": {"1..1\nok 1 - a\n1..1\n", []string{"pass a", "partial"}, "planned 1 cases and has 0"},
		"two programs":             {"1..1\nok 1 - a\n1..2\nok 1 - a\nnot ok 2 - b\n", []string{"pass a", "pass a #2", "fail b"}, ""},
		"two with headers":         {"TAP version 13\nok 1 - a\n1..1\nTAP version 13\nok 1 - b\n1..1\n", []string{"pass a", "pass b"}, ""},
		"two, plans behind":        {"ok 1 - a\n1..1\nok 1 - b\nok 2 - c\n1..2\n", []string{"pass a", "pass b", "pass c"}, ""},
		"the second is cut":        {"1..1\nok 1 - a\nTAP version 13\n1..2\nok 1 - b\n", []string{"pass a", "pass b", "partial"}, "planned 2"},
		"prove -v": {
			"t/a.t ....... \n1..2\nok 1 - one\n# Subtest: long\n    1..1\n    ok 1 - in\nok 2 - long\nok\nt/b_fail.t .. \n1..2\nok 1 - one\nnot ok 2 - two\n" +
				"Dubious, test returned 1 (wstat 256, 0x100)\nFailed 1/2 subtests \nt/c_load.t .. \n1..2\nDubious, test returned 2 (wstat 512, 0x200)\nFailed 2/2 subtests \n" +
				"t/d_skip.t .. skipped: no db\nt/e_exit.t .. \nok 1 - one\nok\n1..2\nDubious, test returned 3 (wstat 768, 0x300)\nAll 2 subtests passed \n\nTest Summary Report\n" +
				"-------------------\nt/b_fail.t (Wstat: 256 (exited 1) Tests: 2 Failed: 1)\n  Failed test:  2\nFiles=5, Tests=7,  6 wallclock secs ( 0.04 usr)\nResult: FAIL\n",
			[]string{
				"pass t/a.t: one", "pass t/a.t: long > in", "pass t/a.t: long", "pass t/b_fail.t: one", "fail t/b_fail.t: two",
				"error/exit t/c_load.t: (file)", "error/exit t/e_exit.t: (file)", "pass t/e_exit.t: one", "pass t/e_exit.t: #2",
			},
			"d_skip.t: skipped: no db",
		},
		"lines like those of prove": {
			"1..3\nok 1 - a\nStarting server ...\nlib/x.js ...\nResult: PASS\n# waiting ...\nok 2 - and so on ...\nnot ok 3 - c ...\n",
			[]string{"pass a", "pass and so on ...", "fail c ..."},
			"",
		},
		"lines like those of prove before": {"Starting ...\nloading ...\n1..1\nok 1 - a\n", []string{"pass a"}, ""},
		"lines like those of prove in a file": {
			"t/a.t .. \n1..2\nok 1 - a\nt/b.t ...\nResult: PASS\nok\nok\nt/b.t .. \n1..1\nok 1 - b\nok\nResult: PASS\n",
			[]string{"pass t/a.t: a", "pass t/a.t: #2", "pass t/b.t: b"},
			"",
		},
		"prove with times": {
			"[10:00:00] t/a.t .. \n1..1\nok 1 - a\nok       12 ms ( 0.00 usr  0.00 sys)\n[10:00:01] t/b.t .. \n1..1\nok 1 - b\nok        3 ms\n[10:00:02]\nAll tests successful.\n",
			[]string{"pass t/a.t: a", "pass t/b.t: b"},
			"",
		},
		"a second program of subtests": {
			"ok 1 - a\n1..1\n# Subtest: s\n    ok 1 - in\n    1..1\nok 1 - s\n1..1\n", []string{"pass a", "pass s > in", "pass s"}, "",
		},
		"a program that skips all": {"1..0 # SKIP no db\n1..1\nok 1 - b\n", []string{"pass b"}, "no db"},
		"two that died":            {"ok 1 - a\n1..2\nok 1 - b\n", []string{"pass a", "pass b", "partial"}, "follows 1 others"},
		"prove -v that is cut":     {"t/a.t .. \n1..2\nok 1 - one\n", []string{"pass t/a.t: one", "partial"}, "t/a.t: planned 2"},
		"prove without a stream":   {"t/a.t .. \nNo subtests run\n", []string{"partial"}, "t/a.t: there is no plan"},
		"not TAP":                  {"all good\nokay then\n", []string{"partial"}, "no line of TAP"},
		"empty":                    {"", []string{"partial"}, "no line of TAP"},
		"noise between":            {"starting\n1..2\nok 1 - a\nlistening on 3000\n# comment\nok 2 - b\n", []string{"pass a", "pass b"}, ""},
		"subtests": {
			"TAP version 14\n# Subtest: outer\n    # Subtest: inner\n        ok 1 - x\n        not ok 2 - y\n        1..2\n    not ok 1 - inner\n    1..1\nnot ok 1 - outer\nok 2 - z\n1..2\n",
			[]string{"pass outer > inner > x", "fail outer > inner > y", "fail outer > inner derived", "fail outer derived", "pass z"},
			"",
		},
		"a subtest that is cut": {"1..1\n# Subtest: a\n    ok 1 - x\n    not", []string{"pass x", "partial"}, "inside a subtest"},
		"a subtest with fewer":  {"    ok 1 - x\n    1..2\nok 1 - a\n1..1\n", []string{"pass a > x", "pass a", "partial"}, "planned 2"},
		"equal names":           {"1..2\nok 1 - a\nnot ok 2 - a\n", []string{"pass a", "fail a #2"}, ""},
		"a file that does not load": {
			"1..1\nnot ok 1 - /workspace/a.test.mjs\n  ---\n  failureType: 'testCodeFailure'\n  exitCode: 1\n  error: 'test failed'\n  ...\n",
			[]string{"error/build /workspace/a.test.mjs"},
			"",
		},
		"a hook that fails": {"1..1\nnot ok 1 - a\n  ---\n  failureType: 'hookFailed'\n  error: 'x'\n  ...\n", []string{"error/setup a"}, ""},
		"a time limit":      {"1..1\nnot ok 1 - a\n  ---\n  failureType: 'testTimeoutFailure'\n  ...\n", []string{"error/timeout a"}, ""},
		"a crash of the code": {
			"1..1\nnot ok 1 - a\n  ---\n  failureType: 'testCodeFailure'\n  error: 'boom'\n  code: 'ERR_TEST_FAILURE'\n  name: 'RangeError'\n  stack: |-\n    total (file:///workspace/src/price.mjs:2:9)\n    TestContext.<anonymous> (file:///workspace/a.test.mjs:2:9)\n  ...\n",
			[]string{"error/crash a"},
			"",
		},
		"a block that is never closed": {"1..2\nnot ok 1 - a\n  ---\n  message: 'x'\nok 2 - b\n", []string{"fail a", "pass b"}, ""},
		"perl style":                   {"1..1\nnot ok 1 - adds\n#   Failed test 'adds'\n#          got: '1'\n", []string{"fail adds"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ReadTAP(strings.NewReader(test.in), options())
			if diff := cmp.Diff(test.want, lines(got)); diff != "" {
				t.Errorf("(-want +got):\n%s\nfaults %q", diff, got.Faults)
			}
			if !strings.Contains(strings.Join(got.Faults, "\n"), test.fault) {
				t.Errorf("faults %q", got.Faults)
			}
		})
	}
}

// A name that prove gives is one of a file, however long the line is.
func TestTAPBoundsTheFile(t *testing.T) {
	long := "t/" + strings.Repeat("x", 1<<20) + ".t .. \n1..500\n" + strings.Repeat("ok\n", 500)
	got := ReadTAP(strings.NewReader(long), options())
	size := 0
	for _, c := range got.Cases {
		size += len(c.ID.Suite)
	}
	if len(got.Cases) != 500 || size > 500*(maxName+10) {
		t.Errorf("%d cases hold %d bytes of names", len(got.Cases), size)
	}
}

func FuzzReadTAP(f *testing.F) {
	f.Add([]byte("TAP version 14\n1..2\n    ok 1 - x\n    1..1\nok 1 - a\nnot ok 2 - b # TODO x\n  ---\n  error: 'x'\n  ...\n"))
	f.Add([]byte("1..0\nBail out!"))
	f.Add([]byte("t/a.t .. \n1..1\nok 1\nok\nt/b.t .. \n1..2\nDubious, test returned 2\nFailed 2/2 subtests\nt/c.t .. skipped: x\nResult: FAIL\n"))
	if raw, err := os.ReadFile("testdata/node.tap"); err == nil {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { invariants(t, ReadTAP(strings.NewReader(string(raw)), options())) })
}
