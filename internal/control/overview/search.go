package overview

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"drydock/internal/core"
)

// Bounds of a search.
const (
	MaxQuery     = 200      // bytes
	maxScanned   = 5000     // events that are looked into for one answer
	maxScanBytes = 32 << 20 // and their data
	around       = 80       // bytes of a snippet before and after the words
	scanChunk    = 100
)

// Search finds events of a session that have words in one of their texts,
// newest first. The first page counts how many there are, up to a bound.
func (s *Service) Search(ctx context.Context, id core.SessionID, query, cursor string, limit int) (found core.Found, err error) {
	valid := utf8.ValidString(query)
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" || len(query) > MaxQuery || !valid {
		return found, core.E("overview.search", core.Invalid, nil, "search for %d bytes of text: it must be 1 to %d", len(query), MaxQuery)
	}
	before := int64(1) << 62
	if cursor != "" {
		if before, err = strconv.ParseInt(cursor, 10, 64); err != nil || before < 1 || strconv.FormatInt(before, 10) != cursor {
			return found, core.E("overview.search", core.Invalid, nil, "cursor is not one of a search").
				WithHint("use the cursor that the page before returned, unchanged")
		}
	}
	if _, err := s.db.Session(ctx, id); err != nil {
		return found, err
	}
	limit = core.Page{Limit: limit}.Size()
	found.Hits = []core.Hit{}
	first, plain := cursor == "", plainPart(query)
	for scanned, bytes := 0, 0; ; {
		events, err := s.db.EventsLike(ctx, string(id), plain, before, scanChunk)
		if err != nil {
			return found, err
		}
		for _, e := range events {
			before = e.Seq
			scanned++
			bytes += len(e.Data)
			snippet, ok := Match(e.Data, query)
			if !ok {
				continue
			}
			if first {
				found.Total++
			}
			if len(found.Hits) == limit {
				if found.Next == "" {
					found.Next = strconv.FormatInt(found.Hits[limit-1].Seq, 10)
				}
				if !first {
					return found, s.turnsOf(ctx, id, found.Hits)
				}
				continue
			}
			found.Hits = append(found.Hits, core.Hit{Seq: e.Seq, Kind: e.Kind, Time: e.Time, Snippet: snippet})
		}
		if len(events) < scanChunk {
			break
		}
		if scanned >= maxScanned || bytes >= maxScanBytes {
			found.Capped = first
			if found.Next == "" {
				found.Next = strconv.FormatInt(before, 10)
			}
			break
		}
	}
	return found, s.turnsOf(ctx, id, found.Hits)
}

func (s *Service) turnsOf(ctx context.Context, id core.SessionID, hits []core.Hit) (err error) {
	for i := range hits {
		if hits[i].Turn, err = s.db.TurnAt(ctx, id, hits[i].Seq); err != nil {
			return err
		}
	}
	return nil
}

// plainPart is the longest part of a query that JSON writes as it is, for the
// database to look for.
func plainPart(query string) string {
	best := ""
	for part := range strings.FieldsFuncSeq(query, func(r rune) bool {
		return r > unicode.MaxASCII || r != ' ' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if len(part) > len(best) {
			best = part
		}
	}
	return best
}

// Match looks for a query, in small letters, in the texts of an event's data:
// not in the names of its fields. It returns the text around it.
func Match(data json.RawMessage, query string) (snippet string, ok bool) {
	var v any
	if query == "" || json.Unmarshal(data, &v) != nil {
		return "", false
	}
	return matchIn(v, query)
}

func matchIn(v any, query string) (string, bool) {
	switch v := v.(type) {
	case string:
		lower := strings.ToLower(v)
		at := strings.Index(lower, query)
		if at < 0 {
			return "", false
		}
		if len(lower) != len(v) { // small letters of other lengths: show those
			v = lower
		}
		return cutAround(v, at, len(query)), true
	case []any:
		for _, x := range v {
			if s, ok := matchIn(x, query); ok {
				return s, true
			}
		}
	case map[string]any:
		best, key := "", ""
		for k, x := range v { // the same one each time
			if s, ok := matchIn(x, query); ok && (key == "" || k < key) {
				best, key = s, k
			}
		}
		return best, key != ""
	}
	return "", false
}

// cutAround is one line of text around a match.
func cutAround(s string, at, n int) string {
	from, to := max(0, at-around), min(len(s), at+n+around)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	out := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s[from:to])), " ")
	if from > 0 {
		out = "…" + out
	}
	if to < len(s) {
		out += "…"
	}
	return out
}
