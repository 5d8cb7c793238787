package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/model"
	"drydock/internal/harness/tool"
	"drydock/internal/harness/tool/tooltest"
)

func TestLocalBox(t *testing.T) {
	dir := t.TempDir()
	tooltest.TestBox(t, tooltest.Local(t, dir), dir)
}

type bench struct {
	t   *testing.T
	dir string
	box *tooltest.LocalBox
	set *tool.Set
	n   int
}

func newBench(t *testing.T, deps tool.Deps, opts tool.Options) *bench {
	b := &bench{t: t, dir: t.TempDir()}
	b.box = tooltest.Local(t, b.dir)
	deps.Box, opts.Root = b.box, b.dir
	b.set = tool.New(deps, opts)
	return b
}

func (b *bench) file(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) has(name, want string) {
	b.t.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	if string(got) != want {
		b.t.Errorf("%s is\n%q\nwant\n%q", name, got, want)
	}
}

type in map[string]any

func (b *bench) call(name string, input in) tool.Result {
	b.t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		b.t.Fatal(err)
	}
	b.n++
	r, err := b.set.Do(b.t.Context(), tool.Call{ID: "c", Key: fmt.Sprint(b.n), Name: name, Input: raw})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) ok(name string, input in, want ...string) tool.Result {
	b.t.Helper()
	return b.check(b.call(name, input), false, want...)
}

func (b *bench) fails(name string, input in, want ...string) tool.Result {
	b.t.Helper()
	return b.check(b.call(name, input), true, want...)
}

func (b *bench) check(r tool.Result, failed bool, want ...string) tool.Result {
	b.t.Helper()
	got := r.Content[0].Text
	if r.Failed != failed {
		b.t.Fatalf("failed is %v: %s", r.Failed, got)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			b.t.Errorf("%q is not in:\n%s", w, got)
		}
	}
	return r
}

func TestSchemasAreJSONAndClosed(t *testing.T) {
	b := newBench(t, tool.Deps{Pictures: pictures{}}, tool.Options{})
	names := map[string]bool{}
	for _, tl := range b.set.Offer() {
		var s struct {
			Type       string
			Properties map[string]any
			Required   []string
			Additional *bool `json:"additionalProperties"`
		}
		if err := json.Unmarshal(tl.Schema, &s); err != nil || s.Type != "object" || s.Additional == nil || *s.Additional || tl.Description == "" {
			t.Errorf("%s: %v, %+v", tl.Name, err, s)
		}
		for _, r := range s.Required {
			if _, ok := s.Properties[r]; !ok {
				t.Errorf("%s requires %s, which it does not have", tl.Name, r)
			}
		}
		names[tl.Name] = true
	}
	for n := range strings.FieldsSeq("run process read edit patch write search list picture finish") {
		if !names[n] {
			t.Errorf("%s is not offered", n)
		}
	}
	if set := newBench(t, tool.Deps{}, tool.Options{}).set; len(set.Offer()) != 9 {
		t.Error("picture is offered without a browser")
	}
}

