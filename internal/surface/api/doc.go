// Package api holds the words of the HTTP interface that core does not have:
// request bodies, answers that join several records, and the frames of a
// terminal. Server and client both use it, so the two cannot drift apart.
//
// Records of core (Session, Event, Change, ...) travel as they are. The
// package does no work and imports core only. Its types are plain values; a
// reader ignores fields it does not know, the server refuses them in requests.
//
//	body := api.CreateSession{Environment: "shop", Prompt: "fix the total"}
//	var out api.CreatedSession
package api

// Prefix is where every path of this interface starts.
const Prefix = "/api/v1"

// MaxPrompt bounds the text of one prompt or comment in bytes.
const MaxPrompt = 256 << 10

// MaxBody bounds every request body in bytes.
const MaxBody = 1 << 20
