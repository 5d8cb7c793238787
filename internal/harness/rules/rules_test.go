package rules_test

import (
	"context"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/harness/rules"
)

func reader(files map[string]string) rules.Reader {
	return func(_ context.Context, path string, max int64) ([]byte, error) {
		s, ok := files[path]
		if !ok {
			return nil, core.E("show", core.NotFound, nil, "%s does not exist", path)
		}
		return []byte(s[:min(len(s), int(max))]), nil
	}
}

func TestLoad(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
		none  bool
	}{
		"present": {files: map[string]string{"AGENTS.md": "Run make test.\n"}, want: "Run make test."},
		"missing": {none: true},
		"blank":   {files: map[string]string{"AGENTS.md": " \n"}, none: true},
		"binary":  {files: map[string]string{"AGENTS.md": "a\x00b"}, none: true},
		"invalid": {files: map[string]string{"AGENTS.md": "a\xff\xfe"}, none: true},
		"long":    {files: map[string]string{"AGENTS.md": strings.Repeat("é", rules.MaxBytes)}, want: "[cut after 32768 bytes]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rules.Load(t.Context(), reader(tt.files))
			if err != nil {
				t.Fatal(err)
			}
			if tt.none {
				if len(got) != 0 {
					t.Fatalf("got %v, want no rule", got)
				}
				return
			}
			if len(got) != 1 || got[0].Path != "AGENTS.md" || !strings.Contains(got[0].Text, tt.want) {
				t.Fatalf("got %+v, want a text with %q", got, tt.want)
			}
			if len(got[0].Text) > rules.MaxBytes+64 {
				t.Fatalf("the text has %d bytes", len(got[0].Text))
			}
		})
	}
}

func TestLoadTellsAnUnreadableFile(t *testing.T) {
	_, err := rules.Load(t.Context(), func(context.Context, string, int64) ([]byte, error) {
		return nil, core.E("show", core.Unavailable, nil, "the mirror is away")
	})
	if !core.Is(err, core.Unavailable) || !strings.Contains(err.Error(), "AGENTS.md") {
		t.Fatalf("got %v", err)
	}
}
