// Package snapshot says what a snapshot is: the manifest of an immutable point
// in time, made of layers of files and, later, a memory image. Package overlay
// below it keeps snapshots on this host.
//
// It reads and checks manifests and does nothing else. All values are plain
// data. docs/formats/snapshot.md describes the format.
//
//	m, err := snapshot.Parse(data)
//	for _, l := range m.Layers { ... } // topmost first
package snapshot

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
)

// Format is the version of the manifest that is written.
const Format = 1

const (
	maxManifest = 1 << 20
	// MaxLayers is what overlayfs takes, less the upper one.
	MaxLayers = 499
	// maxMerged bounds how often a chain can have been made shorter.
	maxMerged = 1 << 20
	// MaxLabels bounds a manifest's labels.
	MaxLabels = 64
)

// Manifest lies beside the files of a snapshot.
type Manifest struct {
	Format      int                `json:"format"`
	ID          core.SnapshotID    `json:"id"`
	Parent      core.SnapshotID    `json:"parent,omitempty"`
	Environment core.EnvironmentID `json:"environment,omitempty"`
	Session     core.SessionID     `json:"session,omitempty"`
	Build       core.BuildID       `json:"build,omitempty"`
	Commit      string             `json:"commit,omitempty"`
	Created     time.Time          `json:"created"`
	Layers      []Layer            `json:"layers"` // topmost first; the first one is the snapshot's own
	Memory      *Memory            `json:"memory,omitempty"`
	Runtime     Runtime            `json:"runtime"`
	Image       Image              `json:"image"`
	Labels      map[string]string  `json:"labels,omitempty"` // of whoever made it, for finding it again
}

// Layer is one read-only directory: of a snapshot, or of a base image.
type Layer struct {
	Snapshot core.SnapshotID `json:"snapshot,omitempty"`
	Live     bool            `json:"live,omitempty"` // the one that goes with its memory image
	// Merged is how many layers, the snapshot's own and those that were below it,
	// one directory holds since they were merged. 0: its own alone.
	Merged int    `json:"merged,omitempty"`
	Base   string `json:"base,omitempty"` // digest of a base image
	Path   string `json:"path,omitempty"` // of the base image on this host
	Bytes  int64  `json:"bytes"`
	Files  int    `json:"files"`
	// Sum is of names, kinds, owners, sizes and times of everything in it; ""
	// in manifests of old, and for base images.
	Sum string `json:"sum,omitempty"`
}

// Runtime is what a memory image depends on, and what made the files.
type Runtime struct {
	Driver string `json:"driver,omitempty"`
	Digest string `json:"digest,omitempty"` // of the runtime's program
	Init   string `json:"init,omitempty"`   // version of drydock-init
}

// Image is what the base image says of every process.
type Image struct {
	Env  []string `json:"env,omitempty"`
	User string   `json:"user,omitempty"`
}

// Memory describes a memory image: processes that go on when it is restored.
// It is a cache: without it the services are started from the files.
type Memory struct {
	sandbox.Fit

	Token    string    `json:"token"`              // of drydock-init in it; worth nothing once it is restored
	Services []string  `json:"services,omitempty"` // that were ready
	Created  time.Time `json:"created"`
	Bytes    int64     `json:"bytes"` // of Files
	Files    []File    `json:"files"`

	// Live are the files that the image goes with: written by the running
	// services, above the snapshot's layers. Nil where the topmost layer was
	// frozen with the memory.
	Live *Layer `json:"live,omitempty"`
}

// File is one file of a memory image.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sum"` // "crc32c:" and eight hexadecimal digits
}

// Draft is what is known of a snapshot before its files are frozen.
type Draft struct {
	ID          core.SnapshotID // "" takes a new one; the same one again finishes what was begun
	Parent      core.SnapshotID // its layers lie below, ...
	Base        []Layer         // ... or, without a parent, these
	Environment core.EnvironmentID
	Session     core.SessionID
	Build       core.BuildID
	Commit      string
	Runtime     Runtime
	Image       Image
	Labels      map[string]string
	// Live says that the sandbox was restored from Parent's memory image: the
	// files that go with it lie in between.
	Live bool
}

