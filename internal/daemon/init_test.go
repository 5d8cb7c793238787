package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

func TestInitOfAnotherBuild(t *testing.T) {
	if err := CheckInit(t.Context(), need.Bin(t, "drydock-init")); err != nil {
		t.Errorf("the one of this build: %v", err)
	}
	dir := t.TempDir()
	for name, c := range map[string]struct {
		script string
		kind   core.Kind
	}{
		"another mark":        {"#!/bin/sh\necho 0123456789abcdef\n", core.Conflict},
		"too old for the ask": {"#!/bin/sh\necho drydock-init: DRYDOCK_TOKEN is not set >&2\nexit 1\n", core.Conflict},
		"not a program":       {"text\n", core.Unavailable},
		"killed on the way":   {"#!/bin/sh\nkill -9 $$\n", core.Unavailable},
		"missing":             {"", core.NotFound},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if c.script != "" {
			if err := os.WriteFile(path, []byte(c.script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := CheckInit(t.Context(), path)
		if !core.Is(err, c.kind) || !strings.Contains(err.Error(), path) || c.kind != core.Unavailable && !strings.Contains(core.HintOf(err), "make build") {
			t.Errorf("%s: %v, hint %q", name, err, core.HintOf(err))
		}
		if self, _ := os.Executable(); c.kind == core.Conflict && !strings.Contains(err.Error(), self) {
			t.Errorf("%s: %v does not name %s", name, err, self)
		}
	}
}
