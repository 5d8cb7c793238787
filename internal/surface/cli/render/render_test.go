package render_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
)

var update = flag.Bool("update", false, "write golden files")

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain text\n\ttabbed":                   "plain text\n\ttabbed",
		"\x1b[31mred\x1b[0m":                     "red",
		"\x1b[2J\x1b[Hcleared":                   "cleared",
		"\x1b]0;owned\x07title":                  "title",
		"\x1b]8;;http://evil.example.com\x1b\\x": "x",
		"\x1bP1$r payload \x1b\\x":               "x",
		"\u009b31mc1":                            "c1",
		"\u009d0;title\u009cc1 string":           "c1 string",
		"\x1b(Bcharset":                          "charset",
		"\x1b]0;unfinished\nnext line stays":     "\nnext line stays",
		"\x1b]52;c;ZXZpbA==\x07clipboard":        "clipboard",
		"bell\x07 back\x08space \x00nul":         "bell backspace nul",
		"10%\r50%\r100%\ndone":                   "100%\ndone",
		"windows\r\nlines\r\n":                   "windows\nlines\n",
		"progress\r\x1b[Kdone":                   "done",
		"trailing\r":                             "trailing",
		"user\u202etxt.exe":                      "usertxt.exe",
		"zero\u200bwidth \u2066iso\u2069":        "zerowidth iso",
		"not \xff utf-8":                         "not \ufffd utf-8",
		"família 👨‍👩‍👧 日本語":                      "família 👨‍👩‍👧 日本語",
		"\x1b\x1b[31m[31mnested":                 "[31mnested",
		"\x1b[31":                                "",
		"\x1b":                                   "",
		"\x1b[3\x1b[1mbroken":                    "broken",
		"tag\U000e0041chars":                     "tagchars",
	} {
		if got := render.Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := render.Line("a\n  b\tc"); got != "a b c" {
		t.Errorf("Line = %q", got)
	}
}

// dangerous finds what must never reach a terminal.
func dangerous(s string) bool {
	for _, r := range s {
		if r != '\n' && r != '\t' && (r < 0x20 || (r >= 0x7f && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069)) {
			return true
		}
	}
	return !utf8.ValidString(s)
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31mx\x1b[0m", "\x1b]0;t\x07", "\r\n\r", "\u009b1m", "\xc2", "\x1bP\x1b", "a\rb\nc\rd", "\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := render.Clean(s)
		if dangerous(got) {
			t.Fatalf("Clean(%q) = %q", s, got)
		}
		if again := render.Clean(got); again != got {
			t.Fatalf("Clean is not stable: %q, then %q", got, again)
		}
		if line := render.Line(s); strings.ContainsAny(line, "\n\t\r") || dangerous(line) {
			t.Fatalf("Line(%q) = %q", s, line)
		}
		for _, l := range render.Wrap(got, 40) {
			if strings.Contains(l, "\n") || dangerous(l) {
				t.Fatalf("Wrap of %q gives %q", got, l)
			}
		}
		if w := render.Width(render.Cut(got, 20)); w > 20 && !strings.Contains(got, "\n") {
			t.Fatalf("Cut to 20 columns took %d", w)
		}
	})
}

// paint is what the renderer itself may send to a terminal.
var paint = regexp.MustCompile("\x1b\\[[0-9;]*m|\r\x1b\\[K")

