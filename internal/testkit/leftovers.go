package testkit

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Leftovers lists what the daemon of a state directory left on the host:
// mounts, namespaces, links, cgroups, processes. Its nftables table lives in
// its router's namespace and goes with it.
func Leftovers(state string) []string {
	var out []string
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, state+"/") {
			out = append(out, "mount "+strings.TrimSpace(line))
		}
	}
	out = append(out, processes(state)...)
	instance := instanceOf(state)
	if instance == "" {
		return out
	}
	for _, glob := range []string{
		"/run/drydock/netns/" + instance + ".*",
		"/sys/fs/cgroup/drydock-" + instance, "/sys/fs/cgroup/*/drydock-" + instance,
	} {
		found, _ := filepath.Glob(glob)
		out = append(out, found...)
	}
	links, _ := net.Interfaces()
	for _, l := range links {
		if l.Name == "dd-"+instance {
			out = append(out, "link "+l.Name)
		}
	}
	return out
}

// instanceOf is the name of a daemon's network on the machine.
func instanceOf(state string) string {
	var id struct {
		Instance string `json:"instance"`
	}
	data, err := os.ReadFile(filepath.Join(state, "network", "instance.json"))
	if err != nil || json.Unmarshal(data, &id) != nil {
		return ""
	}
	return id.Instance
}

// processes that name the state directory in their arguments.
func processes(state string) []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range dirs {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(data), state+"/") {
			out = append(out, "process "+filepath.Base(filepath.Dir(file))+" "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return out
}
