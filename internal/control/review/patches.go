package review

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/gitcmd/mirror"
)

// Bounds of patches.
const (
	maxPatch   = 512 << 10 // bytes of one patch
	maxWhole   = 16 << 20  // of one that was asked for whole
	maxAnswer  = 8 << 20   // of all patches of an answer
	maxFiles   = 200       // of an answer
	maxContext = 1 << 20   // lines: the whole file
)

// Patches makes patches of some files of a Diff.
func (s *Service) Patches(ctx context.Context, id core.ChangeID, by core.Author, req core.PatchRequest) (core.Patches, error) {
	const op = "review.patches"
	e, err := s.ends(ctx, id, by, req.DiffRange)
	if err != nil {
		return core.Patches{}, err
	}
	d, err := s.diff(ctx, e)
	if err != nil {
		return core.Patches{}, err
	}
	if req.Digest != "" && req.Digest != d.Digest {
		return core.Patches{}, core.E(op, core.Conflict, nil, "the files of change %s#%d are no longer those of %s", e.span.Change.Repository, e.span.Change.Number, clip(req.Digest, 80)).
			WithHint("ask for the list of files again")
	}
	wanted, err := ParseRanges(req.Files, len(d.Items))
	if err != nil {
		return core.Patches{}, err
	}
	limit := int64(maxPatch)
	if req.Whole {
		if len(wanted) != 1 {
			return core.Patches{}, core.E(op, core.Invalid, nil, "%d files are asked for whole", len(wanted)).WithHint("name one file: files=N&whole=1")
		}
		limit = maxWhole
	}
	var later []int
	if len(wanted) > maxFiles {
		wanted, later = wanted[:maxFiles], wanted[maxFiles:]
	}
	if req.Context > maxContext {
		req.Context = maxContext
	}
	pairs := make([]mirror.Pair, len(wanted))
	for i, n := range wanted {
		pairs[i] = d.pairs[n-1]
	}
	out := core.Patches{Files: make([]core.FilePatch, 0, len(wanted))}
	fill := func(until int) { // files without lines that differ
		for len(out.Files) < until {
			out.Files = append(out.Files, core.FilePatch{N: wanted[len(out.Files)]})
		}
	}
	total := 0
	err = s.sides(ctx, e, func(sc *mirror.Scratch, _ string, _ []string) error {
		return sc.Patches(ctx, pairs, mirror.PatchOptions{Context: req.Context, Limit: limit}, func(i int, p mirror.FilePatch) (bool, error) {
			fill(i)
			if total += len(p.Text); total > maxAnswer && !req.Whole && i > 0 {
				return false, nil
			}
			out.Files = append(out.Files, patch(wanted[i], p))
			return true, nil
		})
	})
	if err != nil {
		return core.Patches{}, err
	}
	if total <= maxAnswer || req.Whole {
		fill(len(wanted))
	}
	out.Next = FormatRanges(append(wanted[len(out.Files):len(wanted):len(wanted)], later...))
	return out, nil
}

func patch(n int, p mirror.FilePatch) core.FilePatch {
	out := core.FilePatch{N: n, Cut: p.Cut, Bytes: p.Size}
	if utf8.Valid(p.Text) {
		out.Patch = string(p.Text)
		return out
	}
	out.Patch, out.Raw = strings.ToValidUTF8(string(p.Text), "\uFFFD"), p.Text
	return out
}

// maxRanges bounds the text of ranges.
const maxRanges = 32 << 10

// ParseRanges reads numbers from 1 to limit, "1,2,5-9": each once, ascending.
// Nothing is all.
func ParseRanges(text string, limit int) ([]int, error) {
	bad := func(what string) ([]int, error) {
		return nil, core.E("review.ranges", core.Invalid, nil, "%q names no files: %s", clip(strings.ToValidUTF8(text, "?"), 80), what).
			WithHint("write numbers of the list of files, ascending: 1,2,5-9")
	}
	if len(text) > maxRanges {
		return bad("it is too long")
	}
	if text == "" {
		text = "1-" + strconv.Itoa(limit)
		if limit == 0 {
			return nil, nil
		}
	}
	var out []int
	last := 0
	for part := range strings.SplitSeq(text, ",") {
		a, b, isRange := strings.Cut(part, "-")
		if !isRange {
			b = a
		}
		from, ok1 := number(a)
		to, ok2 := number(b)
		switch {
		case !ok1 || !ok2:
			return bad("a part is no number")
		case from <= last || to < from:
			return bad("the numbers do not ascend")
		case to > limit:
			return bad("there are " + strconv.Itoa(limit) + " files")
		}
		for n := from; n <= to; n++ {
			out = append(out, n)
		}
		last = to
	}
	return out, nil
}