// FuzzEvents feeds hostile payloads to every kind of event.
func FuzzEvents(f *testing.F) {
	for pick := range uint8(16) {
		f.Add("\x1b]0;owned\x07\x1b[2J\u202e", "", pick)
	}
	f.Add("x", `{"text":"\u001b[2J"}`, uint8(7))
	f.Add("title", `{"title":"x\r\ny","number":-1,"duration_ns":-5,"exit_code":3,"output":"\u009b1m"}`, uint8(7))
	f.Add("x", `{"reasons":["\u202e"],"not_shown":null,"verdict":"\u0007"}`, uint8(7))
	f.Add("x", `[]`, uint8(7))
	kinds := []core.EventKind{
		core.EventSessionCreated, core.EventSessionState, core.EventPromptQueued, core.EventPromptState, core.EventRunStarted, core.EventNodeStarted,
		core.EventSandbox, core.EventPhase, core.EventService, core.EventAgentText, core.EventAgentThought, core.EventDelta, core.EventToolStarted, core.EventToolFinished, core.EventModelCall,
		core.EventPicture, core.EventNetworkDenied, core.EventCommit, core.EventCheck, core.EventVerdict, core.EventChange, core.EventComment, core.EventApproval,
		core.EventBudget, core.EventWarning, core.EventLog, core.EventBuildState, core.EventNodeFinished, core.EventRunFinished, "unknown.kind",
	}
	states := []string{"", `,"state":"failed"`, `,"state":"ready"`, `,"state":"running"`, `,"state":"dead"`, `,"state":"handed_over"`, `,"state":"done"`}
	f.Fuzz(func(t *testing.T, text, raw string, pick uint8) {
		if n := int(pick) % (len(states) + 1); n < len(states) { // text in every field
			quoted, _ := json.Marshal(text)
			raw = `{"text":Q,"title":Q,"node":Q,"tool":Q,"output":Q,"message":Q,"hint":Q,"code":Q,"host":Q,"reason":Q,"question":Q,"id":Q,"body":Q,"path":Q,
				"subject":Q,"commit":Q,"check":Q,"cell":Q,"detail":Q,"result":Q,"verdict":Q,"reasons":[Q],"not_shown":[Q],"evidence":Q,"name":Q,"url":Q,"phase":Q,
				"service":Q,"model":Q,"outcome":Q,"what":Q,"spent":Q,"limit":Q,"cause":Q,"from":Q,"to":Q,"by":Q,"action":Q,"change":Q,"number":3,"snapshot":Q,
				"author":{"handle":Q,"name":Q},"failure":{"message":Q,"command":Q,"output":Q,"hint":Q},"sandbox":Q,"prompt":Q` + states[n] + `}`
			raw = strings.ReplaceAll(raw, "Q", string(quoted))
		}
		var out bytes.Buffer
		o := render.Options{Out: &out, Width: 60, Style: render.Style{Unicode: true}, Live: true, Environment: "shop", Now: func() time.Time { return time.Unix(1e9, 0) }}
		if pick/8%2 == 0 { // else no sequence may be in the output at all
			o.Style.Color, o.Terminal = true, true
		}
		s, b := render.NewSession(o), render.NewBuild(o)
		for _, k := range kinds {
			e := core.Event{Kind: k, Seq: 1, Subject: text, Data: json.RawMessage(raw)}
			s.Event(e)
			s.Tick()
			b.Event(e)
		}
		s.Close()
		b.Close()
		rest := out.String()
		if o.Terminal {
			rest = paint.ReplaceAllString(rest, "")
		}
		if dangerous(rest) {
			t.Fatalf("text %q, data %q: %q", text, raw, rest)
		}
	})
}

