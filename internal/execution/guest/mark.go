package guest

import (
	"embed"

	"drydock/internal/core"
)

//go:embed *.go
var sources embed.FS

// Mark tells one state of this package from another. The daemon and
// drydock-init both have it compiled in: where theirs differ, one was built
// without the other, and they may not understand each other.
func Mark() string { return core.SourceMark(sources) }

// MarkFlag makes drydock-init print its mark and end.
const MarkFlag = "--mark"
