// Package runsc runs sandboxes with gVisor's runsc on this host: one root file
// system per sandbox made by the host's overlayfs, one network namespace given
// by a sandbox.Network, drydock-init as PID 1.
//
// It does not decide what a sandbox may reach, does not keep snapshots, and
// talks to drydock-init only to learn that it answers. Memory images are not
// taken yet (Capabilities.Memory is false); Spec.Image is refused.
//
// What lies on disk, below Options.StateDir:
//
//	sandboxes/ID/sandbox.json   the record: written before anything is made
//	sandboxes/ID/upper, work    what the sandbox writes (overlayfs form)
//	sandboxes/ID/root           mount point of its root
//	sandboxes/ID/bundle         OCI bundle, output of PID 1, log of runsc
//	runsc/                      state of runsc itself, for all sandboxes
//
// and, outside, the control group /drydock-INSTANCE/ID and what the Network
// made. Every step is preceded by the record, so that whatever a killed daemon
// left can be adopted (Recover), found (List) and removed (Destroy). Two
// drivers never share a StateDir or an Instance.
//
// A Driver is used by many goroutines. Mutating calls on one sandbox wait for
// each other; every running sandbox has one watching goroutine, which Close
// ends and waits for.
//
//	d, err := runsc.New(runsc.Deps{Network: jail, Log: log}, runsc.Options{
//		Runsc: "bin/runsc", Init: "bin/drydock-init", StateDir: "/var/lib/drydock/run", Instance: "main"})
//	h, err := d.Create(ctx, sandbox.Spec{ID: core.NewSandboxID(), Layers: layers, Token: token})
//	defer d.Destroy(ctx, h.ID)
package runsc
