package server

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Bounds of events that are read with short bodies, and of one page of them.
const (
	shortBody  = 16 << 10 // longer data is cut
	shortHead  = 4 << 10  // of a text in it
	shortTail  = 2 << 10
	pageBytes  = 8 << 20 // of data in one answer; an answer has one event at least
	eventChunk = 32
)

// eventPage reads one page of a log, forward or back, and no more of it at a
// time than it may send.
func (s *Server) eventPage(ctx context.Context, subject string, after int64, in *eventsIn) (api.List[api.ReadEvent], error) {
	limit := core.Page{Limit: in.Limit}.Size()
	back := in.Before > 0
	page := api.List[api.ReadEvent]{Items: []api.ReadEvent{}}
	at, size := after, 0
	if back {
		at = in.Before
	}
	for {
		want := min(eventChunk, limit-len(page.Items))
		var events []core.Event
		var err error
		if back {
			events, err = s.deps.Events.ReadBefore(ctx, subject, at, want)
		} else {
			events, err = s.deps.Events.Read(ctx, subject, at, want)
		}
		if err != nil {
			return page, err
		}
		chunk := make([]api.ReadEvent, len(events))
		for i, e := range events {
			chunk[i] = bodies(e, in.Bodies == "short")
			size += len(chunk[i].Data)
		}
		if n := len(events); n > 0 {
			at = events[n-1].Seq
			if back {
				at = events[0].Seq
			}
		}
		if back {
			page.Items = append(chunk, page.Items...)
		} else {
			page.Items = append(page.Items, chunk...)
		}
		if len(events) < want {
			return page, nil
		}
		if len(page.Items) >= limit || size >= pageBytes {
			if !back || at > 1 {
				page.Next = strconv.FormatInt(at, 10)
			}
			return page, nil
		}
	}
}

// bodies makes an event ready to be sent: as it is, or with long texts cut.
func bodies(e core.Event, short bool) api.ReadEvent {
	out := api.ReadEvent{Event: e}
	if !short || len(e.Data) <= shortBody {
		return out
	}
	out.Cut = map[string]api.CutText{}
	dec := json.NewDecoder(bytes.NewReader(e.Data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) == nil {
		v = shorten(v, "", out.Cut, 0)
		if raw, err := json.Marshal(v); err == nil && len(raw) <= 4*shortBody {
			out.Data = raw
			return out
		}
	}
	out.Data, out.Cut = json.RawMessage("{}"), map[string]api.CutText{"": {Size: len(e.Data)}}
	return out
}

// shorten cuts the long texts in a value and notes where.
func shorten(v any, path string, cut map[string]api.CutText, depth int) any {
	switch v := v.(type) {
	case string:
		if len(v) <= shortHead+shortTail || depth > 8 {
			return v
		}
		head, tail := shortHead, len(v)-shortTail
		for head > 0 && !utf8.RuneStart(v[head]) {
			head--
		}
		for tail < len(v) && !utf8.RuneStart(v[tail]) {
			tail++
		}
		cut[path] = api.CutText{Size: len(v), Tail: v[tail:]}
		return v[:head]
	case map[string]any:
		for k, x := range v {
			v[k] = shorten(x, strings.TrimPrefix(path+"."+k, "."), cut, depth+1)
		}
	case []any:
		for i, x := range v {
			v[i] = shorten(x, strings.TrimPrefix(path+"."+strconv.Itoa(i), "."), cut, depth+1)
		}
	}
	return v
}
