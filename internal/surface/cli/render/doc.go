// Package render turns records and events into text that people read: the
// stream of a session, the progress of a build, tables.
//
// Everything it is given may come from an agent, a tool or a repository and
// is hostile: no control character and no escape sequence of theirs reaches
// the writer. It fetches nothing and starts nothing; the caller feeds events
// and, on a terminal, ticks. A renderer belongs to one goroutine.
//
//	r := render.NewSession(render.Options{Out: os.Stdout, Width: 100})
//	for ev, err := range events { r.Event(ev) }
//	r.Close()
package render
