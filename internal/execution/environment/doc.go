// Package environment turns repositories into machines: the Launcher starts a
// sandbox from a snapshot and hands out a Machine to work with; the Builder
// executes an environment's recipe and ends in a snapshot; the Refresher asks it
// for builds at the interval of each recipe and when a base branch has moved.
//
// It does not know sessions, models or checks; it does not decide what a
// sandbox may reach, only passes a policy on; and it is told of images, of the
// network and of the package managers' settings by interfaces.
//
// Invariants: a row for a sandbox exists before the sandbox does, and for a
// snapshot before its files do; a build that fails leaves the environment's
// last good snapshot in use; how an environment stands is worked out in one place;
// times of builds to come are in the database; one environment has one running build at most;
// platform commands in a sandbox run no hooks, and what they print is not
// trusted.
//
// All types may be used by many goroutines, except that the methods of one
// Machine that change its workspace are called one at a time.
//
//	m, err := launcher.Launch(ctx, environment.LaunchRequest{Snapshot: env.Snapshot, Purpose: "session",
//		Owner: string(session), Policy: &rec.Network, Recipe: &rec, StartServices: true})
//	defer m.Close(ctx)
//	err = m.CheckoutBundle(ctx, bundle, commit, branch)
//	res, err := m.Guest().Run(ctx, guest.Command{Argv: []string{"make", "test"}})
package environment
