package snapshot_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
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

func FuzzParse(f *testing.F) {
	data, _ := json.Marshal(valid())
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
	})
}
