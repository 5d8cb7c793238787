// Package gitcmd runs the git program so that neither the repository it works
// on nor the account it runs under decides what is executed.
//
// It knows how to start git and what its failures mean; what git is asked to do
// is the caller's business (package mirror keeps a mirror of a source).
//
// Invariants: the environment is built from nothing plus the variables that
// Options pass through; system and user configuration are not read; hooks,
// fsmonitor, credential helpers, askpass and ssh commands named by a repository
// never run; only the listed transports are spoken (no ext::); fetched objects
// are checked; nothing recurses into submodules; passwords in URLs do not reach
// errors. Standard error is bounded, standard output is bounded in Run.
//
// A Git may be used by many goroutines. Cancelling the context ends the whole
// process group: TERM, then KILL after Options.Grace.
//
//	git, err := gitcmd.New(gitcmd.Options{Environ: os.Environ(), Pass: gitcmd.HostVariables()})
//	out, err := git.Run(ctx, dir, "rev-parse", "--verify", "--end-of-options", "HEAD^{commit}")
package gitcmd