// Use says that something needs a snapshot or, for what runs, its layers.
type Use struct {
	By       string // "session ses_...", for people
	Snapshot core.SnapshotID
	Layers   []string // paths
	Memory   bool     // its memory image too
	// Spare: kept only so that one may go back to it. A person may remove it,
	// and it goes when the disk is short.
	Spare bool
	Last  time.Time // when it was last of use; zero: now
}

// Parse reads a manifest strictly.
func Parse(data []byte) (Manifest, error) {
	const op = "snapshot.parse"
	var m Manifest
	if len(data) > maxManifest {
		return m, core.E(op, core.Invalid, nil, "a manifest of %d bytes is too large", len(data))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, core.E(op, core.Invalid, err, "manifest of a snapshot")
	}
	if _, err := dec.Token(); err != io.EOF {
		return m, core.E(op, core.Invalid, nil, "something follows the manifest of snapshot %s", m.ID)
	}
	return m, m.Check()
}

// Check says what is wrong with a manifest.
func (m Manifest) Check() error {
	const op = "snapshot.check"
	if m.Format != Format {
		return core.E(op, core.Invalid, nil, "manifest has format %d, this build reads %d", m.Format, Format)
	}
	if _, err := core.ParseID[core.SnapshotID]("snp_", string(m.ID)); err != nil {
		return core.E(op, core.Invalid, err, "")
	}
	if m.Parent != "" {
		if _, err := core.ParseID[core.SnapshotID]("snp_", string(m.Parent)); err != nil {
			return core.E(op, core.Invalid, err, "parent of snapshot %s", m.ID)
		}
	}
	if len(m.Layers) == 0 || len(m.Layers) > MaxLayers {
		return core.E(op, core.Invalid, nil, "snapshot %s has %d layers, not 1 to %d", m.ID, len(m.Layers), MaxLayers)
	}
	if len(m.Labels) > MaxLabels {
		return core.E(op, core.Invalid, nil, "snapshot %s has %d labels, more than %d", m.ID, len(m.Labels), MaxLabels)
	}
	if m.Layers[0].Snapshot != m.ID || m.Layers[0].Live {
		return core.E(op, core.Invalid, nil, "the topmost layer of snapshot %s is not its own", m.ID)
	}
	for i, l := range m.Layers {
		if err := l.check(); err != nil {
			return core.E(op, core.Invalid, err, "layer %d of snapshot %s", i, m.ID)
		}
	}
	if m.Memory != nil {
		if err := m.Memory.check(m.ID); err != nil {
			return core.E(op, core.Invalid, err, "memory image of snapshot %s", m.ID)
		}
	}
	return nil
}

// maxFiles of a memory image.
const maxFiles = 16

func (m *Memory) check(id core.SnapshotID) error {
	const op = "snapshot.check"
	if len(m.Files) == 0 || len(m.Files) > maxFiles {
		return core.E(op, core.Invalid, nil, "it has %d files, not 1 to %d", len(m.Files), maxFiles)
	}
	for _, f := range m.Files {
		if f.Bytes < 0 || f.Name == "" || f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." || len(f.Name) > 100 {
			return core.E(op, core.Invalid, nil, "%.100q with %d bytes is no file of it", f.Name, f.Bytes)
		}
	}
	if m.Live != nil && (m.Live.Snapshot != id || !m.Live.Live) {
		return core.E(op, core.Invalid, nil, "the files that go with it are not its own")
	}
	return nil
}

func (l Layer) check() error {
	const op = "snapshot.check"
	if l.Bytes < 0 || l.Files < 0 {
		return core.E(op, core.Invalid, nil, "a size is negative")
	}
	if l.Merged < 0 || l.Merged == 1 || l.Merged > maxMerged || l.Merged > 0 && (l.Live || l.Snapshot == "") {
		return core.E(op, core.Invalid, nil, "it cannot be merged from %d", l.Merged)
	}
	if l.Snapshot != "" {
		if l.Base != "" || l.Path != "" {
			return core.E(op, core.Invalid, nil, "it is of a snapshot and of a base image at once")
		}
		_, err := core.ParseID[core.SnapshotID]("snp_", string(l.Snapshot))
		return err
	}
	if l.Live {
		return core.E(op, core.Invalid, nil, "a base image has no memory")
	}
	if !filepath.IsAbs(l.Path) || filepath.Clean(l.Path) != l.Path {
		return core.E(op, core.Invalid, nil, "path %q is not absolute and clean", l.Path)
	}
	return nil
}
