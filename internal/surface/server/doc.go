// Package server is the HTTP interface: JSON described by OpenAPI 3.1, event
// streams, terminals, and the mounts of the built-in forge and of metrics.
//
// It decides nothing. It checks who asks and what form the question has,
// calls one of the interfaces in ports.go, and gives the answer or the error
// its form. Errors are {code, message, hint}; the kind of a core.Error sets
// the status. A fault of the daemon itself is logged under an identifier, and
// only the identifier is told.
//
// Everything but /, /healthz and the OpenAPI document needs a bearer token.
// A missing part in Deps makes its paths answer "unavailable"; the document
// always describes them all.
//
// A Server is used by many goroutines at once. Every handler ends when its
// request or the context given to Serve ends; Serve waits for them.
//
//	s, err := server.New(deps, server.Options{Version: "0.1"})
//	err = s.Serve(ctx, listener)
package server
