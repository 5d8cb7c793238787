package server

import (
	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// ShortBody is what readers of short bodies get.
func ShortBody(e core.Event) api.ReadEvent { return bodies(e, true) }
