// Package supervisor is what drydock-init does as PID 1 of a sandbox: it
// starts, watches and ends processes and services, keeps their output, moves
// files, and answers the protocol of package guest on one TCP port.
//
// It decides nothing: it is told. It does not limit what processes may use
// (the cgroup outside does) and does not filter the network. A process with
// root rights inside can do whatever it likes to it; the token keeps away the
// network and processes without such rights.
//
// Invariants: every request carries the token or gets a bare 401; the exit
// status of a process is collected exactly once, by one reaper; a process does
// not depend on any connection; what is kept of output is bounded, in memory
// and on disk.
//
// A Supervisor serves many connections at once. Serve owns every goroutine it
// starts and waits for them before it returns.
//
//	s, err := supervisor.New(supervisor.Options{Root: "/", Token: token, Listen: ln, Log: log})
//	err = s.Serve(ctx) // until ctx ends; then services and processes are stopped
package supervisor
