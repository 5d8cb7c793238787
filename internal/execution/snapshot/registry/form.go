package registry

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"runtime"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
)

const (
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+zstd"

	// What is ours.
	mediaMemory     = "application/vnd.drydock.memory.v1" // kind of the artifact
	mediaMemoryJSON = "application/vnd.drydock.memory.v1+json"
	mediaMemoryFile = "application/vnd.drydock.memory.file.v1+zstd"
	mediaProgram    = "application/vnd.drydock.program.v1+zstd"

	// annotation of the image's manifest that makes it a snapshot.
	annotation = "vnd.drydock.snapshot.v1"

	annoTitle   = "org.opencontainers.image.title"
	annoCreated = "org.opencontainers.image.created"
	annoCommit  = "org.opencontainers.image.revision"
	annoKind    = "vnd.drydock.program.kind"
	annoDigest  = "vnd.drydock.program.digest"
)

const format = 1

// described is a snapshot without anything that means something on one host
// only. It stands in the annotation.
type described struct {
	Format      int               `json:"format"`
	Snapshot    core.SnapshotID   `json:"snapshot"`
	Created     time.Time         `json:"created"`
	Commit      string            `json:"commit,omitempty"`
	Environment *Origin           `json:"environment,omitempty"`
	Session     bool              `json:"session,omitempty"` // it is a session's, not a build's
	Base        int               `json:"base"`              // lowest layers that are the base image's
	Runtime     snapshot.Runtime  `json:"runtime"`
	Image       snapshot.Image    `json:"image"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// Origin is the environment that a snapshot was made for.
type Origin struct {
	Name          string `json:"name"`
	Source        string `json:"source"` // of its repository
	DefaultBranch string `json:"default_branch,omitempty"`
}

type manifest struct {
	SchemaVersion int                `json:"schemaVersion"`
	MediaType     string             `json:"mediaType"`
	ArtifactType  string             `json:"artifactType,omitempty"`
	Config        image.Descriptor   `json:"config"`
	Layers        []image.Descriptor `json:"layers"`
	Subject       *image.Descriptor  `json:"subject,omitempty"`
	Annotations   map[string]string  `json:"annotations,omitempty"`
}

type config struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       struct {
		User   string            `json:"User,omitempty"`
		Env    []string          `json:"Env,omitempty"`
		Labels map[string]string `json:"Labels,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// memory is the configuration of a memory image's artifact.
type memory struct {
	Format  int             `json:"format"`
	Memory  snapshot.Memory `json:"memory"`
	LiveSum string          `json:"live_diff_id,omitempty"` // digest of the unpacked live layer
}

func describe(m snapshot.Manifest, origin *Origin) described {
	d := described{
		Format: format, Snapshot: m.ID, Created: m.Created, Commit: m.Commit, Environment: origin, Session: m.Session != "",
		Runtime: m.Runtime, Image: m.Image, Labels: maps.Clone(m.Labels),
	}
	delete(d.Labels, LabelPulled)
	for _, l := range m.Layers {
		if l.Snapshot == "" {
			d.Base++
		}
	}
	return d
}

// compose makes configuration and manifest of an image; layers are bottom first.
func compose(d described, layers []packed) (manifest, []byte, error) {
	c := config{Created: d.Created, Architecture: runtime.GOARCH, OS: "linux"}
	c.Config.User, c.Config.Env = d.Image.User, d.Image.Env
	c.Config.Labels = map[string]string{"drydock.snapshot": string(d.Snapshot)}
	if d.Environment != nil {
		c.Config.Labels["drydock.environment"] = d.Environment.Name
	}
	c.RootFS.Type = "layers"
	m := manifest{SchemaVersion: 2, MediaType: mediaManifest}
	for _, l := range layers {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, l.DiffID)
		m.Layers = append(m.Layers, image.Descriptor{MediaType: mediaLayer, Digest: l.Digest, Size: l.Size})
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return m, nil, err
	}
	m.Config = image.Descriptor{MediaType: mediaConfig, Digest: image.Digest(raw), Size: int64(len(raw))}
	text, err := json.Marshal(d)
	if err != nil {
		return m, nil, err
	}
	m.Annotations = map[string]string{annotation: string(text), annoCreated: d.Created.Format(time.RFC3339)}
	if d.Commit != "" {
		m.Annotations[annoCommit] = d.Commit
	}
	return m, raw, nil
}

// decode reads what a registry sent. Of formats that others define, unknown
// fields are passed over.
func decode(data []byte, into any, strict bool) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return core.E("snapshot.registry", core.Invalid, nil, "something follows it")
	}
	return nil
}
