// Package core is Drydock's vocabulary: typed identifiers, states with the
// transitions they allow, the records every group shares, and one error type.
//
// It does nothing: no input or output, no goroutines, no clock of its own. It
// imports the standard library only, so every other package may import it.
//
// Invariants: an identifier carries its prefix for life; a state changes only
// along an edge of its table; an error has exactly one kind.
//
// All values are plain data and may be copied and shared freely; nothing here
// is mutated after init.
//
//	id := core.NewSessionID()                        // "ses_01k..."
//	err := core.E("session.get", core.NotFound, nil, "session %s does not exist", id)
//	core.KindOf(err).HTTPStatus()                     // 404
package core
