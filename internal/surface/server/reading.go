package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// RangeIn says what is compared.
type RangeIn struct {
	From string `query:"from" maxLength:"64" doc:"base, head, seen (what you last looked at), or a commit; default base"`
	To   string `query:"to" maxLength:"64" doc:"the same; default head"`
}

func (r RangeIn) diffRange() core.DiffRange { return core.DiffRange{From: r.From, To: r.To} }

var linesContent = map[string]*huma.MediaType{"application/x-ndjson": {Schema: &huma.Schema{
	Type: "string", Description: "one object a line: FilePatch in the order of their numbers, last PatchesEnd",
}}}

// linesOut is an answer of one object a line.
type linesOut struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// PatchesEnd is the last object of an answer with patches.
type PatchesEnd struct {
	Next string `json:"next"` // what to ask for next; empty when this was all
}

func (s *Server) readingRoutes() {
	const tag = "changes"
	reading := s.deps.Reading
	have := reading != nil
	register(s, route{id: "change-page", method: "GET", path: "/changes/{id}/page", tag: tag, have: have, summary: "Everything that the page of a change shows at once"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Cases string `query:"cases" enum:"all" doc:"all: also cases that were green before and after"`
		},
		) (*out[core.ChangePage], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.ChangePage], error) {
				v, err := reading.Page(ctx, id, by, in.Cases == "all")
				return ok(v), err
			})
		})
	register(s, route{id: "change-cases", method: "GET", path: "/changes/{id}/checks/{check}/cases", tag: tag, have: have, summary: "Cases of one check, kept ones too"},
		func(ctx context.Context, _ core.Author, in *struct {
			IDIn
			PageIn
			Check string `path:"check" maxLength:"200"`
			Class string `query:"class" enum:"fixed,broken,still_red,new,gone,flaky,changed,skipped,still_skipped,kept"`
		},
		) (*out[api.List[core.PageCase]], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[api.List[core.PageCase]], error) {
				v, err := reading.Cases(ctx, id, in.Check, in.Class, in.page())
				return listOf(v.Items, v.Next), err
			})
		})
	register(s, route{id: "mark-viewed", method: "PUT", path: "/changes/{id}/viewed", tag: tag, have: have, status: 204, summary: "Mark a file as looked at, by you; the mark belongs to its content"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.MarkViewed
		},
		) (*none, error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*none, error) {
				return nil, reading.SetViewed(ctx, id, by, core.ViewedMark{Path: in.Body.Name(), Blob: in.Body.Blob, Viewed: in.Body.Viewed})
			})
		})
	register(s, route{id: "mark-seen", method: "PUT", path: "/changes/{id}/seen", tag: tag, have: have, status: 204, summary: "Remember the head that you have looked at"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.MarkSeen
		},
		) (*none, error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*none, error) {
				return nil, reading.SetSeen(ctx, id, by, in.Body.Head)
			})
		})
	register(s, route{id: "change-files", method: "GET", path: "/changes/{id}/files", tag: tag, have: have, summary: "Files that differ, in reading order"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			RangeIn
		},
		) (*out[core.ChangeDiff], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.ChangeDiff], error) {
				v, err := reading.Files(ctx, id, by, in.diffRange())
				return ok(v), err
			})
		})
	register(s, route{id: "change-patches", method: "GET", path: "/changes/{id}/patches", tag: tag, have: have, content: linesContent, summary: "Patches of many files, one object a line"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			RangeIn
			Files   string `query:"files" maxLength:"32768" doc:"numbers of the list of files: 1,2,5-9; default all. At most 200 files and 8 MiB are answered; the last object says what is next"`
			Context int    `query:"context" minimum:"0" maximum:"1048576" default:"3" doc:"lines around a change"`
			Whole   bool   `query:"whole" doc:"of one file: up to 16 MiB instead of 512 KiB"`
			Digest  string `query:"digest" maxLength:"100" doc:"of the list of files that the numbers are from: a conflict when it is another by now"`
		},
		) (*linesOut, error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*linesOut, error) {
				req := core.PatchRequest{DiffRange: in.diffRange(), Files: in.Files, Context: in.Context, Whole: in.Whole, Digest: in.Digest}
				if req.Context == 0 {
					req.Context = -1
				}
				v, err := reading.Patches(ctx, id, by, req)
				if err != nil {
					return nil, err
				}
				return patchLines(v)
			})
		})
	register(s, route{id: "change-search", method: "GET", path: "/changes/{id}/search", tag: tag, have: have, summary: "Search the lines of a change's patches"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			RangeIn
			Query string `query:"q" minLength:"1" maxLength:"200" required:"true"`
		},
		) (*out[core.DiffHits], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.DiffHits], error) {
				v, err := reading.Search(ctx, id, by, in.diffRange(), in.Query)
				return ok(v), err
			})
		})
}

func patchLines(v core.Patches) (*linesOut, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, f := range v.Files {
		if err := enc.Encode(f); err != nil {
			return nil, core.E("server.patches", core.Internal, err, "patch %d", f.N)
		}
	}
	if err := enc.Encode(PatchesEnd{Next: v.Next}); err != nil {
		return nil, core.E("server.patches", core.Internal, err, "end of the patches")
	}
	return &linesOut{ContentType: "application/x-ndjson", Body: b.Bytes()}, nil
}
