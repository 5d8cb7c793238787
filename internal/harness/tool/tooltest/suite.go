package tooltest

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/tool"
)

// TestBox is the contract of tool.Box. dir is an empty directory inside it.
func TestBox(t *testing.T, box tool.Box, dir string) {
	t.Run("processes", func(t *testing.T) { testProcesses(t, box, dir) })
	t.Run("files", func(t *testing.T) { testFiles(t, box, path.Join(dir, "files")) })
	t.Run("search", func(t *testing.T) { testSearch(t, box, path.Join(dir, "search")) })
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func testProcesses(t *testing.T, box tool.Box, dir string) {
	ctx := within(t)
	run := func(c tool.Command) tool.Process {
		t.Helper()
		c.Dir = dir
		p, err := box.Start(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = box.Wait(ctx, p.ID); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := run(tool.Command{Key: "k1", Shell: "echo out; echo err >&2; echo more; exit 3"})
	out, err := box.Output(ctx, p.ID, 0, 1000)
	if err != nil || string(out) != "out\nerr\nmore\n" || p.ExitCode != 3 || p.Running || p.End != 13 {
		t.Errorf("got %q, %v, %+v", out, err, p)
	}
	if out, err := box.Output(ctx, p.ID, 4, 3); err != nil || string(out) != "err" {
		t.Errorf("a range of the output: %q, %v", out, err)
	}
	if again := run(tool.Command{Key: "k1", Shell: "echo something else"}); again.ID != p.ID {
		t.Error("the same key started a second process")
	}
	if other := run(tool.Command{Key: "k2", Shell: "true"}); other.ID == p.ID || other.ExitCode != 0 {
		t.Errorf("another key: %+v", other)
	}
	if p := run(tool.Command{Shell: "sleep 60", Timeout: 100 * time.Millisecond}); !p.TimedOut || p.ExitCode == 0 {
		t.Errorf("timed out: %+v", p)
	}
	long, err := box.Start(ctx, tool.Command{Shell: "sleep 60 & wait", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := box.Process(ctx, long.ID); err != nil || !now.Running {
		t.Errorf("got %+v, %v", now, err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := box.Wait(short, long.ID); err == nil {
		t.Error("waiting ended though the process runs")
	}
	if err := box.Signal(ctx, long.ID, "KILL"); err != nil {
		t.Error(err)
	}
	if ended, err := box.Wait(ctx, long.ID); err != nil || ended.Running || ended.Signal == "" && ended.ExitCode <= 128 {
		t.Errorf("killed: %+v, %v", ended, err)
	}
	if _, err := box.Process(ctx, "no-such"); !core.Is(err, core.NotFound) {
		t.Errorf("an unknown process: %v", err)
	}
}

func testFiles(t *testing.T, box tool.Box, dir string) {
	ctx := within(t)
	file := path.Join(dir, "a/b.sh")
	if _, _, err := box.Read(ctx, file, 10); !core.Is(err, core.NotFound) {
		t.Errorf("a missing file: %v", err)
	}
	for _, content := range []string{"#!/bin/sh\n", "new content"} {
		if err := box.Write(ctx, file, 0, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, info, err := box.Read(ctx, file, 1000)
		if err != nil || string(got) != content || info.Size != int64(len(content)) || !info.Mode.IsRegular() {
			t.Errorf("got %q, %+v, %v", got, info, err)
		}
	}
	if err := box.Write(ctx, file, 0o755, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := box.Write(ctx, file, 0, []byte("longer")); err != nil {
		t.Fatal(err)
	}
	got, info, err := box.Read(ctx, file, 3)
	if err != nil || string(got) != "lon" || info.Size != 6 || info.Mode.Perm() != 0o755 {
		t.Errorf("the beginning of a file, its size and its kept mode: %q, %+v, %v", got, info, err)
	}
	if _, info, err := box.Read(ctx, dir, 10); !core.Is(err, core.Invalid) && (err != nil || !info.Mode.IsDir()) {
		t.Errorf("a directory is told as one, or as invalid: %+v, %v", info, err)
	}
	entries, more, err := box.List(ctx, dir, 2, 100)
	if err != nil || more || len(entries) != 2 || entries[0].Path != path.Join(dir, "a") || entries[0].Mode&fs.ModeDir == 0 || entries[1].Path != file {
		t.Errorf("list: %+v, %v, %v", entries, more, err)
	}
	if entries, more, _ := box.List(ctx, dir, 1, 100); len(entries) != 1 || more {
		t.Errorf("depth 1: %+v", entries)
	}
	if entries, more, _ := box.List(ctx, dir, 2, 1); len(entries) != 1 || !more {
		t.Errorf("limit 1: %+v, %v", entries, more)
	}
	if err := box.Remove(ctx, file); err != nil {
		t.Error(err)
	}
	if _, _, err := box.Read(ctx, file, 10); !core.Is(err, core.NotFound) {
		t.Errorf("a removed file: %v", err)
	}
}

func testSearch(t *testing.T, box tool.Box, dir string) {
	ctx := within(t)
	for name, content := range map[string]string{
		"one.go": "package one\n\nfunc Total() int { return 1 }\n", "two.txt": "the total\nTOTAL\n",
		"bin": "total\x00total\n", "sub/three.go": "// Total of three\n",
	} {
		if err := box.Write(ctx, path.Join(dir, name), 0, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	search := func(q tool.Query) (string, bool) {
		t.Helper()
		q.Path = dir
		if q.Limit == 0 {
			q.Limit = 100
		}
		m, err := box.Search(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, l := range m.Lines {
			out = append(out, strings.TrimPrefix(l.Path, dir+"/")+":"+strings.TrimRight(l.Text, "\n"))
		}
		return strings.Join(out, "|"), m.More
	}
	if got, _ := search(tool.Query{Pattern: `Total\(`}); got != "one.go:func Total() int { return 1 }" {
		t.Errorf("got %s", got)
	}
	if got, _ := search(tool.Query{Pattern: "total", IgnoreCase: true, Glob: "*.go"}); !strings.Contains(got, "one.go:") || !strings.Contains(got, "sub/three.go:") || strings.Contains(got, "two.txt") {
		t.Errorf("got %s", got)
	}
	if got, _ := search(tool.Query{Pattern: "total"}); strings.Contains(got, "bin:") {
		t.Errorf("a binary file was searched: %s", got)
	}
	if got, more := search(tool.Query{Pattern: "(?i)total", Limit: 1}); strings.Count(got, "|") != 0 || !more {
		t.Errorf("limit: %s, %v", got, more)
	}
	if _, err := box.Search(ctx, tool.Query{Path: dir, Pattern: "(", Limit: 1}); !core.Is(err, core.Invalid) {
		t.Errorf("a broken pattern: %v", err)
	}
}
