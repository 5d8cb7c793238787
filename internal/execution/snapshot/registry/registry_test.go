package registry

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
	"drydock/internal/testkit/docker"
	"drydock/internal/testkit/need"
)

const baseScript = `
	mkdir -p etc usr/bin usr/lib/app/deep/er var/old/sub srv/a srv/b dev
	echo base > etc/conf; echo gone > etc/gone; echo x > usr/bin/tool; chmod 4755 usr/bin/tool
	ln usr/bin/tool usr/bin/tool2; ln -s ../bin/tool usr/lib/link
	echo 1 > usr/lib/app/one; echo 2 > usr/lib/app/deep/two; echo 3 > usr/lib/app/deep/er/three
	echo keep > var/old/keep; echo sub > var/old/sub/file; echo a > srv/a/a; echo b > srv/b/b
	chown 1000:1000 var/old; chmod 700 var/old
	touch -d '2024-01-02 03:04:05.123456789' etc/conf`

const middleScript = `
	rm etc/gone; echo changed > etc/conf
	mv usr/lib/app usr/lib/renamed; echo four > usr/lib/renamed/four; rm usr/lib/renamed/one
	mv usr/lib/renamed/deep usr/lib/renamed/deeper
	rm -r srv/a; mkdir srv/a; echo new > srv/a/new
	mv var/old var/lib; mkdir var/old; echo fresh > var/old/fresh`

const topScript = `
	mv usr/lib/renamed usr/moved; echo five > usr/moved/five; rm usr/moved/deeper/two
	mv usr/moved/deeper srv/elsewhere; mv srv/b srv/c; echo top > srv/c/top
	mkdir deep && mv srv/c deep/c && mv deep very
	rm -r var/old; echo file > var/old
	printf 'a' > hole; truncate -s 3M hole; printf z >> hole
	mkfifo var/fifo
	python3 -c 'import os; os.setxattr("etc/conf", "user.note", b"hel\0lo"); os.setxattr("usr/bin/tool2", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))'
	touch 'srv/nasty
name'; ln etc/conf etc/conf2; touch -d '2023-02-03 04:05:06.000000007' hole`

// chain is a base image with two snapshots on it, of directories that were
// renamed, emptied and replaced.
func (h *host) chain() (base []string, ids []core.SnapshotID) {
	h.t.Helper()
	bottom := shell(h.t, baseScript)
	middle := shell(h.t, middleScript, bottom)
	top := shell(h.t, topScript, middle, bottom)
	first := h.frozen(snapshot.Draft{
		Base: []snapshot.Layer{{Base: "sha256:0", Path: bottom}}, Commit: strings.Repeat("a", 40),
		Image: snapshot.Image{Env: []string{"A=b"}, User: "1000:1000"}, Labels: map[string]string{"recipe": "sha256:1"},
	}, middle)
	second := h.frozen(snapshot.Draft{Parent: first, Commit: strings.Repeat("b", 40), Image: snapshot.Image{Env: []string{"A=b"}, User: "1000:1000"}}, top)
	return []string{bottom}, []core.SnapshotID{first, second}
}

