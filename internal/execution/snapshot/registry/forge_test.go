package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/image"
)

type entry struct {
	name, data, link string
	device           bool
}

func archive(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if e.device {
			h.Typeflag, h.Devmajor, h.Devminor = tar.TypeBlock, 8, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pushRaw pushes a tar as if it were a snapshot's only layer.
func (h *host) pushRaw(ref string, raw []byte) {
	h.t.Helper()
	ctx := h.t.Context()
	to, err := h.deps.Images.Remote(ctx, ref, image.Access{Push: true})
	if err != nil {
		h.t.Fatal(err)
	}
	defer to.Close()
	src := source{what: "raw", key: key("raw", image.Digest(raw)), pack: func(_ context.Context, w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}}
	layer, _, err := h.send(ctx, to, src, &reporter{})
	if err != nil {
		h.t.Fatal(err)
	}
	m, config, err := compose(described{Format: format, Snapshot: core.NewSnapshotID(), Created: time.Unix(0, 0).UTC()}, []packed{layer})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := sendSmall(ctx, to, mediaConfig, config); err != nil {
		h.t.Fatal(err)
	}
	text, _ := json.Marshal(m)
	tag, _ := to.Identifier()
	if _, err := to.PutManifest(ctx, tag, mediaManifest, text); err != nil {
		h.t.Fatal(err)
	}
}
