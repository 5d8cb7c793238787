// Package preview shows people what listens inside a session's sandbox: a
// reverse proxy on a listener of its own, under host names of its own
// (PORT--SESSION.localhost), never under those of the control plane.
//
// What it shows is hostile: a repository's own pages and scripts, run in the
// browser of somebody who may do things with Drydock. It must not reach the
// control plane, another session or the sign-in of the person who looks.
//
// A person gets in with a one-use ticket that the control plane hands out. It
// leaves a cookie on the host of each port; the cookie stands for a grant of
// one person, one session and a few ports. Every request asks again whether
// the person and the session are still what they were, and what runs on is cut
// when they are not. Grants live in memory: a restart of the daemon ends them.
//
// It does not know sandboxes, tokens or sessions; see People and Boxes. No
// address of an app is logged or stored.
//
// All methods of a Service may be called at once.
//
//	s, err := preview.New(preview.Deps{People: p, Boxes: b}, preview.Options{Mode: preview.ModeHosts})
//	go s.Serve(ctx, listener)
//	got, err := s.Open(ctx, credential, session, api.OpenPreview{Port: 3000})
package preview