func (h *host) push(id core.SnapshotID, ref string) Pushed {
	h.t.Helper()
	out, err := h.Push(h.t.Context(), PushRequest{
		Snapshot: id, Reference: ref, Origin: &Origin{Name: "shop", Source: "https://git.example.com/shop", DefaultBranch: "main"},
	}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *host) pull(ref string) Pulled {
	h.t.Helper()
	out, err := h.Pull(h.t.Context(), PullRequest{Reference: ref}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// TestThereAndBack pushes to a registry of another make and pulls into another
// state directory: a sandbox sees the very same.
func TestThereAndBack(t *testing.T) {
	addr := docker.Registry(t)
	a, b := newHost(t), newHost(t)
	_, ids := a.chain()
	a.remember(ids[1], map[string]string{"checkpoint.img": "kernel", "pages.img": strings.Repeat("page", 1<<20)})
	ref := addr + "/team/shop:v1"
	pushed := a.push(ids[1], ref)
	if pushed.Layers != 3 || pushed.Memory == "" || pushed.Sent == 0 || pushed.Sent != pushed.Bytes {
		t.Errorf("pushed %+v", pushed)
	}

	pulled := b.pull(ref)
	if diff := cmp.Diff(a.seen(ids[1]), b.seen(pulled.Snapshot.ID)); diff != "" {
		t.Errorf("seen in a sandbox:\n%s", diff)
	}
	m, err := b.snaps.Get(t.Context(), pulled.Snapshot.ID)
	if err != nil {
		t.Fatal(err)
	}
	if m.Commit != strings.Repeat("b", 40) || m.Image.User != "1000:1000" || m.Image.Env[0] != "A=b" || m.Labels[LabelPulled] != pushed.Digest || m.Layers[0].Sum == "" {
		t.Errorf("manifest %+v", m)
	}
	if pulled.Origin == nil || pulled.Origin.Name != "shop" || pulled.Origin.Source != "https://git.example.com/shop" {
		t.Errorf("origin %+v", pulled.Origin)
	}
	mem, release, err := b.snaps.AcquireMemory(t.Context(), pulled.Snapshot.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if raw, _ := os.ReadFile(filepath.Join(mem.Image.Dir, "pages.img")); string(raw) != strings.Repeat("page", 1<<20) {
		t.Errorf("pages: %d bytes", len(raw))
	}
	if raw, _ := os.ReadFile(filepath.Join(mem.Layers[0], "pid")); string(raw) != "4711" || !mem.Live || mem.Services[0] != "db" || mem.Image.Token != "tok" || mem.Image.Fit.CPU[0] != "avx" {
		t.Errorf("memory %+v", mem)
	}
	if err := b.snaps.Verify(t.Context(), m.ID); err != nil {
		t.Error(err)
	}

	// What is there is not sent again, here is not fetched again.
	if again := a.push(ids[1], addr+"/team/shop:v2"); again.Sent != 0 || again.Digest != pushed.Digest {
		t.Errorf("pushed again: %+v", again)
	}
	if again := a.push(ids[1], addr+"/other/shop:v1"); again.Sent > 4<<10 {
		t.Errorf("pushed to another repository: %+v", again)
	}
	if again := b.pull(ref); !again.Present || again.Snapshot.ID != pulled.Snapshot.ID {
		t.Errorf("pulled again: %+v", again)
	}
	// A host that forgot what it packed finds the same digests.
	if err := os.RemoveAll(a.blobs()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(a.blobs(), 0o700); err != nil {
		t.Fatal(err)
	}
	if again := a.push(ids[1], ref); again.Sent != 0 || again.Digest != pushed.Digest {
		t.Errorf("packed again: %+v", again)
	}
	// The first snapshot shares what is below.
	a.push(ids[0], addr+"/team/shop:first")
	if first := b.pull(addr + "/team/shop:first"); first.Fetched == 0 {
		t.Errorf("the first: %+v", first)
	} else if diff := cmp.Diff(a.seen(ids[0]), b.seen(first.Snapshot.ID)); diff != "" {
		t.Errorf("the first:\n%s", diff)
	}
	// From there it goes on.
	back := b.push(pulled.Snapshot.ID, addr+"/team/back:v1")
	if got := newHost(t).pull(back.Reference); got.Snapshot.Memory != true {
		t.Errorf("pulled from where it was pulled to: %+v", got)
	}
}

// TestOthersReadIt asks tools that know nothing of us.
func TestOthersReadIt(t *testing.T) {
	skopeo, umoci := need.Program(t, "skopeo"), need.Program(t, "umoci")
	addr := docker.Registry(t)
	a := newHost(t)
	_, ids := a.chain()
	a.remember(ids[1], map[string]string{"pages.img": "x"})
	ref := addr + "/team/shop:v1"
	a.push(ids[1], ref)

	raw, err := exec.CommandContext(t.Context(), skopeo, "inspect", "--tls-verify=false", "docker://"+ref).Output()
	if err != nil {
		t.Fatalf("skopeo inspect: %v", err)
	}
	var seen struct {
		Os     string
		Env    []string
		Layers []string
		Labels map[string]string
	}
	if err := json.Unmarshal(raw, &seen); err != nil || seen.Os != "linux" || len(seen.Layers) != 3 || seen.Env[0] != "A=b" || seen.Labels["drydock.snapshot"] != string(ids[1]) {
		t.Errorf("skopeo: %s %v", raw, err)
	}

	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), skopeo, "copy", "--src-tls-verify=false", "--dest-compress-format=gzip", "--dest-compress", "docker://"+ref, "oci:"+dir+"/oci:v1").CombinedOutput(); err != nil {
		t.Fatalf("skopeo copy: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), umoci, "unpack", "--keep-dirlinks", "--image", dir+"/oci:v1", dir+"/bundle").CombinedOutput(); err != nil {
		t.Fatalf("umoci: %v\n%s", err, out)
	}
	if diff := cmp.Diff(a.seen(ids[1]), tree(t, dir+"/bundle/rootfs")); diff != "" {
		t.Errorf("unpacked by umoci:\n%s", diff)
	}

	// And it is a base image like any other.
	images, err := image.New(image.Options{Dir: filepath.Join(dir, "images")})
	if err != nil {
		t.Fatal(err)
	}
	img, err := images.Ensure(t.Context(), image.Request{Base: ref})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a.seen(ids[1]), tree(t, mount(t, img.Layers, t.TempDir()))); diff != "" {
		t.Errorf("as a base image:\n%s", diff)
	}
}

// TestPack says what is in a layer, entry by entry.
func TestPack(t *testing.T) {
	need.Root(t)
	bottom := shell(t, baseScript)
	top := shell(t, middleScript+`; echo x > .wh.evil; mkdir .wh.dir; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'`, bottom)
	var first, second bytes.Buffer
	var warned []string
	if err := pack(t.Context(), &first, []string{top, bottom}, func(s string) { warned = append(warned, s) }); err != nil {
		t.Fatal(err)
	}
	if err := pack(t.Context(), &second, []string{top, bottom}, func(string) {}); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("packed twice: %v, the same: %v", err, bytes.Equal(first.Bytes(), second.Bytes()))
	}
	var names []string
	for r := tar.NewReader(&first); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	want := []string{
		"etc/", "etc/conf", "etc/.wh.gone", "srv/", "srv/a/", "srv/a/.wh..wh..opq", "srv/a/new", "usr/", "usr/lib/", "usr/lib/.wh.app",
		"usr/lib/renamed/", "usr/lib/renamed/.wh..wh..opq", "usr/lib/renamed/deeper/", "usr/lib/renamed/deeper/er/", "usr/lib/renamed/deeper/er/three",
		"usr/lib/renamed/deeper/two", "usr/lib/renamed/four",
		"var/", "var/lib/", "var/lib/.wh..wh..opq", "var/lib/keep", "var/lib/sub/", "var/lib/sub/file", "var/old/", "var/old/.wh..wh..opq", "var/old/fresh",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("entries:\n%s", diff)
	}
	if len(warned) != 2 || !strings.Contains(warned[1], ".wh.evil") {
		t.Errorf("warnings: %q", warned)
	}
}
