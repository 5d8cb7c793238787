package check

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stream makes events from short lines: "run TestA", "pass TestA", "fail" (of
// the package), "out TestA text".
func stream(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		if strings.HasPrefix(l, "raw ") {
			b.WriteString(l[4:] + "\n")
			continue
		}
		f := strings.SplitN(l, " ", 3)
		e := map[string]any{"Action": f[0], "Package": "shop"}
		if f[0] == "out" || f[0] == "pout" {
			e["Action"] = "output"
		}
		switch {
		case f[0] == "pout":
			e["Output"] = strings.TrimPrefix(l, "pout ") + "\n"
		case f[0] == "out":
			e["Test"], e["Output"] = f[1], f[2]+"\n"
		case len(f) > 1:
			e["Test"] = f[1]
		}
		raw, _ := json.Marshal(e)
		b.Write(append(raw, '\n'))
	}
	return b.String()
}

func TestGoTest(t *testing.T) {
	panicText := []string{
		"pout panic: boom", "pout ", "pout goroutine 7 [running]:", "pout shop.work()", "pout \t/workspace/price.go:3 +0x1",
		"pout shop.TestA.func1()", "pout \t/workspace/price_test.go:9 +0x2",
	}
	tests := map[string]struct {
		in    string
		want  []string
		fault string
	}{
		"green, skipped, red": {
			stream("start", "run TestA", "pass TestA", "run TestB", "skip TestB", "run TestC", "out TestC     c_test.go:7: got 1", "fail TestC", "fail"),
			[]string{"pass shop: TestA", "skip shop: TestB", "fail shop: TestC"},
			"",
		},
		"a goroutine panics: no end": {
			stream(append([]string{"run TestA", "run TestB"}, append(panicText, "fail")...)...),
			[]string{"error/crash shop: TestA", "error/lost shop: TestB"},
			"started and did not end",
		},
		"a build that failed": {
			stream(`raw {"ImportPath":"shop [shop.test]","Action":"build-output","Output":"# shop\n"}`,
				`raw {"ImportPath":"shop [shop.test]","Action":"build-output","Output":"price.go:3:1: undefined: x\n"}`,
				`raw {"ImportPath":"shop [shop.test]","Action":"build-fail"}`,
				"pout FAIL\tshop [build failed]", `raw {"Action":"fail","Package":"shop","FailedBuild":"shop [shop.test]"}`),
			[]string{"error/build shop: (package)"},
			"",
		},
		"TestMain exits 0": {stream("start", "pout ok  \tshop\t0.01s", "pass"), []string{}, "package shop passed without running a case"},
		"TestMain exits 1": {stream("start", "pout exit status 1", "fail"), []string{"error/test shop: (package)"}, ""},
		"no test files":    {stream("pout ?   \tshop\t[no test files]", "skip"), []string{}, ""},
		"a forged second end": {
			stream("run TestA", "pass TestA", "fail TestA", "fail"),
			[]string{"fail shop: TestA tries=[pass fail]"},
			"ended 2 times and started 1 times",
		},
		"count=2": {stream("run TestA", "pass TestA", "run TestA", "pass TestA", "pass"), []string{"pass shop: TestA tries=[pass pass]"}, ""},
		"a parent red by its child": {
			stream("run TestA", "run TestA/x", "run TestA/y", "out TestA/x     a_test.go:1: bad", "fail TestA/x", "pass TestA/y", "out TestA --- FAIL: TestA (0.00s)", "fail TestA", "fail"),
			[]string{"fail shop: TestA derived", "fail shop: TestA/x", "pass shop: TestA/y"},
			"",
		},
		"a parent red by itself too": {
			stream("run TestA", "run TestA/x", "fail TestA/x", "out TestA     a_test.go:9: worse", "fail TestA", "fail"),
			[]string{"fail shop: TestA", "fail shop: TestA/x"},
			"",
		},
		"cut in the middle": {stream("run TestA", "pass TestA", "run TestB"), []string{"pass shop: TestA", "error/lost shop: TestB", "partial"}, "the stream ends inside package shop"},
		"cut inside a line": {stream("run TestA", "pass TestA") + `{"Time":"2026","Action":"pa`, []string{"pass shop: TestA", "partial"}, "could not be read as an event"},
		"other lines between": {
			"go: downloading x\n" + stream("run TestA", "pass TestA", "pass") + "FAIL\nsome text\n{\"level\":\"info\"}\n",
			[]string{"pass shop: TestA"},
			"",
		},
		"without -json": {"--- FAIL: TestA\nFAIL\n", []string{"partial"}, "without -json"},
		"empty":         {"", []string{"partial"}, "empty"},
		"a time limit": {
			stream("run TestA", "pout panic: test timed out after 1s", "pout goroutine 1 [running]:", "fail"),
			[]string{"error/timeout shop: TestA"},
			"",
		},
		"a panic in the test's own code": {
			stream("run TestA", "out TestA --- FAIL: TestA", "out TestA panic: index [recovered, repanicked]", "out TestA ", "out TestA goroutine 7 [running]:",
				"out TestA testing.tRunner.func1()", "out TestA \ttesting/testing.go:1 +0x1", "out TestA panic({0x1})", "out TestA \truntime/panic.go:1 +0x1",
				"out TestA shop.TestA(0x1)", "out TestA \tshop/price_test.go:4 +0x1", "fail TestA", "fail"),
			[]string{"error/test shop: TestA"},
			"",
		},
		"a deadlock": {
			stream("run TestA", "pout fatal error: all goroutines are asleep - deadlock!", "pout ", "pout goroutine 1 [chan receive]:", "fail"),
			[]string{"error/lost shop: TestA"},
			"",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ReadGoTest(strings.NewReader(test.in), options())
			if diff := cmp.Diff(test.want, lines(got)); diff != "" {
				t.Errorf("(-want +got):\n%s\nfaults %q", diff, got.Faults)
			}
			if !strings.Contains(strings.Join(got.Faults, "\n"), test.fault) {
				t.Errorf("faults %q", got.Faults)
			}
		})
	}
}

func TestGoTestReal(t *testing.T) {
	f, err := os.Open("testdata/go-panic.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	want := []string{"fail x: TestA derived", "fail x: TestA/sub_one", "pass x: TestA/ok", "error/crash x: TestP"}
	if diff := cmp.Diff(want, lines(ReadGoTest(f, options()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGoTestCached(t *testing.T) {
	if r := ReadGoTest(strings.NewReader(stream("run TestA", "pass TestA", "pout ok  \tshop\t(cached)", "pass")), options()); !r.Cached {
		t.Error("not told as cached")
	}
}

func FuzzReadGoTest(f *testing.F) {
	f.Add([]byte(stream("run TestA", "pass TestA", "fail TestA", "pass")))
	f.Add([]byte(stream("run TestA/b", "out TestA/b panic: x", "fail")))
	if raw, err := os.ReadFile("testdata/go-panic.jsonl"); err == nil {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { invariants(t, ReadGoTest(strings.NewReader(string(raw)), options())) })
}
