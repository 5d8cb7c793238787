package server

import (
	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// ShortBody is what readers of short bodies get.
func ShortBody(e core.Event) api.ReadEvent { return bodies(e, true) }

// Positions reads the form of Last-Event-ID, and Written writes it.
func Positions(s string) (map[core.SessionID]int64, error) { return positions(s, "=") }

func Written(at map[core.SessionID]int64) string { return written(at) }