func TestRun(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	b.file("sub/x", "")
	r := b.ok("run", in{"command": "echo hi; echo bad >&2"}, "hi\nbad\n")
	if r.ExitCode == nil || *r.ExitCode != 0 || !r.Wrote {
		t.Errorf("got %+v", r)
	}
	b.ok("run", in{"command": "true"}, "[exit code 0, no output]")
	b.ok("run", in{"command": "ls", "cwd": "sub", "timeout": "5"}, "x")
	r = b.fails("run", in{"command": "echo no; exit 7"}, "[exit code 7]\nno")
	if *r.ExitCode != 7 {
		t.Errorf("got %d", *r.ExitCode)
	}
	b.fails("run", in{"command": "kill -KILL $$"}, "killed by signal KILLED (exit code 137)")
	b.fails("run", in{"command": "echo before; sleep 60", "timeout": 1}, "timed out after 1s", "before")
	b.fails("run", in{"command": "  "}, "needs a command")
	b.fails("run", in{"comand": "ls"}, `unknown field "comand"`)
	b.fails("run", in{"command": 5}, "does not fit its schema")
	b.fails("run", in{"command": "ls", "timeout": "soon"}, "not a whole number")
	b.fails("run", in{"command": "ls", "cwd": "/no/such"}, "does not exist")
	b.fails("fly", in{}, `no tool "fly"`, "run, process")
	r, err := b.set.Do(t.Context(), tool.Call{Name: "run", Bad: `{"command": "ls`})
	if err != nil || !r.Failed || !strings.Contains(r.Content[0].Text, "valid JSON") {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestOutputOfPrograms(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	b.ok("run", in{"command": `printf '\033[1;32mok\033[0m\r\n 10%%\r 50%%\r100%%\ndone\377\000\n\033]0;title\007end\n'`}, "ok\n100%\ndone\uFFFD\nend\n")
}

// A long output keeps head and tail; the pointer leads to the rest.
func TestLongOutputIsCutAndPaged(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{Head: 200, Tail: 300})
	r := b.ok("run", in{"command": "seq 1 5000"}, "1\n2\n3\n", "4999\n5000\n", "left out: bytes")
	text := r.Content[0].Text
	if !r.Cut || len(text) > 900 {
		t.Fatalf("cut %v, %d bytes", r.Cut, len(text))
	}
	var from, to int64
	var id string
	at := strings.Index(text, "bytes ")
	if _, err := fmt.Sscanf(text[at:], "bytes %d to %d of process %s", &from, &to, &id); err != nil {
		t.Fatal(err, text)
	}
	id = strings.TrimSuffix(id, ";")
	head, _, _ := strings.Cut(text, "\n[...")
	_, tail, _ := strings.Cut(text, "...]\n")
	whole := head + "\n"
	for from < to {
		r = b.ok("process", in{"id": id, "action": "output", "offset": from, "limit": min(to-from, 400)})
		_, part, _ := strings.Cut(r.Content[0].Text, "\n")
		whole += part
		from += int64(len(part))
	}
	whole += tail
	var want strings.Builder
	for i := 1; i <= 5000; i++ {
		fmt.Fprintln(&want, i)
	}
	if whole != want.String() {
		t.Fatalf("head, pages and tail make %d bytes, want %d", len(whole), want.Len())
	}
}

func TestBackground(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{Settle: 500 * time.Millisecond})
	r := b.ok("run", in{"command": "echo up; sleep 60", "background": true}, "is running", "up")
	id := strings.Fields(r.Content[0].Text)[1]
	b.ok("process", in{"id": id, "action": "wait", "seconds": 1}, "is running")
	b.ok("process", in{"id": id, "action": "output"}, "up")
	b.ok("process", in{"id": id, "action": "stop"}, "killed by signal")
	b.ok("process", in{"id": id, "action": "stop"}, "killed by signal")
	b.fails("run", in{"command": "echo port in use; exit 1", "background": true}, "ended with exit code 1", "port in use")
	b.ok("run", in{"command": "trap '' TERM; echo stubborn; while :; do sleep 1; done", "background": true}, "stubborn")
	b.fails("process", in{"id": "nope", "action": "output"}, "does not exist")
	b.fails("process", in{"id": id, "action": "dance"}, "not one of output, wait, stop")
}

// A daemon that comes back does the same call and finds the command running.
func TestSameKeyFindsTheCommand(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	c := tool.Call{ID: "c", Key: "att/1/c", Name: "run", Input: json.RawMessage(`{"command":"echo x >> n; sleep 0.2; cat n"}`)}
	for range 2 {
		r, err := b.set.Do(t.Context(), c)
		if err != nil || r.Content[0].Text != "x\n" {
			t.Fatalf("got %+v, %v", r, err)
		}
		c.Again = true
	}
	if b.box.Starts != 1 {
		t.Fatalf("%d starts", b.box.Starts)
	}
}

func TestCancelledCommandIsStopped(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	reason := errors.New("a person stopped it")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(reason) })
	_, err := b.set.Do(ctx, tool.Call{Key: "k", Name: "run", Input: json.RawMessage(`{"command":"sleep 60"}`)})
	if !errors.Is(err, reason) {
		t.Fatalf("got %v", err)
	}
	limited, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if p, err := b.box.Wait(limited, "p1"); err != nil || p.Running {
		t.Fatalf("the command runs on: %+v, %v", p, err)
	}
}

func TestSandboxGoneIsAnError(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	b.box.Break(core.E("box", core.Unavailable, nil, "the sandbox is gone"))
	if _, err := b.set.Do(t.Context(), tool.Call{Name: "read", Input: json.RawMessage(`{"path":"x"}`)}); !core.Is(err, core.Unavailable) {
		t.Fatalf("got %v", err)
	}
}

