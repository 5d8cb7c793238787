package server

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

const octets = "application/octet-stream"

var (
	bytesContent = map[string]*huma.MediaType{octets: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
	tarContent   = map[string]*huma.MediaType{"application/x-tar": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
	digestForm   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// bytesOut is a small file. It is always a download: nothing that came out of
// a sandbox may act as a page of this origin.
type bytesOut struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

func (s *Server) evidenceRoutes() {
	const tag = "evidence"
	ev := s.deps.Evidence
	have := ev != nil
	register(s, route{id: "get-evidence", method: "GET", path: "/evidence/{id}", tag: tag, have: have, summary: "The manifest of a bundle"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.Evidence], error) {
			return withEvidence(in.ID, func(id core.EvidenceID) (*out[api.Evidence], error) {
				manifest, digest, err := ev.Manifest(ctx, id)
				return ok(api.Evidence{ID: id, Digest: digest, Manifest: manifest}), err
			})
		})
	type fileIn struct {
		IDIn
		Digest string `path:"digest" maxLength:"100"`
	}
	register(s, route{id: "evidence-file", method: "GET", path: "/evidence/{id}/files/{digest}", tag: tag, have: have, stream: true, content: bytesContent, summary: "One artifact that the manifest names"},
		func(ctx context.Context, _ core.Author, in *fileIn) (*huma.StreamResponse, error) {
			return withEvidence(in.ID, func(id core.EvidenceID) (*huma.StreamResponse, error) {
				return s.download(ctx, in.Digest, func() (io.ReadCloser, int64, error) { return ev.File(ctx, id, in.Digest) })
			})
		})
	register(s, route{id: "evidence-bundle", method: "GET", path: "/evidence/{id}/bundle", tag: tag, have: have, stream: true, content: tarContent, summary: "The whole bundle as a tar, for evidence verify"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*huma.StreamResponse, error) {
			return withEvidence(in.ID, func(id core.EvidenceID) (*huma.StreamResponse, error) {
				if _, _, err := ev.Manifest(ctx, id); err != nil {
					return nil, err
				}
				return s.tar(ctx, string(id)+".tar", "evidence-bundle", func(w io.Writer) error { return ev.Bundle(ctx, id, w) }), nil
			})
		})
	register(s, route{id: "get-blob", method: "GET", path: "/blobs/{digest}", tag: tag, have: s.deps.Blobs != nil, stream: true, content: bytesContent, summary: "A picture or a log, by digest"},
		func(ctx context.Context, _ core.Author, in *struct {
			Digest string `path:"digest" maxLength:"100"`
		},
		) (*huma.StreamResponse, error) {
			return s.download(ctx, in.Digest, func() (io.ReadCloser, int64, error) { return s.deps.Blobs.Open(ctx, in.Digest) })
		})
	register(s, route{id: "backup", method: "POST", path: "/backup", tag: "backup", have: s.deps.Backup != nil, stream: true, content: tarContent, summary: "A consistent copy of the daemon's state as a tar"},
		func(ctx context.Context, _ core.Author, _ *none) (*huma.StreamResponse, error) {
			return s.tar(ctx, "drydock-backup.tar", "backup", func(w io.Writer) error { return s.deps.Backup.Backup(ctx, w) }), nil
		})
}

func withEvidence[O any](raw string, f func(core.EvidenceID) (*O, error)) (*O, error) {
	return withID("evd_", raw, f)
}

// download sends one blob. Pictures keep their type; the rest is octets.
func (s *Server) download(ctx context.Context, digest string, open func() (io.ReadCloser, int64, error)) (*huma.StreamResponse, error) {
	if !digestForm.MatchString(digest) {
		return nil, core.E("server.blob", core.Invalid, nil, "%q is not a digest of the form sha256: and 64 hexadecimal digits", clip(digest, 100))
	}
	rc, size, err := open()
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer func() { _ = rc.Close() }()
		_, w := humago.Unwrap(hctx)
		first := make([]byte, 512)
		n, err := io.ReadFull(rc, first)
		if err != nil && n == 0 && err != io.EOF {
			writeProblem(w, s.problem(ctx, "get-blob", err))
			return
		}
		kind := octets
		if http.DetectContentType(first[:n]) == "image/png" {
			kind = "image/png"
		} else {
			w.Header().Set("Content-Disposition", "attachment")
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		if size >= 0 {
			w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		}
		dw := deadlineWriter{w: w, rc: http.NewResponseController(w)}
		if _, err := dw.Write(first[:n]); err != nil {
			return
		}
		_, _ = io.Copy(dw, rc)
	}}, nil
}

// tar streams an archive. A fault after the first byte cuts the connection,
// so that half an archive is never taken for a whole one.
func (s *Server) tar(ctx context.Context, name, op string, write func(io.Writer) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		_, w := humago.Unwrap(hctx)
		w.Header().Set("Content-Type", "application/x-tar")
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		dw := &countingWriter{deadlineWriter: deadlineWriter{w: w, rc: http.NewResponseController(w)}}
		if err := write(dw); err != nil {
			p := s.problem(ctx, op, err)
			if dw.n == 0 {
				w.Header().Del("Content-Disposition")
				writeProblem(w, p)
				return
			}
			panic(http.ErrAbortHandler)
		}
	}}
}

// deadlineWriter gives every write its own deadline: a long transfer may take
// its time, a dead peer may not.
type deadlineWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (d deadlineWriter) Write(p []byte) (int, error) {
	_ = d.rc.SetWriteDeadline(time.Now().Add(time.Minute))
	return d.w.Write(p)
}

type countingWriter struct {
	deadlineWriter
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.deadlineWriter.Write(p)
	c.n += int64(n)
	return n, err
}
