package strictyaml

import (
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
)

func TestParseKeepsPlaces(t *testing.T) {
	n, err := Parse("x.yaml", []byte("a: 1\nb:\n  c: [x, \"y\", true, ~]\nd: |\n  one\n  two\n8080: z\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := n.Get("b").Get("c")
	if c.Kind != List || c.Line != 3 || c.Column != 6 || len(c.Items) != 4 {
		t.Errorf("c: %+v", c)
	}
	if y := c.Items[1]; y.Text != "y" || y.Line != 3 || y.Column != 10 {
		t.Errorf("y: %+v", y)
	}
	if d := n.Get("d"); d.Kind != String || d.Text != "one\ntwo\n" {
		t.Errorf("d: %+v", d)
	}
	if a := n.Get("a"); a.Kind != Number || a.Text != "1" {
		t.Errorf("a: %+v", a)
	}
	if n.Get("8080") == nil || n.Get("nothing") != nil {
		t.Error("keys")
	}
	if empty, err := Parse("x.yaml", []byte("# nothing\n")); err != nil || empty.Kind != Null {
		t.Errorf("empty: %+v %v", empty, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"two documents": "a: 1\n---\nb: 2\n",
		"doubled key":   "a: 1\na: 2\n",
		"anchor":        "a: &x 1\nb: *x\n",
		"merge":         "a: {b: 1}\nc:\n  <<: {d: 1}\n",
		"tag":           "a: !!str 1\n",
		"not UTF-8":     "a: \xff\n",
		"unclosed":      "a: [1\nb: 2\n",
		"deep":          strings.Repeat("[", 100_000),
		"deep lists":    strings.Repeat("- ", 5_000),
		"long line":     "a: " + strings.Repeat("x", 20_000),
		"large":         strings.Repeat("a", MaxBytes+1),
	} {
		start := time.Now()
		_, err := Parse("x.yaml", []byte(text))
		if !core.Is(err, core.Invalid) || !strings.Contains(err.Error(), "x.yaml") {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%s took %v", name, d)
		}
	}
}

func TestFaultsShowTheCaret(t *testing.T) {
	src := "a: 1\nb: {c: über, d: wrong}\n"
	n, err := Parse("x.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	f := NewFaults("x.yaml", []byte(src))
	f.Add(n.Get("b").Get("d"), "no such %s", "thing")
	f.AddHint(n.Get("a"), "do this", "bad")
	want := "x.yaml:1:4: bad\n    1 | a: 1\n      |    ^\nx.yaml:2:17: no such thing\n    2 | b: {c: über, d: wrong}\n      |                 ^"
	if got := f.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if core.HintOf(f.Err()) != "do this" {
		t.Error("hint")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a: {b: [1, two]}\nc: |\n  x\n"))
	f.Add([]byte("- - - a\n? b\n: c\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 10_000 {
			return
		}
		done := make(chan error, 1)
		go func() { _, err := Parse("x", data); done <- err }()
		select {
		case err := <-done:
			if err != nil && !core.Is(err, core.Invalid) {
				t.Errorf("kind: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("does not end: %q", data)
		}
	})
}
