package guest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"
)

//go:embed *.go
var sources embed.FS

// Mark tells one state of this package from another. The daemon and
// drydock-init both have it compiled in: where theirs differ, one was built
// without the other, and they may not understand each other. Comments and
// tests do not count.
func Mark() string {
	sum := sha256.New()
	names, _ := fs.Glob(sources, "*.go") // sorted
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, _ := sources.ReadFile(name)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				sum.Write([]byte(line + "\n"))
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// MarkFlag makes drydock-init print its mark and end.
const MarkFlag = "--mark"
