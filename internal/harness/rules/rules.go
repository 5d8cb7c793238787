// Package rules finds the instruction files of a repository for an agent: for
// now AGENTS.md at the root.
//
// They are read at the base commit, never from the agent's own branch, so that
// an agent cannot write its own rules. What is too long is cut at the end and
// says so. Nothing is kept; everything may be used by many goroutines.
//
//	list, err := rules.Load(ctx, func(ctx context.Context, path string, max int64) ([]byte, error) {
//		return mirror.Show(ctx, base, path, max)
//	})
package rules

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/harness/agent"
)

// Reader returns at most max bytes of a file at the base commit. A missing
// file is core.NotFound.
type Reader func(ctx context.Context, path string, max int64) ([]byte, error)

// MaxBytes of one file.
const MaxBytes = 32 << 10

// Load reads the rules in force. None is no error.
func Load(ctx context.Context, read Reader) ([]agent.Rule, error) {
	const path = "AGENTS.md"
	data, err := read(ctx, path, MaxBytes+1)
	switch {
	case core.Is(err, core.NotFound):
		return nil, nil
	case err != nil:
		return nil, core.E("rules.load", core.KindOf(err), err, "%s cannot be read at the base commit", path)
	}
	text := string(data)
	if !utf8.ValidString(text) && len(data) <= MaxBytes || strings.ContainsRune(text, 0) {
		return nil, nil // no text, no rules
	}
	if len(text) > MaxBytes {
		text = strings.ToValidUTF8(text[:MaxBytes], "") + fmt.Sprintf("\n[cut after %d bytes]", MaxBytes)
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	return []agent.Rule{{Path: path, Text: text}}, nil
}
