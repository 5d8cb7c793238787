package check

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
)

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                                   "plain",
		"a  b\t\nc ":                              "a b c",
		"cafe\u0301":                              "caf\u00e9",
		"<Foo object at 0x7f3a12bc4d50>":          "<Foo object at <addr>>",
		"com.Foo@1a2b3c4d":                        "com.Foo@<addr>",
		"/tmp/pytest-of-root/pytest-3/x.txt ok":   "<tmp> ok",
		"at 2026-11-29T14:10:03.123Z":             "at <time>",
		"day 2026-11-29":                          "day 2026-11-29", // a date alone is written by hand
		"id 123e4567-e89b-12d3-a456-426614174000": "id <uuid>",
		"http://127.0.0.1:43211/x":                "http://127.0.0.1:<port>/x",
		"http://127.0.0.1:8080/x":                 "http://127.0.0.1:8080/x",
		"0xff":                                    "0xff",
		"a\u200bb\x00c":                           "abc",
	} {
		if got := Normalise(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func FuzzNormalise(f *testing.F) {
	f.Add("a 0x7f3a12bc4d50 /tmp/x 2026-11-29T14:10")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxName/4 {
			t.Skip() // cutting is not meant to be repeatable
		}
		one := Normalise(s)
		if two := Normalise(one); two != one {
			t.Errorf("%q becomes %q and then %q", s, one, two)
		}
	})
}

func TestParseSource(t *testing.T) {
	for in, want := range map[string]Source{
		"":                               {Format: "exit"},
		"gotest":                         {Format: "gotest"},
		"go-test":                        {Format: "gotest"},
		"tap":                            {Format: "tap"},
		"tap:a.tap":                      {Format: "tap", Globs: []string{"a.tap"}},
		"junit:reports/*.xml, b/./*.xml": {Format: "junit", Globs: []string{"reports/*.xml", "b/*.xml"}},
	} {
		got, err := ParseSource(in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", in, err, diff)
		}
	}
	for _, bad := range []string{"junit", "junit:", "junit:/etc/x", "junit:../x", "trx:a", "junit:a/../../b"} {
		if _, err := ParseSource(bad); !core.Is(err, core.Invalid) || core.HintOf(err) == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFromExit(t *testing.T) {
	for name, test := range map[string]struct {
		code  int
		slow  bool
		text  string
		s     Status
		fault Fault
	}{
		"green":          {0, false, "", Pass, FaultNone},
		"slow":           {137, true, "", Error, FaultTimeout},
		"go assertion":   {1, false, "--- FAIL: TestA (0.00s)\n    a_test.go:3: got 1\nFAIL", Fail, FaultNone},
		"go build":       {1, false, "# shop\n./a.go:3: undefined: x\nFAIL\tshop [build failed]", Error, FaultBuild},
		"go panic":       {2, false, "--- FAIL: TestA (0.00s)\npanic: x\n\ngoroutine 1 [running]:\nshop.f()\n\t/w/a.go:3 +0x1\n", Error, FaultCrash},
		"python":         {1, false, "E   assert 1 == 2\nE    +  where", Fail, FaultNone},
		"python import":  {2, false, "E   ModuleNotFoundError: No module named 'shop'", Error, FaultBuild},
		"silent":         {1, false, "", Error, FaultExit},
		"a linter":       {1, false, "a.js: 3 problems", Error, FaultExit},
		"not found":      {127, false, "sh: npm: not found", Error, FaultExit},
		"node assertion": {1, false, "AssertionError [ERR_ASSERTION]: 1 == 2\n    at file:///w/a.test.mjs:2:25", Fail, FaultNone},
	} {
		r := FromExit(options(), test.code, test.slow, []byte(test.text))
		if c := r.Cases[0]; c.Status != test.s || c.Fault != test.fault || c.ID.Name != "test" {
			t.Errorf("%s: %s/%s", name, c.Status, c.Fault)
		}
	}
}

func TestIsTestPath(t *testing.T) {
	yes := []string{
		"a_test.go", "pkg/x_test.go", "test_a.py", "tests/helper.py", "a_test.py", "src/a.test.ts", "src/a.spec.jsx", "__tests__/a.js",
		"spec/a_spec.rb", "test/a_test.rb", "src/test/java/com/A.java", "app/PriceTest.java", "PriceTests.cs", "FooSpec.scala", "a_test.exs",
		"tests/integration.rs", "t/basic.t", "a.bats", "e2e/login.ts", "cypress/x.cy.ts", "ShopTests/PriceTests.swift", "features/a.feature",
		"/workspace/tests/a.py", "tests.py",
	}
	no := []string{
		"a.go", "latest.go", "contest.py", "src/price.js", "testing.go", "attest/a.go", "protest.rb", "src/main/java/A.java", "Latest.java",
		"Contest.java", "/workspace/src/price.py", "fastest.ts", "inspect/x.go",
	}
	for _, p := range yes {
		if !IsTestPath(p) {
			t.Errorf("%s is a test", p)
		}
	}
	for _, p := range no {
		if IsTestPath(p) {
			t.Errorf("%s is no test", p)
		}
	}
}

func TestMerge(t *testing.T) {
	a := Report{Format: "junit", Cases: []Case{{ID: ID{Name: "x"}, Status: Pass}, {ID: ID{Name: "y"}, Status: Skip}}}
	b := Report{Format: "junit", Partial: true, Faults: []string{"cut"}, Cases: []Case{{ID: ID{Name: "x"}, Status: Fail}}}
	got := Merge(a, b)
	if !got.Partial || len(got.Cases) != 2 || got.Cases[0].Status != Fail || !got.Cases[0].Mixed() {
		t.Errorf("%+v", got)
	}
	if c := got.Count(); c != (Counts{Failed: 1, Skipped: 1}) {
		t.Errorf("%+v", c)
	}
}
