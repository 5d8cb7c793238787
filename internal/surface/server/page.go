package server

import "net/http"

// snapshot is what the page starts with, or nil.
func (s *Server) snapshot(*http.Request) []byte { return nil }
