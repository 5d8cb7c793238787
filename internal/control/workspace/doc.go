// Package workspace gives a session its sandbox: it finds the living one or
// makes one from the newest snapshot, catches up with the recorded commit,
// brings the working tree into the mirror, and puts everything away as a
// session snapshot. It also opens the clean rooms of the proof.
//
// It knows nothing of prompts, blueprints' order or verdicts. Whatever happens
// to a sandbox (killed, out of memory, host restarted), its files are kept: a
// dead sandbox is frozen as it was and work goes on from there.
//
// A Manager may be used by many goroutines; one run uses one session's
// Workspace at a time, while people may look into it.
package workspace