func number(s string) (int, bool) {
	if s == "" || len(s) > 7 || strings.Trim(s, "0123456789") != "" || s[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// FormatRanges is the other way round; numbers must ascend.
func FormatRanges(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return b.String()
}

// Bounds of a search.
const (
	maxQuery    = 200
	maxHits     = 500
	maxSearched = 4 << 20 // bytes of one patch
	maxHitText  = 400
)

// Search looks for a text in the lines of a Diff, upper and lower case alike.
func (s *Service) Search(ctx context.Context, id core.ChangeID, by core.Author, r core.DiffRange, query string) (core.DiffHits, error) {
	out := core.DiffHits{Items: []core.DiffHit{}}
	if query == "" || len(query) > maxQuery || strings.ContainsAny(query, "\n\x00") {
		return out, core.E("review.search", core.Invalid, nil, "a search is for 1 to %d bytes of one line", maxQuery)
	}
	e, err := s.ends(ctx, id, by, r)
	if err != nil {
		return out, err
	}
	d, err := s.diff(ctx, e)
	if err != nil {
		return out, err
	}
	needle := bytes.ToLower([]byte(query))
	out.Capped = d.More > 0
	err = s.sides(ctx, e, func(sc *mirror.Scratch, _ string, _ []string) error {
		return sc.Patches(ctx, d.pairs, mirror.PatchOptions{Limit: maxSearched}, func(i int, p mirror.FilePatch) (bool, error) {
			out.Capped = out.Capped || p.Cut
			eachLine(p.Text, func(kind byte, before, after int, text []byte) {
				at := bytes.Index(bytes.ToLower(text), needle)
				if at < 0 {
					return
				}
				if out.Total++; len(out.Items) >= maxHits {
					out.Capped = true
					return
				}
				hit := core.DiffHit{N: i + 1, Side: "new", Line: after}
				if kind == '-' {
					hit.Side, hit.Line = "old", before
				}
				if from := at - maxHitText/2; from > 0 && len(text) > maxHitText {
					text = text[min(from, len(text)):]
				}
				hit.Text = strings.ToValidUTF8(string(text[:min(len(text), maxHitText)]), "\uFFFD")
				out.Items = append(out.Items, hit)
			})
			return true, nil
		})
	})
	return out, err
}

// eachLine walks through the lines of hunks. kind is ' ', '-' or '+'; before
// and after are the line's numbers on both sides.
func eachLine(patch []byte, line func(kind byte, before, after int, text []byte)) {
	var h mirror.Hunk
	before, after := 0, 0
	for len(patch) > 0 {
		text := patch
		if i := bytes.IndexByte(patch, '\n'); i >= 0 {
			text, patch = patch[:i], patch[i+1:]
		} else {
			patch = nil
		}
		if h.OldLines <= 0 && h.NewLines <= 0 {
			if got, ok := mirror.ParseHunk(string(text[:min(len(text), 200)])); ok {
				h, before, after = got, got.OldStart, got.NewStart
				if h.OldLines == 0 {
					before++
				}
				if h.NewLines == 0 {
					after++
				}
			}
			continue
		}
		if len(text) == 0 {
			continue
		}
		kind := text[0]
		switch kind {
		case ' ', '-', '+':
			line(kind, before, after, text[1:])
		}
		if kind == ' ' || kind == '-' {
			h.OldLines--
			before++
		}
		if kind == ' ' || kind == '+' {
			h.NewLines--
			after++
		}
	}
}
