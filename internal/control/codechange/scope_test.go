package codechange

import (
	"strings"
	"testing"

	"drydock/internal/gitcmd/mirror"
)

func TestScopeGate(t *testing.T) {
	gate := Gate{MaxFiles: 3, MaxLines: 100, Protected: []string{".github/workflows/**", "CODEOWNERS", "deploy/*.tf"}}
	key := "AKIA" + strings.Repeat("Q", 16)
	for name, c := range map[string]struct {
		files  []mirror.ChangedFile
		added  []AddedLine
		code   string // "" means nothing found
		refuse bool
		stop   bool
	}{
		"ordinary edit":   {files: []mirror.ChangedFile{{Path: "a.go", Status: mirror.Modified, Added: 5}}},
		"password word":   {added: []AddedLine{{Path: "a.go", Line: 1, Text: `password := readPassword()`}}},
		"lock file":       {files: []mirror.ChangedFile{{Path: "web/package-lock.json", Status: mirror.Modified, Added: 5000}}},
		"access key":      {added: []AddedLine{{Path: "a.go", Line: 7, Text: `key = "` + key + `"`}}, code: "secret", refuse: true},
		"private key":     {added: []AddedLine{{Path: "id", Line: 1, Text: "-----BEGIN OPENSSH PRIVATE" + " KEY-----"}}, code: "secret", refuse: true},
		"workflow":        {files: []mirror.ChangedFile{{Path: ".github/workflows/ci.yml", Status: mirror.Modified}}, code: "protected", stop: true},
		"renamed away":    {files: []mirror.ChangedFile{{Path: "x", OldPath: "docs/CODEOWNERS", Status: mirror.Renamed}}, code: "protected", stop: true},
		"one level glob":  {files: []mirror.ChangedFile{{Path: "deploy/sub/main.tf", Status: mirror.Modified}}},
		"too many lines":  {files: []mirror.ChangedFile{{Path: "a.go", Status: mirror.Modified, Added: 60, Removed: 60}}, code: "too_large", stop: true},
		"build product":   {files: []mirror.ChangedFile{{Path: "web/node_modules/x/index.js", Status: mirror.Added}}, code: "artifact", refuse: true},
		"nested git":      {files: []mirror.ChangedFile{{Path: "vendor/x", Status: mirror.Added, NewMode: "160000"}}, code: "submodule", refuse: true},
		"known submodule": {files: []mirror.ChangedFile{{Path: "vendor/x", Status: mirror.Modified, NewMode: "160000"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := gate.Inspect(c.files, c.added)
			if c.code == "" {
				if len(got) > 0 {
					t.Fatalf("found %v, want nothing", got)
				}
				return
			}
			if len(got) != 1 || got[0].Code != c.code || got[0].Refuse != c.refuse || got[0].Stop != c.stop {
				t.Fatalf("found %+v, want one %s", got, c.code)
			}
		})
	}
}

func TestAddedLinesKnowTheirPlace(t *testing.T) {
	diff := "diff --git a/x.go b/x.go\n--- a/x.go\n+++ b/x.go\n@@ -1,2 +1,3 @@\n one\n+two\n three\n@@ -10 +11,2 @@\n-old\n+new\n+++ plus\n"
	got := addedLines(diff, 100)
	want := []AddedLine{{"x.go", 2, "two"}, {"x.go", 11, "new"}, {"x.go", 12, "++ plus"}}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

func FuzzAddedLines(f *testing.F) {
	f.Add("diff --git a/x b/x\n+++ b/x\n@@ -1 +1 @@\n+y\n")
	f.Fuzz(func(t *testing.T, diff string) {
		if got := addedLines(diff, 50); len(got) > 50 {
			t.Errorf("%d lines, limit 50", len(got))
		}
	})
}
