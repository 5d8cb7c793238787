package check

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"
)

//go:embed *.go
var sources embed.FS

// Mark tells one state of this package from another. Reports that were read by
// another one are not compared with new ones: their cases may have other names.
func Mark() string {
	sum := sha256.New()
	names, _ := fs.Glob(sources, "*.go") // sorted
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			text, _ := sources.ReadFile(name)
			sum.Write(text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
