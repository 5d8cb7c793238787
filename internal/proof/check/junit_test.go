package check

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// lines prints a report for comparison: one line a case, then what was wrong.
func lines(r Report) []string {
	out := []string{}
	for _, c := range r.Cases {
		s := string(c.Status)
		if c.Fault != FaultNone {
			s += "/" + string(c.Fault)
		}
		s += " " + c.ID.String()
		if len(c.Tries) > 0 {
			s += fmt.Sprint(" tries=", c.Tries)
		}
		if c.Derived {
			s += " derived"
		}
		out = append(out, s)
	}
	if r.Partial {
		out = append(out, "partial")
	}
	return out
}

func options() Options { return Options{Check: "test", Root: "/workspace"} }

func TestJUnitDialects(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []string
	}{
		"pytest, call and teardown fail as two nodes": {
			`<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="1" failures="1" tests="1" time="0.02">
			<testcase classname="tests.test_a" name="test_one" time="0.001"><failure message="assert 1 == 2">def test_one():
>       assert 1 == 2
E       assert 1 == 2
tests/test_a.py:5: AssertionError</failure></testcase>
			<testcase classname="tests.test_a" name="test_one" time="0.001"><error message="failed on teardown with &quot;OSError: x&quot;">..</error></testcase>
			<testcase classname="tests.test_a" name="test_two"><error message="failed on setup with &quot;E&quot;"/></testcase>
			<testcase classname="tests.test_a" name="test_x"><skipped type="pytest.xfail" message="later"/></testcase>
			<testcase classname="tests.test_a" name="test_raises"><failure message="ZeroDivisionError: division by zero">
tests/test_a.py:9:
shop/price.py:3: ZeroDivisionError</failure></testcase>
			<testcase classname="tests.test_a" name="test_new"><failure message="AttributeError: module 'shop' has no attribute 'tax'">
tests/test_a.py:12: AttributeError</failure></testcase>
			<testcase classname="" name="tests.test_b"><error message="collection failure">ImportError while importing test module</error></testcase>
			</testsuite></testsuites>`,
			[]string{
				"fail pytest: tests.test_a > test_one tries=[fail error]", "error/setup pytest: tests.test_a > test_two",
				"todo pytest: tests.test_a > test_x", "error/crash pytest: tests.test_a > test_raises",
				"error/interface pytest: tests.test_a > test_new", "error/build pytest: tests.test_b",
			},
		},
		"surefire reruns": {
			`<testsuite name="com.shop.PriceTest" tests="4"><properties><property name="java.home" value="/x"/></properties>
			<testcase name="ok" classname="com.shop.PriceTest"/>
			<testcase name="flaky" classname="com.shop.PriceTest"><flakyFailure message="expected:&lt;1&gt; but was:&lt;2&gt;" type="java.lang.AssertionError"><stackTrace>java.lang.AssertionError
	at com.shop.PriceTest.flaky(PriceTest.java:9)</stackTrace><system-out>x</system-out></flakyFailure></testcase>
			<testcase name="red" classname="com.shop.PriceTest"><failure type="org.opentest4j.AssertionFailedError">expected</failure><rerunFailure type="org.opentest4j.AssertionFailedError"/></testcase>
			<testcase name="npe" classname="com.shop.PriceTest"><error type="java.lang.NullPointerException">java.lang.NullPointerException
	at com.shop.Price.total(Price.java:4)
	at com.shop.PriceTest.npe(PriceTest.java:20)</error></testcase>
			<testcase name="own" classname="com.shop.PriceTest"><error type="java.lang.NullPointerException">java.lang.NullPointerException
	at java.util.Objects.requireNonNull(Objects.java:2)
	at com.shop.PriceTest.own(PriceTest.java:20)</error></testcase>
			</testsuite>`,
			[]string{
				"pass com.shop.PriceTest: ok", "fail com.shop.PriceTest: flaky tries=[fail pass]", "fail com.shop.PriceTest: red tries=[fail fail]",
				"error/crash com.shop.PriceTest: npe", "error/test com.shop.PriceTest: own",
			},
		},
		"gradle, one node per try": {
			`<testsuite name="T"><testcase name="a" classname="T"><failure message="expected 1"/></testcase><testcase name="a" classname="T"><failure message="expected 1"/></testcase><testcase name="a" classname="T"/></testsuite>`,
			[]string{"fail T: a tries=[fail fail pass]"},
		},
		"nextest, flaky told as failure": {
			`<testsuites name="nextest-run"><testsuite name="shop"><testcase name="tests::sum" classname="shop"><failure type="test failure">thread 'tests::sum' panicked at src/lib.rs:9:5:
assertion ` + "`left == right`" + ` failed
  left: 1</failure><flakyFailure type="test failure"/></testcase>
			<testcase name="tests::boom" classname="shop"><failure type="test failure">thread 'tests::boom' panicked at src/price.rs:4:9:
index out of bounds: the len is 0</failure></testcase></testsuite></testsuites>`,
			[]string{"fail shop: tests::sum tries=[fail fail]", "error/crash shop: tests::boom"},
		},
		"jest and vitest": {
			`<testsuites name="jest tests"><testsuite name="price"><testcase classname="price adds" name="price adds" file="src/price.test.js"><failure>Error: expect(received).toBe(expected) // Object.is equality

Expected: 3
Received: 2
    at Object.toBe (/workspace/src/price.test.js:5:20)</failure></testcase>
			<testcase classname="price" name="gone"><failure>TypeError: (0 , _price.tax) is not a function
    at Object.tax (/workspace/src/price.test.js:9:10)</failure></testcase>
			<testcase classname="price" name="crash"><failure>TypeError: Cannot read properties of undefined (reading 'x')
    at total (/workspace/src/price.js:2:10)
    at Object.&lt;anonymous&gt; (/workspace/src/price.test.js:12:3)</failure></testcase></testsuite></testsuites>`,
			[]string{"fail src/price.test.js: price adds > price adds", "error/interface price: gone", "error/crash price: crash"},
		},
		"vitest with unescaped names": {
			`<testsuites><testsuite name="a.test.ts"><testcase classname="a.test.ts" name="works <anonymous> & more"><failure message="expected <b> to equal "x"" type="AssertionError">at <anonymous> foo
 at Object.<anonymous> (a.test.ts:1:1)</failure></testcase><testcase classname="a.test.ts" name="next"/></testsuite></testsuites>`,
			[]string{"fail a.test.ts: works <anonymous> & more", "pass a.test.ts: next"},
		},
		"RSpec and PHPUnit": {
			`<testsuites><testsuite name="rspec"><testcase classname="spec.price_spec" name="adds" file="./spec/price_spec.rb"><failure message="expected: 3
     got: 2" type="RSpec::Expectations::ExpectationNotMetError">x</failure></testcase></testsuite>
			<testsuite name="All"><testsuite name="PriceTest" file="/workspace/tests/PriceTest.php"><testsuite name="PriceTest::testAdd"><testcase name="testAdd with data set #0" class="PriceTest" classname="PriceTest" file="/workspace/tests/PriceTest.php"><failure type="PHPUnit\Framework\ExpectationFailedException">Failed asserting that 1 matches expected 2.</failure></testcase></testsuite></testsuite></testsuite></testsuites>`,
			[]string{"fail spec/price_spec.rb: spec.price_spec > adds", "fail tests/PriceTest.php: PriceTest > testAdd with data set #0"},
		},
		"nested suites, no root, two roots": {
			`<testsuite name="outer"><testsuite name="inner"><testcase name="a"/></testsuite><testcase name="b"/></testsuite><testsuite name="second"><testcase name="c" status="skipped"/><testcase name="d" status="notrun"/></testsuite>`,
			[]string{"pass outer: inner > a", "pass outer: b", "skip second: c", "skip second: d"},
		},
		"namespaces, CDATA, comments, doctype, entities": {
			`<!DOCTYPE x [<!ENTITY a "b"><!ENTITY l SYSTEM "file:///etc/passwd">]><!-- <testcase name="no"/> --><j:testsuites xmlns:j="x"><j:testsuite name="s">
			<j:testcase name="a&#0;b&#x1b;&nbsp;c&l;"><j:failure><![CDATA[<testcase name="no"/> ]]]]><![CDATA[> assert 1]]></j:failure></j:testcase></j:testsuite></j:testsuites>`,
			[]string{"fail s: ab c&l;"},
		},
		"printed markup inside output": {
			`<testsuites><testsuite name="s"><testcase name="a"><system-out>got <error> and <failure message="x"> here </testsuite></system-out></testcase><testcase name="b"/></testsuite></testsuites>`,
			[]string{"pass s: a", "pass s: b"},
		},
		"swift-testing with quotes in names": {
			"<testsuites><testsuite name=\"T\" errors=\"0\"><testcase classname=\"ShopTests\" name=\"adds()\" time=\"1,234.5\"><failure message=\"Expectation failed: (a → 1) == 2\" /></testcase></testsuite></testsuites>",
			[]string{"fail T: ShopTests > adds()"},
		},
		"control characters and broken UTF-8": {
			"<testsuite name=\"s\"><testcase name=\"a\x01\x1b[31mred\xff\"/></testsuite>",
			[]string{"pass s: a[31mred\uFFFD"},
		},
		"XML 1.1": {`<?xml version="1.1" encoding="UTF-8"?><testsuite name="s"><testcase name="a"/></testsuite>`, []string{"pass s: a"}},
		"byte order mark": {
			"\ufeff<?xml version=\"1.0\"?><testsuite name=\"s\"><testcase name=\"a\"/></testsuite>", []string{"pass s: a"},
		},
		"latin-1":     {"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><testsuite name=\"s\"><testcase name=\"caf\xe9\"/></testsuite>", []string{"pass s: café"}},
		"UTF-16":      {utf16le(`<?xml version="1.0" encoding="UTF-16"?><testsuite name="s"><testcase name="é"/></testsuite>`), []string{"pass s: é"}},
		"says UTF-16": {`<?xml version="1.0" encoding="utf-16"?><testsuite name="s"><testcase name="a"/></testsuite>`, []string{"pass s: a"}},
		"empty":       {"", []string{"partial"}},
		"only spaces": {" \n\t ", []string{"partial"}},
		"not XML":     {"Segmentation fault", []string{"partial"}},
		"another XML": {"<html><body>Not found</body></html>", []string{"partial"}},
		"empty root":  {"<testsuites/>", []string{"partial"}},
		"no cases":    {`<testsuites><testsuite name="s" tests="0"/></testsuites>`, []string{}},
		"cut inside a case": {
			`<testsuites><testsuite name="s"><testcase name="a"/><testcase name="b"><system-out>half`,
			[]string{"pass s: a", "error/lost s: b", "partial"},
		},
		"cut inside a failure": {
			`<testsuites><testsuite name="s"><testcase name="a"/><testcase name="b"><failure message="expected 1 got 2">ha`,
			[]string{"pass s: a", "fail s: b", "partial"},
		},
		"cut inside a tag":        {`<testsuites><testsuite name="s"><testcase name="a"/><testca`, []string{"pass s: a", "partial"}},
		"cut after the last case": {`<testsuites><testsuite name="s"><testcase name="a"></testcase>`, []string{"pass s: a", "partial"}},
		"a case that is not closed": {
			`<testsuites><testsuite name="s"><testcase name="a"><testcase name="b"></testcase></testsuite></testsuites>`,
			[]string{"error/lost s: a", "pass s: b", "partial"},
		},
		"counters that lie": {`<testsuite name="s" tests="99" failures="7"><testcase name="a"/></testsuite>`, []string{"pass s: a"}},
		"a todo of node":    {`<testsuites><testcase name="a" classname="test"><skipped type="todo" message="later"/><failure message="x"/></testcase></testsuites>`, []string{"todo a"}},
		"equal names of node in two files": {
			`<testsuites><testcase name="a" classname="test"/><testcase name="a" classname="test"><failure message="AssertionError"/></testcase></testsuites>`,
			[]string{"pass a", "fail a #2"},
		},
		"no name": {`<testsuite><testcase/></testsuite>`, []string{"pass (no name)"}},
		"addresses and paths in names": {
			`<testsuite name="s"><testcase name="f[0x7f12ab34cd-/tmp/pytest-1/x]"/><testcase name="f[0x7f12ab34ce-/tmp/pytest-2/x]"><failure message="assert 1"/></testcase></testsuite>`,
			[]string{"pass s: f[<addr>-<tmp>]", "fail s: f[<addr>-<tmp>] #2"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ReadJUnit(strings.NewReader(test.in), options())
			if name == "empty root" {
				test.want = []string{} // a root without a case is whole
			}
			if diff := cmp.Diff(test.want, lines(got)); diff != "" {
				t.Errorf("(-want +got):\n%s\nfaults %q", diff, got.Faults)
			}
			if got.Partial && len(got.Faults) == 0 {
				t.Error("partial without a reason")
			}
		})
	}
}

