package supervisor

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"drydock/internal/core"
)

// account is one user of the sandbox.
type account struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32
	home   string
	shell  string
}

const maxAccountFile = 4 << 20

// account finds "name", "name:group", "uid" or "uid:gid" in the sandbox's own
// files; "" is root. An unknown number is a user without a name.
func (t tree) account(spec string) (account, error) {
	const op = "guest.user"
	if spec == "" {
		spec = "root"
	}
	who, group, hasGroup := strings.Cut(spec, ":")
	acc, ok := t.lookupUser(who)
	if !ok {
		uid, err := strconv.ParseUint(who, 10, 32)
		switch {
		case err == nil:
			acc = account{name: who, uid: uint32(uid), gid: uint32(uid), home: "/"}
		case who == "root":
			acc = account{name: "root", home: "/root", shell: "/bin/sh"}
		default:
			return account{}, core.E(op, core.NotFound, nil, "user %q does not exist in the sandbox", clip(who, 80))
		}
	}
	if hasGroup {
		gid, ok := t.lookupGroup(group)
		if !ok {
			return account{}, core.E(op, core.NotFound, nil, "group %q does not exist in the sandbox", clip(group, 80))
		}
		acc.gid = gid
	}
	acc.groups = t.supplementary(acc)
	return acc, nil
}

// lines calls f with the fields of each line until it returns false.
func (t tree) lines(path string, f func(fields []string) bool) {
	real, err := t.target("guest.user", path)
	if err != nil {
		return
	}
	file, err := os.Open(real)
	if err != nil {
		return
	}
	defer file.Close()
	scanner := bufio.NewScanner(io.LimitReader(file, maxAccountFile))
	for scanner.Scan() {
		if !f(strings.Split(scanner.Text(), ":")) {
			return
		}
	}
}

func (t tree) lookupUser(who string) (account, bool) {
	var found account
	var ok bool
	t.lines("/etc/passwd", func(f []string) bool {
		if len(f) < 7 || f[0] != who && f[2] != who {
			return true
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			return true
		}
		found = account{name: f[0], uid: uint32(uid), gid: uint32(gid), home: f[5], shell: f[6]}
		ok = true
		return f[0] != who // a name beats a number that is written the same
	})
	return found, ok
}

func (t tree) lookupGroup(group string) (uint32, bool) {
	if gid, err := strconv.ParseUint(group, 10, 32); err == nil {
		return uint32(gid), true
	}
	var found uint32
	var ok bool
	t.lines("/etc/group", func(f []string) bool {
		if len(f) >= 3 && f[0] == group {
			if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				found, ok = uint32(gid), true
			}
		}
		return !ok
	})
	return found, ok
}

func (t tree) supplementary(acc account) []uint32 {
	out := []uint32{acc.gid}
	t.lines("/etc/group", func(f []string) bool {
		if len(f) < 4 {
			return true
		}
		for member := range strings.SplitSeq(f[3], ",") {
			if member == acc.name && acc.name != "" {
				if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil && uint32(gid) != acc.gid {
					out = append(out, uint32(gid))
				}
			}
		}
		return len(out) < 64
	})
	return out
}
