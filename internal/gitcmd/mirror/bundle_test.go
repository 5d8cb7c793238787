package mirror

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

func TestBundleThereAndBack(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	a := w.commit(map[string]string{"a": strings.Repeat("text\n", 100)})
	w.sync()
	var full bytes.Buffer
	if err := w.mirror.Bundle(ctx, &full, []string{"refs/heads/work=" + a, "trunk"}, nil); err != nil {
		t.Fatal(err)
	}
	// git itself can read what we write.
	box := t.TempDir()
	w.in(box, "init", "-q", "-b", "x")
	path := filepath.Join(t.TempDir(), "b")
	_ = os.WriteFile(path, full.Bytes(), 0o600)
	w.in(box, "fetch", "-q", path, "+refs/heads/*:refs/remotes/origin/*")
	w.in(box, "checkout", "-q", "-b", "work", "refs/remotes/origin/work")
	b := w.commitIn(box, map[string]string{"a": strings.Repeat("text\n", 100) + "more\n", "b": "b\n"})
	w.in(box, "bundle", "create", "-q", path, "refs/heads/work", "^"+a)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if got := ok[string](t)(w.mirror.FetchBundle(ctx, file, "refs/heads/work", "refs/drydock/ses/work")); got != b {
		t.Errorf("got %s", got)
	}
	if got := ok[string](t)(w.mirror.Resolve(ctx, "refs/drydock/ses/work")); got != b {
		t.Errorf("resolved %s", got)
	}
	// An incremental bundle the other way, with a have the mirror lacks.
	var inc bytes.Buffer
	if err := w.mirror.Bundle(ctx, &inc, []string{"refs/drydock/ses/work"}, []string{a, strings.Repeat("1", 40)}); err != nil {
		t.Fatal(err)
	}
	h := ok[Header](t)(ReadHeader(bufio.NewReader(bytes.NewReader(inc.Bytes()))))
	if diff := cmp.Diff(Header{Prerequisites: []string{a}, Refs: []BundleRef{{b, "refs/drydock/ses/work"}}}, h); diff != "" {
		t.Error(diff)
	}
	// A bundle without anything new still moves the ref.
	var same bytes.Buffer
	if err := w.mirror.Bundle(ctx, &same, []string{"refs/heads/x=" + b}, []string{b}); err != nil {
		t.Fatal(err)
	}
	if got := ok[string](t)(w.mirror.FetchBundle(ctx, &same, "refs/heads/x", "refs/drydock/y")); got != b {
		t.Errorf("got %s", got)
	}
	if left, _ := os.ReadDir(filepath.Join(w.mirror.Dir(), quarantineDir)); len(left) != 0 {
		t.Errorf("quarantine not empty: %v", left)
	}
}

// pack makes a bundle of raw objects in a scratch repository.
func (w *world) bundleOf(build func(dir string) string) []byte {
	w.t.Helper()
	dir := w.t.TempDir()
	w.in(dir, "init", "-q", "--bare")
	tip := build(dir)
	var out bytes.Buffer
	out.WriteString(bundleMagic + tip + " refs/heads/w\n\n")
	err := w.git.Stream(w.t.Context(), gitcmd.Call{Dir: dir, Args: []string{"pack-objects", "--revs", "--stdout", "-q"}, Stdin: strings.NewReader(tip + "\n"), Stdout: &out})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Bytes()
}

