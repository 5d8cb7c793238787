package image

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

func limits() Limits {
	l := Limits{LayerBytes: 1 << 20, Entries: 1000, Ratio: 500}
	l.fill()
	return l
}

// try unpacks entries below a directory that has an innocent neighbour.
func try(t testing.TB, raw []byte) (string, string, error) {
	t.Helper()
	outer := t.TempDir()
	dir, neighbour := filepath.Join(outer, "layer"), filepath.Join(outer, "neighbour")
	for _, d := range []string{dir, neighbour} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(neighbour, "file"), []byte("innocent"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := unpack(t.Context(), bytes.NewReader(raw), dir, nil, limits())
	return dir, outer, err
}

func untouched(t testing.TB, outer string) {
	t.Helper()
	entries, err := os.ReadDir(outer)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the layer: %v %v", entries, err)
	}
	inner, _ := os.ReadDir(filepath.Join(outer, "neighbour"))
	raw, _ := os.ReadFile(filepath.Join(outer, "neighbour", "file"))
	info, err := os.Stat(filepath.Join(outer, "neighbour", "file"))
	if len(inner) != 1 || string(raw) != "innocent" || err != nil || info.Mode() != 0o600 {
		t.Errorf("the neighbour was touched: %v %q", inner, raw)
	}
	for _, path := range []string{"/etc/drydock-evil", "/drydock-evil", "/tmp/drydock-evil"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was written", path)
			_ = os.Remove(path)
		}
	}
}

func TestHostileLayersStayInside(t *testing.T) {
	need.Root(t)
	cases := map[string]struct {
		entries []entry
		refused bool
	}{
		"dot dot":                      {[]entry{file("../neighbour/file", "evil")}, true},
		"dot dot inside":               {[]entry{file("a/../../neighbour/file", "evil")}, true},
		"absolute":                     {[]entry{file("/etc/drydock-evil", "evil")}, false}, // becomes etc/... of the layer
		"through an absolute link":     {[]entry{link("x", "/tmp"), file("x/drydock-evil", "evil")}, false},
		"through a relative link":      {[]entry{link("x", "../neighbour"), file("x/file", "evil")}, false},
		"through two links":            {[]entry{link("y", ".."), link("x", "y/neighbour"), file("x/file", "evil")}, false},
		"link in a loop":               {[]entry{link("x", "y"), link("y", "x"), file("x/file", "evil")}, true},
		"over a link":                  {[]entry{link("x", "../neighbour/file"), file("x", "evil")}, false},
		"directory over a link":        {[]entry{link("x", "../neighbour"), {name: "x", kind: tar.TypeDir, mode: 0o777}, file("x/file", "evil")}, false},
		"hard link out":                {[]entry{hard("x", "../neighbour/file"), file("x", "evil")}, true},
		"hard link through a link":     {[]entry{link("d", "../neighbour"), hard("x", "d/file"), file("x", "evil")}, false},
		"hard link to a link":          {[]entry{link("d", "../neighbour/file"), hard("x", "d"), file("x", "evil")}, false},
		"hard link to absolute":        {[]entry{hard("x", "/etc/passwd"), file("x", "evil")}, false},
		"hard link to a directory":     {[]entry{dir("d"), hard("x", "d")}, true},
		"device":                       {[]entry{{name: "sda", kind: tar.TypeBlock}}, true},
		"whiteout as a device":         {[]entry{{name: "etc", kind: tar.TypeChar}}, true},
		"device in dev through a link": {[]entry{link("dev", "etc"), {name: "dev/sda", kind: tar.TypeBlock}}, true},
		"below a file":                 {[]entry{file("a", "x"), file("a/b", "x")}, true},
		"whiteout of dot dot":          {[]entry{file("a/.wh...", "")}, true},
		"whiteout of dot":              {[]entry{file("a/.wh..", "")}, true},
		"whiteout of nothing":          {[]entry{file("a/.wh.", "")}, true},
		"opaque root":                  {[]entry{file(".wh..wh..opq", "")}, true},
		"whiteout through a link":      {[]entry{link("x", "../neighbour"), file("x/.wh.file", "")}, false},
		"root entry":                   {[]entry{{name: "./", kind: tar.TypeDir, mode: 0o777}, {name: "/", kind: tar.TypeSymlink, link: "/etc"}}, false},
		"empty link":                   {[]entry{{name: "x", kind: tar.TypeSymlink, link: " "}}, false},
		"deep":                         {[]entry{file(strings.Repeat("a/", 500)+"b", "x")}, true},
		"long part":                    {[]entry{file(strings.Repeat("a", 300), "x")}, true},
		"too large":                    {[]entry{file("a", strings.Repeat("x", 2<<20))}, true},
		"unknown type":                 {[]entry{{name: "a", kind: 'Z'}}, true},
	}
	for name, c := range cases {
		_, outer, err := try(t, archive(t, c.entries...))
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !core.Is(err, core.Invalid) && !core.Is(err, core.Exhausted) {
			t.Errorf("%s: kind %v: %v", name, core.KindOf(err), err)
		}
		untouched(t, outer)
	}
}

