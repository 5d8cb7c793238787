// Package client is the Go client of the HTTP interface. The command line and
// the scenarios use nothing else.
//
// Errors come back as *core.Error with the kind, message and hint that the
// server gave; a daemon that cannot be reached is Unavailable. Requests that
// create something carry an identifier of their own, so that a retry is not a
// second one. Event streams reconnect where they broke: no event is missed,
// none comes twice; deltas (sequence number 0) may be lost.
//
// A Client is used by many goroutines at once.
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1:7447", Token: secret})
//	made, err := c.CreateSession(ctx, api.CreateSession{Environment: "shop", Prompt: "fix the total"})
//	for ev, err := range c.SessionEvents(ctx, made.Session.ID, 0) { ... }
package client