func TestWrap(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"short":  {"one two", []string{"one two"}},
		"long":   {"one two three four five six", []string{"one two three four", "five six"}},
		"indent": {"    one two three four five", []string{"    one two three", "    four five"}},
		"bullet": {"- one two three four five six", []string{"- one two three four", "  five six"}},
		"word":   {strings.Repeat("x", 45), []string{strings.Repeat("x", 20), strings.Repeat("x", 20), "xxxxx"}},
		"fence":  {"```\n" + strings.Repeat("y", 25) + "\n```", []string{"```", strings.Repeat("y", 25), "```"}},
		"wide":   {"日本語日本語日本語日本語", []string{"日本語日本語日本語日", "本語"}},
		"empty":  {"a\n\nb\n\n", []string{"a", "", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, render.Wrap(c.in, 20)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHumanForms(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{render.Duration(0), "0 ms"},
		{render.Duration(400 * time.Microsecond), "<1 ms"},
		{render.Duration(142 * time.Millisecond), "142 ms"},
		{render.Duration(3149 * time.Millisecond), "3.1 s"},
		{render.Duration(59990 * time.Millisecond), "59.9 s"},
		{render.Duration(125 * time.Second), "2 min 5 s"},
		{render.Duration(2 * time.Minute), "2 min"},
		{render.Duration(72 * time.Minute), "1 h 12 min"},
		{render.Duration(100 * time.Hour), "4 d"},
		{render.Ago(now.Add(-2*time.Second), now), "just now"},
		{render.Ago(now.Add(-90*time.Second), now), "1 min ago"},
		{render.Ago(now.Add(-30*time.Hour), now), "30 h ago"},
		{render.Ago(now.Add(time.Hour), now), "in 1 h"},
		{render.Ago(now.AddDate(0, -3, 0), now), "2025-10-02"},
		{render.Ago(time.Time{}, now), "-"},
		{render.Bytes(3), "3 B"},
		{render.Bytes(1536), "1.5 KiB"},
		{render.Bytes(612 << 20), "612 MiB"},
		{render.Bytes(3 << 40), "3.0 TiB"},
		{render.Thousands(1234567), "1 234 567"},
		{render.Thousands(-12), "-12"},
		{render.Count(1, "line"), "1 line"},
		{render.Count(2, "line"), "2 lines"},
		{render.FileName("../../etc/passwd"), "etc-passwd"},
		{render.FileName("\x1b[0m"), "picture"},
		{render.Cut("日本語", 4), "日…"},
		{render.Money(2_500_000), "$2.50"},
		{render.Money(4200), "$0.0042"},
		{render.Cost(core.Cost{}), "$0"},
		{render.Cost(core.Cost{Unknown: true}), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTableFitsItsWidth(t *testing.T) {
	var out bytes.Buffer
	tab := render.Table{Head: []string{"ID", "TITLE", "WHEN"}, Flex: 1, Width: 40}
	tab.Row("ses_1", "a title that is much longer than the place there is for it", "5 min ago")
	tab.Row("ses_2", "short\x1b[31m", "")
	if err := tab.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "ID     TITLE                   WHEN\n" +
		"ses_1  a title that is much…   5 min ago\n" +
		"ses_2  short\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// golden compares with a file; make generate writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-file +got):\n%s", file, diff)
	}
}

func TestReflow(t *testing.T) {
	in := "This line was broken at somebody else's width, and\nso it goes on here.\nShort.\nNext.\n\n- a list entry that is long enough to have been broken there\n- another\n\n```\ncode that is long enough to have been broken at somebody's width\nstays\n```\n"
	want := "This line was broken at somebody else's width, and so it goes on here.\nShort.\nNext.\n\n- a list entry that is long enough to have been broken there\n- another\n\n```\ncode that is long enough to have been broken at somebody's width\nstays\n```\n"
	if diff := cmp.Diff(want, render.Reflow(in)); diff != "" {
		t.Error(diff)
	}
}

func TestMarkdown(t *testing.T) {
	in := "### Evidence: **proven**\n\n| a | long |\n|---|---|\n| one\\_two | `x\\_` |\n| \\| | 2 |\n\n- a\\_b &gt; c `d\\_e`\n\n```\n# x\\_y\n```\n\n<details><summary>What the agent says</summary>\n\n> The discount was taken from the price of one piece\n> of each line.\n>\n> Second.\n\n</details>\n"
	want := "Evidence: proven\n\na        long\none_two  `x\\_`\n|        2\n\n- a_b > c `d\\_e`\n\n```\n# x\\_y\n```\n\nWhat the agent says:\n\n> The discount was taken from the price\n> of one piece of each line.\n> \n> Second."
	if diff := cmp.Diff(want, strings.Join(render.Markdown(render.Style{}, in, 40), "\n")); diff != "" {
		t.Error(diff)
	}
}
