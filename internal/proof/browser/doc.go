// Package browser pictures web pages in a sandbox and compares pictures.
//
// It starts Chromium inside the sandbox and speaks the DevTools protocol with
// it through a tunnel, so a page is seen as its own services see it. It does
// not decide whether a difference is good; it tells what differs and how much
// of the difference is noise.
//
// The browser is part of what is examined: every message and every picture is
// bounded, and a picture that cannot be decoded within its bounds is refused.
//
// To make two pictures of one page equal, the clock, time zone, language and
// random numbers of the page are fixed, motion is off, fonts and images are
// waited for, and a picture is taken until two in a row are the same. What
// still differs between two pictures of the base is noise and is masked.
//
// Functions may be called from any goroutine; each call has a browser of its
// own.
//
//	shot, err := browser.Picture(ctx, machine, browser.Request{URL: "http://127.0.0.1:3000/", Width: 1280, Height: 800})
//	diff, err := browser.Compare(base.PNG, baseAgain.PNG, branch.PNG)
package browser