func utf16le(s string) string {
	out := []byte{0xFF, 0xFE}
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

func TestJUnitBounds(t *testing.T) {
	deep := strings.Repeat(`<testsuite name="x">`, 5000) + `<testcase name="a"/>` + strings.Repeat(`</testsuite>`, 5000)
	if r := ReadJUnit(strings.NewReader(deep), options()); !r.Partial || len(r.Cases) > 1 {
		t.Errorf("deep nesting: %v", r.Faults)
	}
	long := `<testsuite name="s"><testcase name="` + strings.Repeat("n", 100_000) + `"><failure message="` + strings.Repeat("m", 100_000) + `">` +
		strings.Repeat("t", 3_000_000) + `</failure></testcase></testsuite>`
	r := ReadJUnit(strings.NewReader(long), options())
	if len(r.Cases) != 1 || len(r.Cases[0].ID.Name) > maxName+10 || len(r.Cases[0].Message) > maxText+100 {
		t.Errorf("long texts: %d cases", len(r.Cases))
	}
	wide := `<testsuite name="s"><testcase name="a" ` + strings.Repeat(`k="v" `, 300_000) + `/></testsuite>`
	if r := ReadJUnit(strings.NewReader(wide), options()); !r.Partial {
		t.Errorf("a tag without end: %v", lines(r))
	}
}

func TestNodeReports(t *testing.T) {
	want := map[string][]string{
		"testdata/node.tap": {
			"fail eq", "error/test te", "skip skip", "todo todo", "fail grp > in", "error/interface grp > nf", "fail grp derived",
		},
		"testdata/node.junit": {
			"fail eq", "error/test te", "skip skip", "todo todo", "fail grp: in", "error/interface grp: nf",
		},
	}
	for name, want := range want {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		_, format, _ := strings.Cut(name, ".")
		if diff := cmp.Diff(want, lines(Read(format, f, options()))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		_ = f.Close()
	}
}

func FuzzReadJUnit(f *testing.F) {
	f.Add([]byte(`<testsuites><testsuite name="s"><testcase name="a"><failure message="x">y</failure></testcase></testsuite></testsuites>`))
	f.Add([]byte(`<!DOCTYPE x [<!ENTITY a "b">]><testsuite><testcase name="a&#0;"><![CDATA[x]]><skipped/></testcase>`))
	f.Add([]byte("\xff\xfe<\x00t\x00"))
	f.Add([]byte(`<?xml version="1.0" encoding="ISO-8859-1"?><testsuite name='`))
	if raw, err := os.ReadFile("testdata/node.junit"); err == nil {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { invariants(t, ReadJUnit(strings.NewReader(string(raw)), options())) })
}

// invariants hold for every report of every reader.
func invariants(t *testing.T, r Report) {
	t.Helper()
	seen := map[ID]bool{}
	for _, c := range r.Cases {
		if seen[c.ID] {
			t.Fatalf("identity %s occurs twice", c.ID)
		}
		seen[c.ID] = true
		if c.ID.Name == "" || c.ID.Check != "test" {
			t.Fatalf("identity %+v", c.ID)
		}
		if len(c.Message) > maxText+100 || len(c.ID.Name) > 4*maxName {
			t.Fatal("too long")
		}
		if c.Status == Pass && c.Fault != FaultNone {
			t.Fatalf("green with fault %s", c.Fault)
		}
		if c.Status == Pass {
			for _, s := range c.Tries {
				if s.Red() {
					t.Fatalf("green although a try was %s", s)
				}
			}
		}
		if c.Status == Missing || rank(c.Status) < 0 {
			t.Fatalf("status %q", c.Status)
		}
	}
	if r.Partial && len(r.Faults) == 0 {
		t.Fatal("partial without a reason")
	}
}