func TestRead(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	var lines strings.Builder
	for i := 1; i <= 3000; i++ {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	b.file("long.txt", lines.String())
	b.file("wide.txt", strings.Repeat("x", 5000)+"\nnext\n")
	b.file("empty", "")
	b.file("bin", "a\x00b")
	b.file("latin", "caf\xe9\n")
	r := b.ok("read", in{"path": "long.txt"}, "     1\tline 1\n", "  2000\tline 2000\n", "[lines 1 to 2000 of 3000; go on with offset 2001]")
	if strings.Contains(r.Content[0].Text, "line 2001") {
		t.Error("more than the limit")
	}
	b.ok("read", in{"path": "long.txt", "offset": 2999, "limit": "5"}, "  2999\tline 2999\n  3000\tline 3000\n")
	b.ok("read", in{"path": b.dir + "/long.txt", "offset": 10, "limit": 1}, "    10\tline 10\n[lines 10 to 10 of 3000")
	b.ok("read", in{"path": "wide.txt"}, "[line of 5000 bytes cut]", "     2\tnext")
	b.ok("read", in{"path": "empty"}, "is empty")
	b.ok("read", in{"path": "latin"}, "caf\uFFFD")
	b.fails("read", in{"path": "long.txt", "offset": 3001}, "has 3000 lines")
	b.fails("read", in{"path": "bin"}, "binary")
	b.fails("read", in{"path": "none"}, "none does not exist")
	b.fails("read", in{"path": "."}, "is a directory; use list")
	b.fails("read", in{}, "needs a path")

	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewRGBA(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	b.file("p.png", buf.String())
	r = b.ok("read", in{"path": "p.png"}, "image/png")
	if len(r.Content) != 2 || r.Content[1].Kind != model.Image || !bytes.Equal(r.Content[1].Data, buf.Bytes()) {
		t.Errorf("got %+v", r.Content)
	}
}

func TestWriteListSearch(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	b.ok("write", in{"path": "src/a.go", "content": "package a\n\nvar Total = 1\n"}, "created src/a.go (3 lines)")
	b.ok("write", in{"path": "src/a.go", "content": "package a\n"}, "replaced src/a.go (1 lines)")
	b.fails("write", in{"path": "src", "content": "x"}, "is a directory")
	b.file("README.md", "# Total\n")
	b.ok("list", in{"depth": 2}, "README.md  8 bytes\n", "src/\n", "src/a.go  10 bytes\n")
	b.fails("list", in{"path": "nope"}, "does not exist")
	b.ok("search", in{"pattern": "(?i)total"}, "README.md:1: # Total")
	b.ok("search", in{"pattern": "package", "glob": "*.go", "files_only": true}, "src/a.go (1)")
	b.ok("search", in{"pattern": "nowhere at all"}, "no match")
	b.fails("search", in{"pattern": "("}, "no regular expression")
}

func TestEdit(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	b.file("a.go", "func f() {\n\treturn 1\n}\n\nfunc g() {\n\treturn 1\n}\n")
	r := b.ok("edit", in{"path": "a.go", "old": "func f() {\n\treturn 1", "new": "func f() {\n\treturn 2"}, "changed a.go", "     2\t\treturn 2")
	if !r.Wrote {
		t.Error("it wrote")
	}
	b.has("a.go", "func f() {\n\treturn 2\n}\n\nfunc g() {\n\treturn 1\n}\n")
	b.fails("edit", in{"path": "a.go", "old": "return", "new": "x"}, "2 times", "lines 2, 6", "replace_all")
	b.ok("edit", in{"path": "a.go", "old": "return", "new": "yield", "replace_all": true}, "in 2 places")
	b.fails("edit", in{"path": "a.go", "old": "func g() {\n    yield 1", "new": "x"}, "white space only", "     6\t\tyield 1")
	b.fails("edit", in{"path": "a.go", "old": "func g() {\n\tyield 9", "new": "x"}, "line 6 is", "yield 1")
	b.fails("edit", in{"path": "a.go", "old": "nothing like it", "new": "x"}, "copy the text exactly")
	b.fails("edit", in{"path": "a.go", "old": "", "new": "x"}, "needs old")
	b.fails("edit", in{"path": "a.go", "old": "x", "new": "x"}, "the same")
	b.fails("edit", in{"path": "b.go", "old": "x", "new": "y"}, "does not exist")
	b.has("a.go", "func f() {\n\tyield 2\n}\n\nfunc g() {\n\tyield 1\n}\n")

	b.file("dos.txt", "one\r\ntwo\r\nthree\r\n")
	b.ok("edit", in{"path": "dos.txt", "old": "one\ntwo", "new": "1\n2"})
	b.has("dos.txt", "1\r\n2\r\nthree\r\n")

	// The edit was made, then the daemon died before it was noted.
	raw := json.RawMessage(`{"path":"dos.txt","old":"one\ntwo","new":"1\n2"}`)
	again, err := b.set.Do(t.Context(), tool.Call{Name: "edit", Input: raw, Again: true})
	if err != nil || again.Failed {
		t.Errorf("got %+v, %v", again, err)
	}
}

func TestGate(t *testing.T) {
	closed := core.E("catchup", core.Unavailable, nil, "the repository is being brought up to date")
	var err error = closed
	b := newBench(t, tool.Deps{Gate: func(context.Context) error { return err }}, tool.Options{})
	b.file("a", "x\n")
	for name, input := range map[string]in{
		"run": {"command": "touch made"}, "write": {"path": "made", "content": ""}, "edit": {"path": "a", "old": "x", "new": "y"},
		"patch": {"patch": "--- a/a\n+++ b/a\n@@\n-x\n+y\n"},
	} {
		b.fails(name, input, "nothing can be changed yet", "brought up to date")
	}
	b.ok("read", in{"path": "a"}, "x")
	b.has("a", "x\n")
	err = nil
	b.ok("run", in{"command": "touch made"})
}

type pictures struct {
	pic tool.Picture
	err error
}

func (p pictures) Picture(_ context.Context, r tool.PictureRequest) (tool.Picture, error) {
	p.pic.Title = fmt.Sprintf("%dx%d full=%v", r.Width, r.Height, r.FullPage)
	return p.pic, p.err
}

func TestPicture(t *testing.T) {
	page := func(w, h int) []byte {
		var buf bytes.Buffer
		if err := png.Encode(&buf, image.NewRGBA(image.Rect(0, 0, w, h))); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	pic := tool.Picture{PNG: page(40, 30), Width: 40, Height: 30, Status: 200, Digest: "sha256:1", Console: []string{"TypeError: x is undefined"}}
	b := newBench(t, tool.Deps{Pictures: pictures{pic: pic}}, tool.Options{})
	r := b.ok("picture", in{"url": "http://127.0.0.1:3000/", "width": 800}, "status 200", "800x800 full=false", "TypeError", "failed requests: none")
	if len(r.Content) != 2 || !bytes.Equal(r.Content[1].Data, pic.PNG) || r.Picture == nil || r.Picture.Digest != "sha256:1" {
		t.Fatalf("got %+v", r)
	}
	b.fails("picture", in{"url": "javascript:alert(1)"}, "no http, https or file URL")

	pic.PNG = page(1200, 9000)
	b = newBench(t, tool.Deps{Pictures: pictures{pic: pic}}, tool.Options{})
	r = b.ok("picture", in{"url": "http://127.0.0.1:3000/", "full_page": true})
	cfg, err := png.DecodeConfig(bytes.NewReader(r.Content[1].Data))
	if err != nil || cfg.Width != 400 || cfg.Height != 3000 {
		t.Fatalf("a very long page is shown at %dx%d, %v", cfg.Width, cfg.Height, err)
	}
	pic.PNG = []byte("no picture")
	b = newBench(t, tool.Deps{Pictures: pictures{pic: pic}}, tool.Options{})
	b.ok("picture", in{"url": "http://127.0.0.1:3000/"}, "cannot be shown")
}

func TestFinish(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	r := b.ok("finish", in{"verdict": "done", "summary": "It works.", "claims": []string{"a"}}, "finished")
	if r.Finish == nil || r.Finish.Summary != "It works." || len(r.Finish.Claims) != 1 {
		t.Fatalf("got %+v", r.Finish)
	}
	if r := b.fails("finish", in{"verdict": "maybe", "summary": "x"}, "not one of"); r.Finish != nil {
		t.Fatal("a wrong verdict does not finish")
	}
	b.fails("finish", in{"verdict": "done", "summary": " "}, "needs a summary")
}

func TestTitles(t *testing.T) {
	b := newBench(t, tool.Deps{Pictures: pictures{}}, tool.Options{})
	for _, tt := range []struct{ name, input, want string }{
		{"run", `{"command":"go test\n  ./..."}`, "$ go test ./..."},
		{"run", `{"command":"ls","cwd":"sub","background":true}`, "$ ls (in sub) &"},
		{"read", `{"path":"a.go","offset":5,"limit":10}`, "read a.go 5-14"},
		{"edit", `{"path":"` + b.dir + `/x/a.go"}`, "edit x/a.go"},
		{"patch", `{"patch":"--- a/x\n+++ b/x\n@@\n-a\n+b\n"}`, "patch x"},
		{"search", `{"pattern":"a.b","glob":"*.go"}`, "search a.b (*.go)"},
		{"picture", `{"url":"http://127.0.0.1/"}`, "look at http://127.0.0.1/"},
		{"run", `not json`, "$"},
		{"fly", `{}`, "fly"},
	} {
		if got := b.set.Title(tt.name, json.RawMessage(tt.input)); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.name, tt.input, got, tt.want)
		}
	}
}
