package session_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every promise names tests that exist.
func TestDurabilityPageNamesTests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/durability.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(page, -1)
	for _, name := range names {
		if !strings.Contains(tests.String(), "func "+string(name[1])+"(") {
			t.Errorf("%s does not exist", name[1])
		}
	}
	if len(names) < 30 {
		t.Errorf("only %d tests are named", len(names))
	}
}

// Every kind of event is described.
func TestEventsPageIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/events.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../core/event.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`EventKind = "([a-z.]+)"`).FindAllSubmatch(source, -1)
	for _, kind := range kinds {
		if !strings.Contains(string(page), "`"+string(kind[1])+"`") {
			t.Errorf("event %s is not described", kind[1])
		}
	}
	if len(kinds) < 20 {
		t.Errorf("only %d kinds were found", len(kinds))
	}
}
