package codechange

import (
	"strings"
	"testing"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
)

func TestSubject(t *testing.T) {
	for text, want := range map[string]string{
		"the total is wrong\nmore": "the total is wrong",
		"\n  two   spaces \n":      "two spaces",
		"Review comment by bo on change shop#1, at a.txt:1 of commit abc:\n\nadd a test\nplease": "add a test",
		"Fix these:\n- one\n- two":  "Fix these:",
		"Only this:":                "Only this:",
		"":                          "Change by prompt prm_1",
		strings.Repeat("word ", 30): strings.TrimSpace(strings.Repeat("word ", 13)) + "...",
	} {
		if got := subject(blueprint.Job{Prompt: core.Prompt{ID: "prm_1", Text: text}}); got != want {
			t.Errorf("%q: subject %q, want %q", text, got, want)
		}
	}
}