func (w *world) object(dir, kind, data string) string {
	w.t.Helper()
	out, err := w.git.Output(w.t.Context(), gitcmd.Call{Dir: dir, Args: []string{"hash-object", "-t", kind, "-w", "--stdin", "--literally"}, Stdin: strings.NewReader(data)})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func raw(t *testing.T, id string) string {
	t.Helper()
	b := make([]byte, 0, 20)
	for i := 0; i < len(id); i += 2 {
		var v byte
		for _, c := range id[i : i+2] {
			v = v<<4 | byte(strings.IndexRune("0123456789abcdef", c))
		}
		b = append(b, v)
	}
	return string(b)
}

func commitText(tree string) string {
	return "tree " + tree + "\nauthor A <a@example.com> 1700000000 +0000\ncommitter A <a@example.com> 1700000000 +0000\n\nm\n"
}

func TestHostileBundles(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxBundle = 1 << 20; o.MaxObject = 1 << 20; o.MaxTotal = 3 << 20 })
	ctx := t.Context()
	w.commit(map[string]string{"a": "a\n"})
	w.sync()
	tree := func(name, mode string) []byte {
		return w.bundleOf(func(dir string) string {
			entry := w.object(dir, "blob", "x\n")
			if mode == "40000" {
				entry = w.object(dir, "tree", "100644 x\x00"+raw(t, entry))
			}
			tree := w.object(dir, "tree", mode+" "+name+"\x00"+raw(t, entry))
			return w.object(dir, "commit", commitText(tree))
		})
	}
	good := tree("fine", "100644")
	if _, err := w.mirror.FetchBundle(ctx, bytes.NewReader(good), "refs/heads/w", "refs/drydock/good"); err != nil {
		t.Fatalf("the honest one: %v", err)
	}
	cases := map[string][]byte{
		"dot git in a tree":    tree(".git", "40000"),
		"dot git, other case":  tree(".GIT", "100644"),
		"dot dot in a tree":    tree("..", "40000"),
		"slash in a name":      tree("a/b", "100644"),
		"gitmodules as a link": tree(".gitmodules", "120000"),
		"cut off":              good[:len(good)-30],
		"no pack":              good[:bytes.Index(good, []byte("\n\n"))+2],
		"damaged":              append(append([]byte{}, good[:len(good)-25]...), bytes.Repeat([]byte{7}, 25)...),
		"version 3":            bytes.Replace(good, []byte("# v2"), []byte("# v3"), 1),
		"tip not in the pack":  bytes.Replace(good, good[len(bundleMagic):len(bundleMagic)+40], []byte(strings.Repeat("d", 40)), 1),
		"unknown prerequisite": append([]byte(bundleMagic+"-"+strings.Repeat("e", 40)+"\n"), good[len(bundleMagic):]...),
		"large object": w.bundleOf(func(dir string) string {
			blob := w.object(dir, "blob", strings.Repeat("0", 2<<20))
			return w.object(dir, "commit", commitText(w.object(dir, "tree", "100644 z\x00"+raw(t, blob))))
		}),
		"large in all": w.bundleOf(func(dir string) string {
			entries := ""
			for _, c := range "abcd" {
				entries += "100644 " + string(c) + "\x00" + raw(t, w.object(dir, "blob", strings.Repeat(string(c), 1<<20)))
			}
			return w.object(dir, "commit", commitText(w.object(dir, "tree", entries)))
		}),
		"endless": append(append([]byte{}, good[:len(good)-20]...), make([]byte, 2<<20)...),
	}
	before := w.in(w.mirror.Dir(), "for-each-ref")
	for name, data := range cases {
		got, err := w.mirror.FetchBundle(ctx, bytes.NewReader(data), "refs/heads/w", "refs/drydock/bad")
		if err == nil {
			t.Errorf("%s: accepted as %s", name, got)
			continue
		}
		if k := core.KindOf(err); k != core.Invalid && k != core.Exhausted && k != core.Conflict {
			t.Errorf("%s: kind %v: %v", name, k, err)
		}
	}
	if _, err := w.mirror.FetchBundle(ctx, bytes.NewReader(good), "refs/heads/other", "refs/drydock/bad"); !core.Is(err, core.NotFound) {
		t.Errorf("ref that is not offered: %v", err)
	}
	for _, to := range []string{"refs/heads/trunk", "refs/drydock/../heads/x", "refs/drydock/", "x"} {
		if _, err := w.mirror.FetchBundle(ctx, bytes.NewReader(good), "refs/heads/w", to); !core.Is(err, core.Invalid) {
			t.Errorf("into %s: %v", to, err)
		}
	}
	if after := w.in(w.mirror.Dir(), "for-each-ref"); after != before {
		t.Errorf("refs changed:\n%s\n%s", before, after)
	}
}

// A bundle whose pack lacks a blob that its commit needs.
func TestBundleWithAHole(t *testing.T) {
	w := newWorld(t, nil)
	w.commit(nil)
	w.sync()
	dir := t.TempDir()
	w.in(dir, "init", "-q", "--bare")
	blob := w.object(dir, "blob", "not sent\n")
	tree := w.object(dir, "tree", "100644 a\x00"+raw(t, blob))
	tip := w.object(dir, "commit", commitText(tree))
	var out bytes.Buffer
	out.WriteString(bundleMagic + tip + " refs/heads/w\n\n")
	err := w.git.Stream(t.Context(), gitcmd.Call{Dir: dir, Args: []string{"pack-objects", "--stdout", "-q"}, Stdin: strings.NewReader(tip + "\n" + tree + "\n"), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if binary.BigEndian.Uint32(out.Bytes()[bytes.Index(out.Bytes(), []byte("PACK"))+8:]) != 2 {
		t.Fatal("the pack should hold two objects")
	}
	if _, err := w.mirror.FetchBundle(t.Context(), &out, "refs/heads/w", "refs/drydock/x"); !core.Is(err, core.Invalid) {
		t.Errorf("accepted: %v", err)
	}
}

func FuzzReadHeader(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add([]byte(bundleMagic + "-" + id + " x\n" + id + " refs/heads/main\n\nPACK"))
	f.Add([]byte(bundleMagic + id + " HEAD\n\n"))
	f.Add([]byte("# v3 git bundle\n@object-format=sha1\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadHeader(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		for _, r := range h.Refs {
			if gitcmd.CheckCommitID(r.Commit) != nil || strings.HasPrefix(r.Name, "-") {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}
