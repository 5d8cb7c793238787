package runsc

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// mostEntries is how many names gVisor may remember of all mounts of a
	// sandbox. Its own choice is 1000 for each: `git status` of 3000 files asks the
	// host for all of them again, every time, and takes twice as long.
	mostEntries  = 16384
	leastEntries = 1000
	// perEntry is how many descriptors are set aside for each: it holds one or
	// two itself, and programs inside need some.
	perEntry    = 4
	descriptors = 1 << 20
)

// openFiles raises the limit that sandboxes inherit, once, and says what it is.
// As root that works up to what the kernel allows at all.
var openFiles = sync.OnceValue(func() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	want := uint64(max(readInt("/proc/sys/fs/nr_open"), 0))
	if want = min(want, descriptors); limit.Cur < want {
		raised := unix.Rlimit{Cur: want, Max: max(want, limit.Max)}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			return want
		}
		if raised = (unix.Rlimit{Cur: limit.Max, Max: limit.Max}); unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			return limit.Max
		}
	}
	return limit.Cur
})

// fixedFlags of runsc must be the same at a restore.
var fixedFlags = []string{
	"--network=" + networkMode,
	"--overlay2=none",                  // every write is on the host at once
	"--file-access=exclusive",          // nobody else writes there
	"--file-access-mounts=exclusive",   // nor in /tmp
	"--allow-live-tcp-migration=false", // clones must not share connections
	"--allow-suid",                     // sudo works; it is gVisor's root, not the host's
	"--host-settings=ignore",
}

// StartFlags are those that sandboxes are started and restored with.
func StartFlags() []string {
	flags := slices.Clone(fixedFlags)
	if n := min(openFiles()/perEntry, mostEntries); n > leastEntries {
		flags = append(flags, fmt.Sprintf("--dcache=%d", n))
	}
	return flags
}
