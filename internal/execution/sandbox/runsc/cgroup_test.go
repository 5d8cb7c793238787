package runsc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"drydock/internal/core"
)

// TestBothCgroupVersions reads trees of plain files: a host has only one
// version in use.
func TestBothCgroupVersions(t *testing.T) {
	id := core.NewSandboxID()
	group := "drydock-x/" + string(id)
	for name, c := range map[string]struct {
		v2    bool
		files map[string]string
	}{
		"version 1": {false, map[string]string{
			"memory/" + group + "/memory.usage_in_bytes": "1234\n",
			"memory/" + group + "/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
			"memory/" + group + "/cgroup.procs":          "7\n8\n",
			"pids/" + group + "/pids.current":            "9\n",
			"pids/" + group + "/cgroup.procs":            "8\n",
		}},
		"version 1, old kernel": {false, map[string]string{
			"memory/" + group + "/memory.usage_in_bytes": "1234\n",
			"memory/" + group + "/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\n",
			"memory/" + group + "/memory.failcnt":        "3\n",
			"memory/" + group + "/cgroup.procs":          "7\n8\n",
			"pids/" + group + "/pids.current":            "9\n",
		}},
		"version 2": {true, map[string]string{
			group + "/memory.current": "1234\n",
			group + "/memory.events":  "low 0\nhigh 0\nmax 20\noom 2\noom_kill 1\noom_group_kill 0\n",
			group + "/pids.current":   "9\n",
			group + "/cgroup.procs":   "7\n8\n",
		}},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		g := cgroups{mount: dir, parent: "/drydock-x", v2: c.v2}
		if memory, tasks := g.usage(id); memory != 1234 || tasks != 9 {
			t.Errorf("%s: usage %d bytes, %d tasks", name, memory, tasks)
		}
		if !g.oomKilled(id) {
			t.Errorf("%s: death by memory is not seen", name)
		}
		if g.oomKilled(core.NewSandboxID()) {
			t.Errorf("%s: a group that is not there died by memory", name)
		}
		if pids := g.pids(id); !slices.Equal(pids, []int{7, 8}) {
			t.Errorf("%s: processes %v", name, pids)
		}
		if ids := g.list(); !slices.Contains(ids, id) {
			t.Errorf("%s: groups %v", name, ids)
		}
		if got, want := g.path(id), "/"+group; got != want {
			t.Errorf("%s: path %s, want %s", name, got, want)
		}
	}
}

func TestUnescapeMount(t *testing.T) {
	for in, want := range map[string]string{
		"/plain": "/plain", `/with\040space`: "/with space", `/back\134slash`: `/back\slash`, `/cut\04`: `/cut\04`, `\`: `\`, `/x\999`: `/x\999`,
	} {
		if got := unescapeMount(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
