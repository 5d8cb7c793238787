// Package cli is the command line: one constructor, one options struct and
// one file per command, no state of its own. Every command but serve, doctor,
// demo, config and evidence verify speaks to the daemon through the client,
// like everyone else.
//
// Results go to standard output, errors and progress to standard error. With
// --json a command prints one document, or one object per line where it
// streams; an error is then one object on standard error. The exit code is
// that of the error's kind (core.Kind.ExitCode).
//
//	os.Exit(cli.Main(ctx, os.Args[1:], cli.System()))
package cli
