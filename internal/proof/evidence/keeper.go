package evidence

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/proof/exam"
	"drydock/internal/store/blob"
)

// Sizes of what is kept.
const (
	MaxLog      = 4 << 20  // of a log: its head and its tail
	MaxArtifact = 64 << 20 // of anything else
)

// Keeper keeps the artifacts of exams in a blob store. It is an
// exam.Artifacts.
type Keeper struct {
	Blobs *blob.Store
	// Redact removes secrets from text before it is hashed; nil leaves it.
	Redact func([]byte) []byte
}

// Put keeps one artifact. Text longer than MaxLog loses its middle, and the
// artifact tells the true size.
func (k Keeper) Put(ctx context.Context, name, mediaType string, r io.Reader) (exam.Artifact, error) {
	a := exam.Artifact{Name: cleanName(name), MediaType: mediaType}
	text := strings.HasPrefix(mediaType, "text/") || strings.Contains(mediaType, "json") || strings.Contains(mediaType, "xml") ||
		textName(name)
	var err error
	if !text {
		counted := &counter{r: r}
		a.Digest, a.Size, err = k.Blobs.Put(ctx, counted, MaxArtifact)
		a.Whole = counted.n
		return a, err
	}
	head, tail, whole, err := headTail(r, MaxLog/2)
	if err != nil {
		return a, core.E("evidence.keep", core.Unavailable, err, "artifact %s", a.Name)
	}
	a.Whole = whole
	data := head
	if len(tail) > 0 {
		if lost := whole - int64(len(head)+len(tail)); lost > 0 {
			data = fmt.Appendf(head, "\n[... %d of %d bytes left out ...]\n", lost, whole)
		}
		data = append(data, tail...)
	}
	if k.Redact != nil {
		data = k.Redact(data)
	}
	a.Digest, a.Size, err = k.Blobs.Put(ctx, bytes.NewReader(data), 2*MaxLog+64<<10)
	return a, err
}

// textName knows reports by their names: they may hold secrets like any log.
func textName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".xml", ".json", ".jsonl", ".tap", ".txt", ".log", ".out", ".junit":
		return true
	}
	return false
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// headTail reads everything and keeps n bytes from each end.
func headTail(r io.Reader, n int) (head, tail []byte, whole int64, err error) {
	head, err = io.ReadAll(io.LimitReader(r, int64(n)))
	whole = int64(len(head))
	if err != nil || len(head) < n {
		return head, nil, whole, err
	}
	ring := make([]byte, 0, 2*n)
	buf := make([]byte, 64<<10)
	for {
		m, err := r.Read(buf)
		whole += int64(m)
		if ring = append(ring, buf[:m]...); len(ring) > 2*n-len(buf) {
			ring = append(ring[:0], ring[len(ring)-n:]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, whole, err
		}
	}
	if len(ring) > n {
		ring = ring[len(ring)-n:]
	}
	return head, ring, whole, nil
}

// cleanName makes a name that is safe to show: it is never a path on a disk.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || r == utf8.RuneError {
			return '_'
		}
		return r
	}, name)
	if len(name) > 300 {
		name = strings.ToValidUTF8(name[:300], "_")
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
