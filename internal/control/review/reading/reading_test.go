package reading

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoles(t *testing.T) {
	for _, tt := range []struct {
		path, proof string
		protected   bool
		want        Role
		decides     bool
	}{
		{"a.go", "code", false, Source, false},
		{"a_test.go", "test", false, Test, false},
		{"testdata/x.json", "testdata", false, Test, false},
		{"conftest.py", "harness", false, Test, true},
		{"Makefile", "script", false, Source, false},
		{"go.mod", "manifest", false, Lock, false},
		{"go.sum", "lock", false, Lock, false},
		{"drydock.yaml", "recipe", false, Rules, true},
		{"docs/AGENTS.md", "doc", false, Rules, true},
		{".github/CODEOWNERS", "doc", false, Rules, true},
		{".gitattributes", "doc", false, Rules, true},
		{".github/workflows/x.yml", "ci", false, CI, true},
		{"vendor/a/b.go", "vendor", false, Vendor, false},
		{"README.md", "doc", false, Docs, false},
		{"api/x.pb.go", "code", false, Generated, false},
		{"a.go", "code", true, Protected, true},
		{"go.sum", "lock", true, Protected, true},
		{"new.thing", "", false, Source, false},
	} {
		role, decides := RoleOf(tt.path, tt.proof, tt.protected)
		if role != tt.want || decides != tt.decides {
			t.Errorf("%s (%s): %s, %v; want %s, %v", tt.path, tt.proof, role, decides, tt.want, tt.decides)
		}
	}
}

func show(files []File, groups []Group) []string {
	var out []string
	for _, g := range groups {
		line := g.Mode + " " + g.Name + ":"
		for _, i := range g.Files {
			line += " " + files[i].Path
		}
		out = append(out, line)
	}
	return out
}

func TestOrder(t *testing.T) {
	files := []File{
		{Path: "README.md", Role: Docs, Lines: 3, Shown: true},
		{Path: "api/v1/deep/a.go", Role: Source, Lines: 5, Shown: true},
		{Path: "api/v1/b.go", Role: Source, Lines: 50, Shown: true},
		{Path: "cart_test.go", Role: Test, Lines: 9, Shown: true},
		{Path: "conftest.py", Role: Test, Decides: true, Lines: 1, Shown: true},
		{Path: "data.bin", Role: Source},
		{Path: "fixtures/big.json", Role: Test, Data: true, Lines: 900, Shown: true},
		{Path: "go.sum", Role: Lock, Lines: 40, Shown: true},
		{Path: "main.go", Role: Source, Lines: 2, Shown: true},
		{Path: "moved.go", Role: Source, Shown: true},
		{Path: "total_test.go", Role: Test, Lines: 2, Alarm: "fewer assertions", Shown: true},
		{Path: "unrun.go", Role: Source, Unrun: 3, Lines: 4, Shown: true},
		{Path: "vendor/x/x.go", Role: Vendor, Lines: 4, Shown: true},
		{Path: "x.pb.go", Role: Generated, Lines: 4, Shown: true},
	}
	head := []string{
		"first What decides the proof: total_test.go conftest.py",
		"first Code that no test runs: unrun.go",
	}
	code := []string{"read api/v1: api/v1/b.go api/v1/deep/a.go", "read Top directory: main.go"}
	cases := []string{"read Tests: cart_test.go fixtures/big.json"}
	tail := []string{
		"skim Dependencies: go.sum", "skim Documentation: README.md", "skim Generated files: x.pb.go", "skim Other people's code: vendor/x/x.go",
		"skim Moved, nothing else: moved.go", "skim Without lines to show: data.bin",
	}
	if diff := cmp.Diff(slices.Concat(head, cases, code, tail), show(files, Order(files, true))); diff != "" {
		t.Errorf("tests first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Concat(head, code, cases, tail), show(files, Order(files, false))); diff != "" {
		t.Errorf("tests last (-want +got):\n%s", diff)
	}
	if got := Order(nil, true); len(got) != 0 {
		t.Errorf("nothing is %v", got)
	}
}

// However many directories there are, every file is in one group, and there
// are not many groups.
func TestManyDirectories(t *testing.T) {
	var files []File
	for i := range 3000 {
		files = append(files, File{Path: fmt.Sprintf("d%d/f.go", i), Role: Source, Lines: i + 1, Shown: true})
	}
	groups := Order(files, false)
	if len(groups) != maxPlaces+1 {
		t.Errorf("%d groups", len(groups))
	}
	seen := map[int]bool{}
	for _, g := range groups {
		for _, i := range g.Files {
			if seen[i] {
				t.Fatalf("file %d twice", i)
			}
			seen[i] = true
		}
	}
	if len(seen) != len(files) {
		t.Errorf("%d of %d files", len(seen), len(files))
	}
}
