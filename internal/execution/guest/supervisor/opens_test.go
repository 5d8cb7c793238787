package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// opensCase is a file that is made, watched, and then treated in some way. The
// scripts run in a directory of their own that holds the file at sub/file.
type opensCase struct {
	name   string
	before string // before the watch
	during string
	after  string // ends what before left running
	opened bool
	doubt  string // in Why; empty: complete
}

var opensCases = []opensCase{
	{name: "not touched", during: "echo x >sub/other; cat sub/other"},
	{name: "only looked at", during: "ls -l sub; stat sub/file; test -r sub/file; find . -name file -size -100; stat -L ."},
	{name: "read", during: "cat sub/file", opened: true},
	{name: "read with descriptors of directories", during: "cd sub && cat ./file", opened: true},
	{name: "read through /proc", during: "cat /proc/self/cwd/sub/file", opened: true},
	{name: "opened and not read", during: ": <sub/file", opened: true},
	{name: "copied", during: "cp sub/file copy", opened: true},
	{name: "executed", before: "chmod +x sub/file", during: "./sub/file", opened: true},
	{name: "executed by a shell", during: "sh sub/file", opened: true},
	{name: "read through a mapping", during: mapFile("sub/file"), opened: true},
	{name: "searched in", during: "grep -r nothing . || true", opened: true},
	{name: "packed", during: "tar cf packed sub", opened: true},
	{name: "through a symbolic link", before: "mkdir far; ln -s ../sub/file far/link", during: "cat far/link", opened: true},
	{name: "through a symbolic link made meanwhile", during: "ln -s sub dir; cat dir/file", opened: true},
	{name: "read by a hard link made meanwhile", during: "ln sub/file hard; cat hard; rm hard", opened: true},
	{name: "hard link made", during: "ln sub/file hard", opened: true},
	{name: "read by an old hard link", before: "ln sub/file hard", during: "cat hard", opened: true, doubt: "2 names"},
	{name: "old hard link", before: "ln sub/file hard", doubt: "2 names"},
	{name: "renamed", during: "mv sub/file sub/new", opened: true},
	{name: "renamed and read", during: "mv sub/file new; cat new", opened: true},
	{name: "renamed and back", during: "mv sub/file new; mv new sub/file", opened: true},
	{name: "directory renamed and read", during: "mv sub new; cat new/file; mv new sub", opened: true},
	{name: "directory renamed and back", during: "mv sub new; ls new; mv new sub"},
	{name: "directory renamed", during: "mv sub new", opened: true},
	{name: "replaced", during: "echo x >new; mv new sub/file", opened: true},
	{name: "replaced and back", during: "cp -p sub/file sub/new; mv sub/new sub/file", opened: true},
	{name: "removed", during: "rm sub/file", opened: true},
	{name: "written", during: "echo x >sub/file", opened: true},
	{name: "appended", during: "echo x >>sub/file", opened: true},
	{name: "rights changed", during: "chmod 600 sub/file", opened: true},
	{name: "touched", during: "touch sub/file", opened: true},
	{name: "read by an older process", before: "mkfifo go; (read x <go; cat sub/file; echo >done) >/dev/null 2>&1 & echo", during: "echo >go; " + untilDone, opened: true},
	{name: "read by an older descriptor", before: "mkfifo go; (read x <go; cat <&3; echo >done) 3<sub/file >/dev/null 2>&1 & echo", during: "echo >go; " + untilDone, opened: true, doubt: "was open"},
	{name: "an older descriptor", before: "mkfifo go; (read x <go) 3<sub/file >/dev/null 2>&1 & echo", after: "echo >go", doubt: "was open"},
	{name: "an older mapping", before: mapFile("sub/file") + " keep >/dev/null 2>&1 & until test -s mapped; do sleep 0.02; done", after: "kill $(cat mapped)", doubt: "was open"},
	{name: "link itself", before: "mv sub/file target; ln -s ../target sub/file", during: "cat target", opened: true, doubt: "symbolic link"},
	{name: "link to nothing", before: "ln -sf nowhere sub/file", doubt: "symbolic link"},
	{name: "link to itself", before: "ln -sf file sub/file", doubt: "symbolic link"},
	{name: "read very often", during: "for i in 1 2 3 4 5 6 7 8 9; do cat sub/file sub/file sub/file; done >/dev/null", opened: true},
}

const untilDone = "until test -e done; do sleep 0.02; done"

// mapFile is a command that reads a file by memory alone; with keep it stays.
func mapFile(path string) string {
	return `python3 -c 'import mmap,os,sys,time
f = os.open("` + path + `", os.O_RDONLY)
m = mmap.mmap(f, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
os.close(f)
print(m[:5])
if len(sys.argv) > 1:
    with open("mapped", "w") as out: out.write(str(os.getpid()))
    time.sleep(600)'`
}

