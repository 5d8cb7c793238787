package capacity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMeminfo(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Amount
		bad        bool
	}{
		{"today's", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    700 kB\n", Amount{1000 << 10, 700 << 10}, false},
		{"without an estimate", "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 20 kB\nCached: 300 kB\n", Amount{1000 << 10, 420 << 10}, false},
		{"more free than there is", "MemTotal: 10 kB\nMemAvailable: 700 kB\n", Amount{10 << 10, 10 << 10}, false},
		{"empty", "", Amount{}, true},
		{"nonsense", "MemTotal: -3 kB\nMemTotal\n:\nMemTotal: 99999999999999999999 kB\n", Amount{}, true},
	} {
		got, err := parseMeminfo([]byte(c.text))
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: %v %v", c.name, got, err)
		}
	}
}

func TestThreadsOfTheKernel(t *testing.T) {
	for _, c := range []struct {
		name, pids, threads, load string
		want                      Amount
	}{
		{"numbers bound them", "32768\n", "191844\n", "0.1 0.2 0.3 4/768 9999\n", Amount{32768, 32000}},
		{"the kernel bounds them", "4194304\n", "191844\n", "0.1 0.2 0.3 1/844 9999\n", Amount{191844, 191000}},
		{"more than allowed", "100\n", "", "0.1 0.2 0.3 1/844 9999\n", Amount{100, 0}},
		{"no load", "100\n", "100\n", "", Amount{}},
		{"nonsense", "100\n", "x", "a b c d/e", Amount{}},
		{"nothing", "", "", "", Amount{}},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"sys/kernel/pid_max": c.pids, "sys/kernel/threads-max": c.threads, "loadavg": c.load} {
			if text == "" {
				continue
			}
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := threads(dir); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func FuzzMeminfo(f *testing.F) {
	f.Add("MemTotal: 1000 kB\nMemAvailable: 700 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseMeminfo([]byte(text))
		if err == nil && (a.Free < 0 || a.Free > a.Total) {
			t.Errorf("%+v", a)
		}
	})
}

func TestControlGroups(t *testing.T) {
	for _, c := range []struct {
		name, self  string
		files       map[string]string
		whole, mine Amount
	}{
		{"no limit anywhere", "0::/\n", nil, Amount{}, Amount{}},
		{
			"a container, version 2", "0::/\n",
			map[string]string{"memory.max": "1000\n", "memory.current": "600\n", "memory.stat": "anon 1\ninactive_file 100\n"},
			Amount{1000, 500},
			Amount{},
		},
		{
			"a unit with a limit, version 2", "0::/system.slice/drydock.service\n",
			map[string]string{
				"system.slice/memory.max": "max\n", "system.slice/drydock.service/memory.max": "800\n", "system.slice/drydock.service/memory.current": "100\n",
			},
			Amount{},
			Amount{800, 700},
		},
		{
			"the tightest on the way, version 1", "4:memory:/a/b\n0::/\n",
			map[string]string{
				"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/a/memory.limit_in_bytes": "500\n", "memory/a/memory.usage_in_bytes": "450\n",
				"memory/a/b/memory.limit_in_bytes": "900\n", "memory/a/b/memory.usage_in_bytes": "300\n", "memory/a/memory.stat": "total_inactive_file 20\n",
			},
			Amount{},
			Amount{500, 70},
		},
		{
			"a container, version 1, which sees a path that is not there", "4:memory:/docker/abc\n",
			map[string]string{"memory/memory.limit_in_bytes": "700\n", "memory/memory.usage_in_bytes": "800\n"},
			Amount{700, 0},
			Amount{},
		},
		{"nonsense", "::::\nx\n", map[string]string{"memory.max": "-1\n"}, Amount{}, Amount{}},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			full := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if whole, mine := groups(dir, []byte(c.self)); whole != c.whole || mine != c.mine {
			t.Errorf("%s: %v %v, want %v %v", c.name, whole, mine, c.whole, c.mine)
		}
	}
}

func TestThisHostIsMeasured(t *testing.T) {
	h, err := HostOf(t.TempDir())()
	if err != nil || h.Memory.Free <= 0 || h.Memory.Free > h.Memory.Total || h.Disk.Free <= 0 || h.Disk.Free > h.Disk.Total || h.Processors < 1 || h.Threads.Free <= 0 {
		t.Errorf("%+v %v", h, err)
	}
	if _, err := HostOf(filepath.Join(t.TempDir(), "missing"))(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a state directory that is not there: %v", err)
	}
}

func TestReservesFitTheHost(t *testing.T) {
	const gib = int64(1) << 30
	for _, c := range []struct{ memory, disk, reserveMemory, reserveDisk int64 }{
		{2 * gib, 3 * gib, gib / 2, 3 * gib / 2}, {8 * gib, 20 * gib, gib, 2 * gib}, {100 * gib, 1000 * gib, 5 * gib, 50 * gib}, {},
	} {
		k := New(Deps{}, Options{})
		k.seen.host = Host{Memory: Amount{Total: c.memory}, Disk: Amount{Total: c.disk}}
		if memory, disk := k.reserves(); memory != c.reserveMemory || disk != c.reserveDisk {
			t.Errorf("%s, %s: reserves %s, %s", Bytes(c.memory), Bytes(c.disk), Bytes(memory), Bytes(disk))
		}
	}
}

func TestBytesForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 256 << 20: "256 MiB", 1<<30 - 1: "1 GiB", 5 << 30: "5 GiB", 1<<63 - 1: "8 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
