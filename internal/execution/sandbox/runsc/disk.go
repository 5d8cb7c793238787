package runsc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// measureDeleted adds up files that have no name any more but are still open
// in a process.
func measureDeleted(pids []int) int64 {
	var total int64
	seen := map[[2]uint64]bool{}
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(-1)
		f.Close()
		for _, name := range names {
			path := filepath.Join(dir, name)
			target, err := os.Readlink(path)
			if err != nil || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/memfd:") || !strings.HasSuffix(target, " (deleted)") {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 {
				continue
			}
			if key := [2]uint64{st.Dev, st.Ino}; !seen[key] {
				seen[key] = true
				total += st.Blocks * 512
			}
		}
	}
	return total
}