func testOpens(t *testing.T, c *guest.Client) {
	for i, tc := range opensCases {
		t.Run(tc.name, func(t *testing.T) {
			dir := fmt.Sprintf("/workspace/opens-%d", i)
			run := func(script string) {
				t.Helper()
				res := mustRun(t, c, guest.Command{Argv: []string{"sh", "-c", script}, Dir: dir})
				if res.ExitCode != 0 {
					t.Fatalf("%s: %d %s", script, res.ExitCode, res.Stderr)
				}
			}
			write(t, c, dir+"/sub/file", "#!/bin/sh\nexit 0\n")
			write(t, c, dir+"/sub/quiet", "never touched")
			run(tc.before)
			id, err := c.WatchOpens(t.Context(), []string{dir + "/sub/file", dir + "/sub/quiet"})
			if err != nil {
				t.Fatal(err)
			}
			run(tc.during)
			got, err := c.Opened(t.Context(), id)
			run(tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if opened := slices.Contains(got.Opened, dir+"/sub/file"); opened != tc.opened {
				t.Errorf("opened: %v, want %v", got.Opened, tc.opened)
			}
			if got.Complete != (tc.doubt == "") || !strings.Contains(got.Why, tc.doubt) {
				t.Errorf("complete %v because of %q, want %q", got.Complete, got.Why, tc.doubt)
			}
		})
	}
}

func write(t *testing.T, c *guest.Client, path, text string) {
	t.Helper()
	if err := c.WriteFile(t.Context(), path, 0o644, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func TestOpens(t *testing.T) {
	c, _ := serve(t)
	testOpens(t, c)
}

func TestOpensInGvisor(t *testing.T) {
	c := gvisor(t)
	testOpens(t, c)
	t.Run("an older descriptor of another user", func(t *testing.T) {
		write(t, c, "/workspace/held", "x")
		if _, err := c.Start(t.Context(), guest.Command{
			Argv: []string{"sh", "-c", "exec 3</workspace/held; echo >/tmp/holding; exec sleep 600"}, User: "daemon",
		}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is open", func() bool { _, err := c.Stat(t.Context(), "/tmp/holding"); return err == nil })
		id, err := c.WatchOpens(t.Context(), []string{"/workspace/held"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Opened(t.Context(), id); err != nil || got.Complete || !strings.Contains(got.Why, "/workspace/held was open") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("through a mount", func(t *testing.T) {
		write(t, c, "/workspace/m/file", "x")
		id, err := c.WatchOpens(t.Context(), []string{"/workspace/m/file"})
		if err != nil {
			t.Fatal(err)
		}
		res := mustRun(t, c, sh("mkdir n && mount --bind m n && cat n/file && umount n"))
		got, err := c.Opened(t.Context(), id)
		if err != nil || res.ExitCode != 0 || len(got.Opened) != 1 || !got.Complete {
			t.Errorf("%+v, %v; %s", got, err, res.Stderr)
		}
	})
	t.Run("through an overlay", func(t *testing.T) {
		write(t, c, "/workspace/low/file", "x")
		id, err := c.WatchOpens(t.Context(), []string{"/workspace/low/file"})
		if err != nil {
			t.Fatal(err)
		}
		res := mustRun(t, c, sh("mkdir top empty && mount -t overlay -o lowerdir=/workspace/low:/workspace/empty none top && cat top/file && umount top"))
		got, err := c.Opened(t.Context(), id)
		if err != nil || res.ExitCode != 0 || len(got.Opened) != 1 {
			t.Errorf("%+v, %v; %s", got, err, res.Stderr)
		}
	})
	t.Run("files of the image and of memory", func(t *testing.T) {
		mustRun(t, c, sh("echo x >/dev/shmfile; cat /etc/hostname"))
		id, err := c.WatchOpens(t.Context(), []string{"/etc/hostname", "/etc/debian_version", "/usr/bin/true", "/dev/shmfile"})
		if err != nil {
			t.Fatal(err)
		}
		mustRun(t, c, sh("/usr/bin/true; cat /dev/shmfile; ln /etc/hostname /etc/other; cat /etc/other; rm /etc/other"))
		got, err := c.Opened(t.Context(), id)
		slices.Sort(got.Opened)
		if err != nil || !slices.Equal(got.Opened, []string{"/dev/shmfile", "/etc/hostname", "/usr/bin/true"}) || !got.Complete {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("many", func(t *testing.T) {
		mustRun(t, c, sh("mkdir many; cd many; seq 4096 | xargs touch"))
		paths := make([]string, guest.MaxOpens)
		for i := range paths {
			paths[i] = fmt.Sprintf("/workspace/many/%d", i+1)
		}
		began := time.Now()
		id, err := c.WatchOpens(t.Context(), paths)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d files watched in %s", len(paths), time.Since(began))
		mustRun(t, c, sh("find many -type f -not -name 7 | xargs cat; find many -type f -not -name 7 | xargs cat"))
		began = time.Now()
		got, err := c.Opened(t.Context(), id)
		t.Logf("ended in %s", time.Since(began))
		if err != nil || len(got.Opened) != len(paths)-1 || slices.Contains(got.Opened, "/workspace/many/7") || !got.Complete {
			t.Errorf("%d, %v %s, %v", len(got.Opened), got.Complete, got.Why, err)
		}
	})
}

func TestOpensRefused(t *testing.T) {
	c, root := serve(t)
	write(t, c, "/workspace/a", "x")
	if err := unix.Mkfifo(filepath.Join(root, "workspace", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name  string
		paths []string
		kind  core.Kind
	}{
		{"none", nil, core.Invalid},
		{"relative", []string{"/workspace/a", "a"}, core.Invalid},
		{"too many", slices.Repeat([]string{"/workspace/a"}, guest.MaxOpens+1), core.Invalid},
		{"not there", []string{"/workspace/a", "/workspace/b"}, core.NotFound},
		{"a directory", []string{"/workspace"}, core.Invalid},
		{"a pipe", []string{"/workspace/pipe"}, core.Invalid},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			id, err := c.WatchOpens(t.Context(), tc.paths)
			if !core.Is(err, tc.kind) {
				t.Errorf("%q, %v", id, err)
			}
			if tc.kind == core.NotFound && !strings.Contains(err.Error(), "/workspace/b does not exist") {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := c.Opened(t.Context(), "nothing"); !core.Is(err, core.NotFound) {
		t.Errorf("an unknown watch: %v", err)
	}
}

func TestOpensPlaces(t *testing.T) {
	c, _ := serve(t)
	write(t, c, "/workspace/a", "x")
	begin := func() (guest.OpensID, error) {
		return c.WatchOpens(t.Context(), []string{"/workspace/a", "/workspace/../workspace/a"})
	}
	var first guest.OpensID
	for i := range guest.MaxWatches {
		id, err := begin()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = id
		}
	}
	if _, err := begin(); !core.Is(err, core.Exhausted) {
		t.Fatalf("one too many: %v", err)
	}
	mustRun(t, c, sh("cat a"))
	for range 2 {
		got, err := c.Opened(t.Context(), first)
		if err != nil || !slices.Equal(got.Opened, []string{"/workspace/a", "/workspace/../workspace/a"}) || !got.Complete {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, err := begin(); err != nil {
		t.Fatalf("in the place of one that ended: %v", err)
	}
	if _, err := c.Opened(t.Context(), first); !core.Is(err, core.NotFound) {
		t.Errorf("%v", err)
	}
	// The end of the test ends the supervisor, and with it the other watches.
}

func TestOpensDoubts(t *testing.T) {
	record := func(wd int32, mask uint32) []byte {
		b := make([]byte, unix.SizeofInotifyEvent)
		b[0], b[1], b[2], b[3] = byte(wd), byte(wd>>8), byte(wd>>16), byte(wd>>24)
		b[4], b[5] = byte(mask), byte(mask>>8)
		return b
	}
	for name, raw := range map[string][]byte{
		"overflow": record(-1, unix.IN_Q_OVERFLOW),
		"unknown":  record(9, unix.IN_OPEN),
		"unmount":  record(1, unix.IN_UNMOUNT),
		"cut":      record(1, unix.IN_OPEN)[:10],
	} {
		t.Run(name, func(t *testing.T) {
			w := &openWatch{byWD: map[int][]int{1: {0}}, files: []openFile{{given: "/a", opened: true}}}
			w.events(raw)
			if w.finish(); w.result.Complete || w.result.Why == "" {
				t.Errorf("%+v", w.result)
			}
		})
	}
}

func TestOpensLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Supervisor{tree: tree{root: "/"}, reg: newRegistry(), opens: opens{limit: time.Millisecond}}
	ref, err := s.watchOpens(guest.OpensRequest{Paths: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	s.wg.Wait()
	got, err := s.stopOpens(t.Context(), ref)
	if err != nil || got.Complete || !strings.Contains(got.Why, "by itself") {
		t.Errorf("%+v, %v", got, err)
	}
}
