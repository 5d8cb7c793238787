package snapshot_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
)

func valid() snapshot.Manifest {
	id := core.NewSnapshotID()
	return snapshot.Manifest{
		Format: snapshot.Format, ID: id, Created: time.Now().UTC().Truncate(time.Second),
		Layers: []snapshot.Layer{{Snapshot: id, Bytes: 1, Files: 1}, {Base: "sha256:00", Path: "/base"}},
	}
}

func TestParse(t *testing.T) {
	m := valid()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := snapshot.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(*snapshot.Manifest){
		"other format":     func(m *snapshot.Manifest) { m.Format = 2 },
		"path as ID":       func(m *snapshot.Manifest) { m.ID = "../../etc"; m.Layers[0].Snapshot = m.ID },
		"path as parent":   func(m *snapshot.Manifest) { m.Parent = "../x" },
		"no layers":        func(m *snapshot.Manifest) { m.Layers = nil },
		"not its own":      func(m *snapshot.Manifest) { m.Layers[0].Snapshot = core.NewSnapshotID() },
		"relative base":    func(m *snapshot.Manifest) { m.Layers[1].Path = "base" },
		"climbing base":    func(m *snapshot.Manifest) { m.Layers[1].Path = "/base/../etc" },
		"both kinds":       func(m *snapshot.Manifest) { m.Layers[1].Snapshot = m.ID },
		"negative size":    func(m *snapshot.Manifest) { m.Layers[0].Bytes = -1 },
		"path as snapshot": func(m *snapshot.Manifest) { m.Layers[1] = snapshot.Layer{Snapshot: "snp_../../../../x"} },
	} {
		m := valid()
		change(&m)
		data, _ := json.Marshal(m)
		if _, err := snapshot.Parse(data); !core.Is(err, core.Invalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, bad := range []string{"", "{", "null", `{"format":1,"unknown":1}`, string(data) + "{}"} {
		if _, err := snapshot.Parse([]byte(bad)); !core.Is(err, core.Invalid) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func withMemory() snapshot.Manifest {
	m := valid()
	m.Memory = &snapshot.Memory{
		Fit:   sandbox.Fit{Runtime: "sha256:r", Init: "sha256:i", Shape: "s", Network: "n", CPU: []string{"avx"}},
		Token: "t", Created: m.Created, Bytes: 3, Files: []snapshot.File{{Name: "pages.img", Bytes: 3, Sum: "crc32c:00000000"}},
		Live: &snapshot.Layer{Snapshot: m.ID, Live: true},
	}
	return m
}

func TestParseMemory(t *testing.T) {
	for name, change := range map[string]func(*snapshot.Manifest){
		"no files":            func(m *snapshot.Manifest) { m.Memory.Files = nil },
		"a file that climbs":  func(m *snapshot.Manifest) { m.Memory.Files[0].Name = "../pages.img" },
		"a file named ..":     func(m *snapshot.Manifest) { m.Memory.Files[0].Name = ".." },
		"no bytes":            func(m *snapshot.Manifest) { m.Memory.Files[0].Bytes = -1 },
		"another's live":      func(m *snapshot.Manifest) { m.Memory.Live.Snapshot = core.NewSnapshotID() },
		"live that is not":    func(m *snapshot.Manifest) { m.Memory.Live.Live = false },
		"merged from one":     func(m *snapshot.Manifest) { m.Layers[0].Merged = 1 },
		"merged from none":    func(m *snapshot.Manifest) { m.Layers[0].Merged = -1 },
		"a merged base image": func(m *snapshot.Manifest) { m.Layers[1].Merged = 2 },
		"a merged live": func(m *snapshot.Manifest) {
			m.Layers = append(m.Layers, snapshot.Layer{Snapshot: m.ID, Live: true, Merged: 2})
		},
	} {
		m := withMemory()
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		change(&m)
		data, _ := json.Marshal(m)
		if _, err := snapshot.Parse(data); !core.Is(err, core.Invalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	data, _ := json.Marshal(valid())
	f.Add(data)
	m := withMemory()
	m.Layers[0].Merged = 3
	data, _ = json.Marshal(m)
	f.Add(data)
	f.Add([]byte(`{"format":1,"id":"snp_","layers":[{"path":"/"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := snapshot.Parse(data)
		if err != nil {
			return
		}
		if err := m.Check(); err != nil {
			t.Errorf("a parsed manifest does not pass its own check: %v", err)
		}
		// Whatever it says, no name in it leads out of its directory.
		names := []string{string(m.ID), string(m.Parent)}
		for _, l := range m.Layers {
			names = append(names, string(l.Snapshot))
		}
		if m.Memory != nil {
			for _, file := range m.Memory.Files {
				names = append(names, file.Name)
			}
		}
		for _, name := range names {
			if name != filepath.Base(name) && name != "" || name == ".." {
				t.Errorf("%q leads out of its directory", name)
			}
		}
	})
}