func TestOrderWithinALayer(t *testing.T) {
	need.Root(t)
	d, _, err := try(t, archive(t,
		file("a", "1"), file("a", "2"), // the later wins
		file("b/.wh.x", ""), dir("b/x"), // removed below and made anew
		dir("c/x"), file("c/.wh.x", ""),
		file("d/.wh.x", ""), file("d/x", "new"),
		file("e/.wh.x", ""), file("e/x/y", "new"),
		file("f/g", "x"), file("f", "file over a directory"),
		file(".wh..wh.plnk", ""),
	))
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(filepath.Join(d, "a")); string(raw) != "2" {
		t.Errorf("a: %q", raw)
	}
	for _, p := range []string{"b/x", "c/x", "e/x"} {
		if !isOpaque(filepath.Join(d, p)) {
			t.Errorf("%s is not opaque", p)
		}
	}
	if raw, _ := os.ReadFile(filepath.Join(d, "d/x")); string(raw) != "new" {
		t.Errorf("d/x: %q", raw)
	}
	if raw, _ := os.ReadFile(filepath.Join(d, "f")); string(raw) != "file over a directory" {
		t.Errorf("f: %q", raw)
	}
}

func TestSparse(t *testing.T) {
	need.Root(t)
	data := strings.Repeat("\x00", 600<<10) + "end" + strings.Repeat("\x00", 200<<10)
	d, _, err := try(t, archive(t, file("s", data)))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(filepath.Join(d, "s"))
	st := stat(t, filepath.Join(d, "s"))
	if string(raw) != data || st.Blocks*512 > 200<<10 {
		t.Errorf("%d bytes, %d on disk", len(raw), st.Blocks*512)
	}
}

func TestLimits(t *testing.T) {
	need.Root(t)
	var many []entry
	for i := range 1001 {
		many = append(many, entry{name: "d" + strings.Repeat("x", i%7) + string(rune('a'+i%26)), data: ""})
	}
	if _, _, err := try(t, archive(t, many...)); !core.Is(err, core.Exhausted) {
		t.Errorf("entries: %v", err)
	}
	// A bomb: much out of little.
	srv := newServer(t, "")
	bomb := gz(t, file("zero", strings.Repeat("\x00", 100<<20)))
	s := newStore(t, nil)
	if _, err := s.Ensure(t.Context(), Request{Base: srv.push(t, "bomb:v1", imageOf(t, bomb))}); !core.Is(err, core.Exhausted) {
		t.Errorf("bomb: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "layers")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func FuzzUnpack(f *testing.F) {
	if os.Geteuid() != 0 {
		f.Skip("skipped: needs root")
	}
	f.Add(archive(f, dir("a"), file("a/b", "x"), link("l", "../a"), file("l/c", "y"), hard("h", "a/b"), file("a/.wh.z", ""), file("a/.wh..wh..opq", "")))
	f.Add(archive(f, link("x", "/"), file("x/tmp/drydock-evil", "e")))
	f.Add(archive(f, file("../x", "e")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, outer, err := try(t, raw)
		if err != nil && !core.Is(err, core.Invalid) && !core.Is(err, core.Exhausted) && !core.Is(err, core.Internal) {
			t.Errorf("kind: %v", err)
		}
		untouched(t, outer)
	})
}

func FuzzLogin(f *testing.F) {
	f.Add([]byte(`{"auths": {"r.example.com": {"auth": "YTpi"}}}`), "r.example.com")
	f.Fuzz(func(_ *testing.T, raw []byte, host string) {
		_, _, _ = loginFor(raw, host)
		_ = parseOS(string(raw))
		_ = parseTargets(raw)
		_, _ = splitLayout(host)
	})
}
