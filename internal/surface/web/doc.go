// Package web serves the page: what the build wrote into dist, embedded into
// the program, or a page that says how to make it where nothing was built.
//
// It knows files and routes, no people: the server decides who sees which
// snapshot, and hands it in. Files below assets/ carry a digest in their name
// and never change; everything else is asked for again each time. The page has
// no script or style inside it but the snapshot, which is inert JSON, so its
// policy allows neither; a nonce lets the page's own code add style elements.
//
// A Page never changes after New and is used by many requests at once.
//
//	page, err := web.Embedded()
//	page.Serve(w, r, nil)
package web
