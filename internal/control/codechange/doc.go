// Package codechange holds the steps of the default blueprint, code-change:
// prepare, context, agent work with its briefs, autofix, targeted checks, the
// scope gate, commit, proof, delivery, hand-over.
//
// Each step is small, idempotent and resumable: it may be called again with
// the same attempt after a kill, and finds what it had done. Steps decide
// nothing about order, caps or retries (package blueprint does), run nothing
// in a sandbox themselves (package workspace does), and believe nothing that a
// sandbox says about proof (package exam judges in clean rooms).
//
// Steps hold no state of their own; any number of runs use them at once.
package codechange
