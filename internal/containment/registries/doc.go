// Package registries reads what the package managers of this host are
// configured to use, so that a sandbox may use the same: the hosts behind the
// word "registries" in an allow-list, and files and variables that bring the
// same settings into the sandbox.
//
// No host name is written down here. A manager that is installed is asked; one
// that is not contributes only what its files say. Managers read: Go, npm, apt,
// pip, uv, cargo, Maven, and the host's certificate bundle.
//
// It does not contact any registry and never fails as a whole: a file that
// cannot be read or understood contributes nothing and is named in Notes.
//
// Invariants: no usable secret comes out. Passwords in addresses, tokens and
// keys are left out, and Dropped names them (never their values). Everything
// read is bounded.
//
// Read may be called by several goroutines; a Settings is plain data.
//
//	s := registries.Read(ctx, registries.Options{Environ: os.Environ()})
//	for _, e := range s.Endpoints { ... }
//	files, env := s.Files(registries.Target{Distribution: "debian", Suite: "bookworm"}), s.Env
package registries
