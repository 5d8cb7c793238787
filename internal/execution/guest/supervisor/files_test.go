package supervisor

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

func put(t *testing.T, c *guest.Client, path, content string) {
	t.Helper()
	if err := c.WriteFile(t.Context(), path, 0, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	c, root := serve(t)
	ctx := t.Context()
	put(t, c, "/workspace/a/b/file.txt", "0123456789")
	data, info, err := c.ReadFile(ctx, "/workspace/a/b/file.txt", 3, 4)
	if err != nil || string(data) != "3456" || info.Size != 10 || info.Mode.Perm() != 0o644 {
		t.Errorf("got %q, %+v, %v", data, info, err)
	}
	if data, _, err := c.ReadFile(ctx, "/workspace/a/b/file.txt", 100, 0); err != nil || len(data) != 0 {
		t.Errorf("past the end: %q, %v", data, err)
	}
	if err := c.WriteFile(ctx, "/workspace/run.sh", 0o755, strings.NewReader("#!/bin/sh\necho hi\n")); err != nil {
		t.Fatal(err)
	}
	put(t, c, "/workspace/run.sh", "#!/bin/sh\necho again\n") // mode is kept
	if res := mustRun(t, c, guest.Command{Argv: []string{"./run.sh"}}); string(res.Stdout) != "again\n" {
		t.Errorf("got %q", res.Stdout)
	}
	if err := c.Symlink(ctx, "/workspace/a", "/workspace/link"); err != nil {
		t.Fatal(err)
	}
	if data, _, err := c.ReadFile(ctx, "/workspace/link/b/file.txt", 0, 1); err != nil || string(data) != "0" {
		t.Errorf("through a link: %q, %v", data, err)
	}
	list, err := c.List(ctx, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Path+f.Target)
	}
	if diff := cmp.Diff([]string{"/workspace/a", "/workspace/link/workspace/a", "/workspace/run.sh"}, names); diff != "" {
		t.Error(diff)
	}
	if err := c.Rename(ctx, "/workspace/run.sh", "/workspace/new/run.sh"); err != nil {
		t.Fatal(err)
	}
	if err := c.Mkdir(ctx, "/workspace/empty/deep", 0o700); err != nil {
		t.Fatal(err)
	}
	if st, err := c.Stat(ctx, "/workspace/empty/deep"); err != nil || !st.Mode.IsDir() || st.Mode.Perm() != 0o700 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := c.Remove(ctx, "/workspace/a", false); !core.Is(err, core.Conflict) {
		t.Errorf("a full directory: %v", err)
	}
	for range 2 {
		if err := c.Remove(ctx, "/workspace/a", true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Stat(ctx, "/workspace/a"); !core.Is(err, core.NotFound) {
		t.Errorf("got %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(root, "workspace", ".drydock-tmp*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFilesRefuse(t *testing.T) {
	c, root := serve(t)
	ctx := t.Context()
	mustRun(t, c, sh("mkfifo pipe; ln -s /etc outside"))
	if _, _, err := c.ReadFile(ctx, "/workspace/pipe", 0, 0); !core.Is(err, core.Invalid) {
		t.Errorf("a named pipe: %v", err)
	}
	if err := c.WriteFile(ctx, "/workspace", 0, strings.NewReader("x")); !core.Is(err, core.Invalid) {
		t.Errorf("over a directory: %v", err)
	}
	if _, _, err := c.ReadFile(ctx, "relative", 0, 0); !core.Is(err, core.Invalid) {
		t.Errorf("relative: %v", err)
	}
	// Another root than / confines.
	if _, _, err := c.ReadFile(ctx, "/workspace/outside/passwd", 0, 0); !core.Is(err, core.NotFound) {
		t.Errorf("left the root: %v", err)
	}
	if _, _, err := c.ReadFile(ctx, "/../../../etc/passwd", 0, 0); !core.Is(err, core.NotFound) {
		t.Errorf("left the root: %v", err)
	}
	put(t, c, "/workspace/outside/new", "x")
	if _, err := os.Stat(filepath.Join(root, "etc", "new")); err != nil {
		t.Errorf("the link was not followed below the root: %v", err)
	}
}

type entry struct {
	head tar.Header
	body string
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, e := range entries {
		e.head.Size = int64(len(e.body))
		if e.head.Mode == 0 {
			e.head.Mode = 0o644
		}
		if err := tw.WriteHeader(&e.head); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(tw, e.body)
	}
	_ = tw.Close()
	return buf.Bytes()
}

func file(name, body string) entry { return entry{tar.Header{Name: name, Typeflag: tar.TypeReg}, body} }

func link(name, to string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}, ""}
}

func TestHostileArchives(t *testing.T) {
	cases := map[string][]byte{
		"dots":                  archive(t, file("../evil", "x")),
		"dots inside":           archive(t, file("a/../../evil", "x")),
		"absolute":              archive(t, file("/evil", "x")),
		"through a link out":    archive(t, link("out", ".."), file("out/evil", "x")),
		"through absolute link": archive(t, link("out", "/"), file("out/evil", "x")),
		"hard link out":         archive(t, entry{tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../secret"}, ""}),
		"device":                archive(t, entry{tar.Header{Name: "d", Typeflag: tar.TypeBlock}, ""}),
		"pipe":                  archive(t, entry{tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""}),
		"damaged":               []byte(strings.Repeat("x", 1024)),
		"cut":                   archive(t, file("a", strings.Repeat("x", 5000)))[:1024],
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			c, root := serve(t)
			if err := os.WriteFile(filepath.Join(root, "secret"), []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := c.TarIn(t.Context(), "/workspace/in", bytes.NewReader(raw))
			if !core.Is(err, core.Invalid) {
				t.Errorf("got %v, want invalid", err)
			}
			for _, path := range []string{"evil", "workspace/evil"} {
				if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
					t.Errorf("%s was written", path)
				}
			}
		})
	}
}

func TestTarThereAndBack(t *testing.T) {
	c, root := serve(t)
	ctx := t.Context()
	in := archive(t, entry{tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}, file("d/x.txt", "hello"),
		entry{tar.Header{Name: "d/run", Typeflag: tar.TypeReg, Mode: 0o755}, "#!"}, link("d/l", "x.txt"),
		entry{tar.Header{Name: "d/hard", Typeflag: tar.TypeLink, Linkname: "d/x.txt"}, ""},
		file("node_modules/big", "no"), file(".git/config", "yes"))
	for range 2 { // a second time over the first
		if err := c.TarIn(ctx, "/workspace", bytes.NewReader(in)); err != nil {
			t.Fatal(err)
		}
	}
	// A link in the way is replaced, not followed.
	if err := os.Remove(filepath.Join(root, "workspace/d/x.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "workspace/d/x.txt")); err != nil {
		t.Fatal(err)
	}
	if err := c.TarIn(ctx, "/workspace", bytes.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.TarOut(ctx, guest.TarOptions{Dir: "/workspace", Exclude: []string{"node_modules"}}, &out); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	tr := tar.NewReader(&out)
	for {
		head, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(tr)
		got[head.Name] = string(body) + head.Linkname
	}
	want := map[string]string{"d/": "", "d/x.txt": "hello", "d/run": "#!", "d/l": "x.txt", "d/hard": "hello", ".git/": "", ".git/config": "yes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := c.TarOut(ctx, guest.TarOptions{Dir: "/workspace", Paths: []string{"../etc"}}, io.Discard); !core.Is(err, core.Invalid) {
		t.Errorf("path out: %v", err)
	}
	if err := c.TarOut(ctx, guest.TarOptions{Dir: "/workspace", Paths: []string{"none"}}, io.Discard); !core.Is(err, core.NotFound) {
		t.Errorf("missing path: %v", err)
	}
}

func TestSearch(t *testing.T) {
	c, _ := serve(t)
	put(t, c, "/workspace/.gitignore", "*.log\n/build/\n!keep.log\n")
	put(t, c, "/workspace/a.go", "package a\n\nfunc Needle() {}\n// needle again\n")
	put(t, c, "/workspace/sub/b.go", "x needle\r\nneedle")
	put(t, c, "/workspace/sub/c.py", "needle = 1\n")
	put(t, c, "/workspace/x.log", "needle\n")
	put(t, c, "/workspace/keep.log", "needle\n")
	put(t, c, "/workspace/build/out.go", "needle\n")
	put(t, c, "/workspace/.hidden", "needle\n")
	put(t, c, "/workspace/.git/HEAD", "needle\n")
	put(t, c, "/workspace/image.bin", "\x00needle\n")
	lines := func(res guest.SearchResult) (out []string) {
		for _, m := range res.Matches {
			out = append(out, strings.TrimPrefix(m.Path, "/workspace/")+":"+m.Text)
		}
		return out
	}
	cases := map[string]struct {
		in   guest.SearchRequest
		want []string
	}{
		"plain":       {guest.SearchRequest{Pattern: "needle"}, []string{"a.go:// needle again", "keep.log:needle", "sub/b.go:x needle", "sub/b.go:needle", "sub/c.py:needle = 1"}},
		"ignore case": {guest.SearchRequest{Pattern: "^func needle", IgnoreCase: true}, []string{"a.go:func Needle() {}"}},
		"literal":     {guest.SearchRequest{Pattern: "Needle()", Literal: true}, []string{"a.go:func Needle() {}"}},
		"glob":        {guest.SearchRequest{Pattern: "needle", Globs: []string{"*.py"}}, []string{"sub/c.py:needle = 1"}},
		"not glob":    {guest.SearchRequest{Pattern: "needle", Globs: []string{"!*.go", "!sub/"}}, []string{"keep.log:needle"}},
		"braces":      {guest.SearchRequest{Pattern: "needle =|again", Globs: []string{"**/*.{py,go}"}}, []string{"a.go:// needle again", "sub/c.py:needle = 1"}},
		"files only":  {guest.SearchRequest{Pattern: "needle", FilesOnly: true, Globs: []string{"*.go"}}, []string{"a.go:", "sub/b.go:"}},
		"one file":    {guest.SearchRequest{Pattern: "needle", Dir: "/workspace/x.log"}, []string{"x.log:needle"}},
		"all": {
			guest.SearchRequest{Pattern: "needle", NoIgnore: true, Hidden: true, Globs: []string{"!sub", "!a.go"}},
			[]string{".hidden:needle", "build/out.go:needle", "keep.log:needle", "x.log:needle"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			res, err := c.Search(t.Context(), tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lines(res)); diff != "" {
				t.Error(diff)
			}
		})
	}
	res, err := c.Search(t.Context(), guest.SearchRequest{Pattern: "func", Context: 5})
	if err != nil {
		t.Fatal(err)
	}
	want := []guest.Match{{
		Path: "/workspace/a.go", Line: 3, Column: 1, Text: "func Needle() {}",
		Before: []string{"package a", ""}, After: []string{"// needle again"},
	}}
	if diff := cmp.Diff(want, res.Matches); diff != "" {
		t.Error(diff)
	}
	res, err = c.Search(t.Context(), guest.SearchRequest{Pattern: "needle", Limit: 2})
	if err != nil || len(res.Matches) != 2 || !res.Cut {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := c.Search(t.Context(), guest.SearchRequest{Pattern: "("}); !core.Is(err, core.Invalid) {
		t.Errorf("bad pattern: %v", err)
	}
}

func TestWalk(t *testing.T) {
	c, _ := serve(t)
	for _, p := range []string{"a/one", "a/two", "b/deep/three", ".git/x", "out/o"} {
		put(t, c, "/workspace/"+p, p)
	}
	put(t, c, "/workspace/.gitignore", "out\n")
	res, err := c.Walk(t.Context(), guest.WalkOptions{Dir: "/workspace", SkipGit: true, GitIgnore: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range res.Files {
		got = append(got, strings.TrimPrefix(f.Path, "/workspace/"))
	}
	if want := []string{".gitignore", "a", "a/one", "a/two", "b", "b/deep", "b/deep/three"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	res, err = c.Walk(t.Context(), guest.WalkOptions{Dir: "/workspace", Limit: 3})
	if err != nil || len(res.Files) != 3 || !res.Cut {
		t.Errorf("%+v, %v", res, err)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, file("a/b", "x"), link("l", "a"), file("l/c", "y")))
	f.Add(archive(f, file("../evil", "x")))
	f.Add(archive(f, link("out", "/"), file("out/evil", "x")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_ = unpack(context.Background(), root, bytes.NewReader(raw), nil)
		entries, _ := os.ReadDir(outer)
		if len(entries) != 1 {
			t.Fatalf("the archive left its directory: %v", entries)
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"*.go", "!/build/", "a/**/b", "[!a-z]*", "{a,b}", `\#x`, "[", "[]a]", "{", "**"} {
		f.Add(s, "a/b/c.go")
	}
	f.Fuzz(func(t *testing.T, line, path string) {
		ps := parsePatterns("", strings.NewReader(line))
		ps.match(path, true)
		parseGlobs([]string{line}).keep(path, false)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"argv":["true"]}`))
	f.Add([]byte(`{"argv":["true"]}{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var cmd guest.Command
		if decode(bytes.NewReader(raw), &cmd) == nil {
			_ = checkCommand(cmd)
		}
		var list []guest.Service
		if decode(bytes.NewReader(raw), &list) == nil {
			_, _ = orderServices(list)
		}
		parsePorts(string(raw))
	})
}
