package guest

import (
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Command says what to run in a sandbox.
type Command struct {
	// Key makes a start idempotent: a second Start with the same key finds the
	// first process instead of starting another, also after a restart of the
	// daemon. Empty means always new.
	Key  string   `json:"key,omitempty"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`  // added to the sandbox's own
	Dir  string   `json:"dir,omitempty"`  // default /workspace where it exists, else /
	User string   `json:"user,omitempty"` // name or uid[:gid]; default root
	PTY  *Size    `json:"pty,omitempty"`
	// Stdin is open when true and fed by Process.Write; otherwise /dev/null.
	Stdin   bool          `json:"stdin,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"` // then TERM, and KILL after Grace, to the group
	Grace   time.Duration `json:"grace_ns,omitempty"`   // default 5 s
	// Merge puts standard error into the output stream, in order.
	Merge bool `json:"merge,omitempty"`
	// Input is written to standard input, which is then closed.
	Input []byte `json:"input,omitempty"`
	// Limit bounds each output that Run returns, in bytes; default 1 MiB, at
	// most 8 MiB. What exceeds it is cut in the middle.
	Limit int `json:"limit,omitempty"`
}

// Size of a terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// ProcessID names a process for the life of the sandbox, not a pid.
type ProcessID string

// Process is what drydock-init knows of one.
type Process struct {
	ID       ProcessID `json:"id"`
	Key      string    `json:"key,omitempty"`
	Argv     []string  `json:"argv"`
	Pid      int       `json:"pid"`
	Running  bool      `json:"running"`
	ExitCode int       `json:"exit_code"` // 128+signal when killed
	Signal   string    `json:"signal,omitempty"`
	TimedOut bool      `json:"timed_out,omitempty"`
	Stdout   Stream    `json:"stdout"`
	Stderr   Stream    `json:"stderr"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
}

// Stream tells what of an output is still there: bytes [First, End) can be
// read; everything before First has been overwritten in the ring.
type Stream struct {
	First int64 `json:"first"`
	End   int64 `json:"end"`
}

// Result is what Run returns: output cut to a limit, head and tail kept.
type Result struct {
	Process   ProcessID
	ExitCode  int
	Signal    string
	TimedOut  bool
	Stdout    []byte
	Stderr    []byte
	Truncated bool // more was written than is in Stdout or Stderr
	Duration  time.Duration
}

// FileInfo describes one file inside.
type FileInfo struct {
	Path    string      `json:"path"`
	Size    int64       `json:"size"`
	Mode    fs.FileMode `json:"mode"`
	ModTime time.Time   `json:"mod_time"`
	Target  string      `json:"target,omitempty"` // of a symbolic link
}

// Service is one entry of the recipe's services.
type Service struct {
	Name    string        `json:"name"`
	Run     string        `json:"run"`             // shell
	Ready   string        `json:"ready,omitempty"` // shell, an http URL, or "tcp:PORT"
	Port    int           `json:"port,omitempty"`
	After   []string      `json:"after,omitempty"`
	Restart string        `json:"restart,omitempty"` // "always" (default), "on-failure", "no"
	User    string        `json:"user,omitempty"`
	Dir     string        `json:"dir,omitempty"`
	Env     []string      `json:"env,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"` // to become ready; default 60 s
}

// ServiceStatus is one service as drydock-init sees it.
type ServiceStatus struct {
	Name     string    `json:"name"`
	State    string    `json:"state"` // waiting, starting, ready, failed, stopped
	Process  ProcessID `json:"process,omitempty"`
	Restarts int       `json:"restarts"`
	Detail   string    `json:"detail,omitempty"` // last readiness error, exit code
	Since    time.Time `json:"since"`
}

// Probed says what was found after a restore.
type Probed struct {
	Listeners int             `json:"listeners"`           // that were there when the image was taken
	Silent    []string        `json:"silent,omitempty"`    // of them, addresses that do not answer any more
	Restarted []string        `json:"restarted,omitempty"` // services that were started again because of it
	Services  []ServiceStatus `json:"services"`
}

// Setup is handed in once after every start or restore, before anything else
// runs: identity, environment, files. Calling it again replaces it.
type Setup struct {
	Hostname string            `json:"hostname"`
	Env      []string          `json:"env"`                // of every later process
	Hosts    map[string]string `json:"hosts,omitempty"`    // extra /etc/hosts lines, name to address
	Resolver string            `json:"resolver,omitempty"` // /etc/resolv.conf
	Clock    time.Time         `json:"clock"`
	Files    []SetupFile       `json:"files,omitempty"` // CA bundle, package manager settings
	// Machine is the new machine-id, 32 hexadecimal digits; with it the seeds of
	// random numbers that lie in files are replaced too. "" leaves both.
	Machine string `json:"machine,omitempty"`
}

// SetupFile is written atomically. With Sum, the SHA-256 of the content in
// hexadecimal, and no Data, a file that holds it already stays, and another is
// named in SetupResult.Missing; the client does so by itself for large ones.
type SetupFile struct {
	Path string      `json:"path"`
	Mode fs.FileMode `json:"mode"`
	Data []byte      `json:"data"`
	Sum  string      `json:"sum,omitempty"`
}

// Etc are the files of /etc that a Setup writes. A driver may lay them before
// anything runs: what is there already costs a quarter of what must be replaced.
func (s Setup) Etc() []SetupFile {
	var out []SetupFile
	if s.Hostname != "" {
		out = append(out, SetupFile{Path: "/etc/hostname", Mode: 0o644, Data: []byte(s.Hostname + "\n")})
	}
	out = append(out, SetupFile{Path: "/etc/hosts", Mode: 0o644, Data: s.hosts()})
	if s.Machine != "" {
		out = append(out, SetupFile{Path: "/etc/machine-id", Mode: 0o444, Data: []byte(s.Machine + "\n")})
	}
	if s.Resolver != "" {
		out = append(out, SetupFile{Path: "/etc/resolv.conf", Mode: 0o644, Data: resolvConf(s.Resolver)})
	}
	return out
}

func (s Setup) hosts() []byte {
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	if s.Hostname != "" {
		fmt.Fprintf(&b, "127.0.1.1\t%s\n", s.Hostname)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		fmt.Fprintf(&b, "%s\t%s\n", s.Hosts[name], name)
	}
	return []byte(b.String())
}

// resolvConf takes an address, or a whole resolv.conf.
func resolvConf(resolver string) []byte {
	if _, err := netip.ParseAddr(resolver); err == nil {
		return []byte("nameserver " + resolver + "\noptions timeout:5 attempts:2\n")
	}
	return []byte(strings.TrimRight(resolver, "\n") + "\n")
}
