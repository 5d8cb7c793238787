// Package guest is the language spoken with drydock-init, PID 1 of every
// sandbox, and its client.
//
// It does not run anything itself: package supervisor does, inside. It knows
// nothing of sessions or drivers; it needs a way to open a TCP connection and
// the token of one sandbox. docs/formats/guest.md describes the protocol.
//
// Invariants: whatever a sandbox answers is hostile, so every answer is
// bounded and parsed strictly, and an error of the guest can never claim to be
// a decision of the host (Denied, NeedsApproval). A process lives on when a
// connection breaks; only Signal, Stop, its own timeout, or the end of Run's
// context ends it.
//
// A Client may be used by many goroutines at once. Cancelling ctx gives up
// waiting, and for Run also stops the command.
//
//	c := guest.NewTCPClient(handle.Guest, handle.Token)
//	defer c.Close()
//	res, err := c.Run(ctx, guest.Command{Argv: []string{"sh", "-c", "make test"}, Timeout: time.Minute})
package guest
