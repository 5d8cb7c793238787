package review

import (
	"context"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd/mirror"
)

type answerKey struct {
	dir, head string
	thread    core.ThreadID
	asked     int64
}

const (
	maxAnswers     = 20      // commits that are looked at for one thread
	maxAnswerPatch = 4 << 10 // bytes
	agentMail      = "drydock@localhost"
)

// answer finds the first commit of the agent after a thread's prompt that
// touches its lines, or names it; nil when there is none yet.
func (s *Service) answer(ctx context.Context, span forge.Span, repo *mirror.Mirror, t core.Thread, asked time.Time) (*core.ThreadAnswer, error) {
	key := answerKey{span.Dir, span.Change.Head, t.ID, asked.UnixNano()}
	if a, ok := s.answers.get(key); ok {
		return a, nil
	}
	if t.Anchor.Head == span.Change.Head {
		return nil, nil
	}
	log, err := s.since(ctx, span, repo, t.Anchor.Head)
	if err != nil {
		return nil, err
	}
	asked = asked.Truncate(time.Second) // git knows no less
	tries := 0
	var found *core.ThreadAnswer
	for _, c := range slices.Backward(log) {
		if c.Committer.Email != agentMail || c.Committer.When.Before(asked) || len(c.Parents) == 0 {
			continue
		}
		if tries++; tries > maxAnswers {
			break
		}
		touched, patch, err := s.touched(ctx, span.Dir, repo, c, t)
		if err != nil {
			return nil, err
		}
		if touched || names(c.Message, t) {
			found = &core.ThreadAnswer{Commit: c.ID, Patch: patch}
			break
		}
	}
	s.answers.put(key, found)
	return found, nil
}

// since lists the commits of a change that came after one of its heads.
func (s *Service) since(ctx context.Context, span forge.Span, repo *mirror.Mirror, head string) ([]mirror.Commit, error) {
	key := mapKey{span.Dir, head, span.Change.Head + span.Base}
	if log, ok := s.logs.get(key); ok {
		return log, nil
	}
	exclude := []string{span.Base}
	if s.has(ctx, span.Dir, repo, head) {
		exclude = append(exclude, head)
	}
	log, err := repo.Log(ctx, mirror.LogOptions{From: span.Change.Head, Exclude: exclude, Max: 200})
	if err == nil {
		s.logs.put(key, log)
	}
	return log, err
}

func names(message string, t core.Thread) bool {
	if strings.Contains(message, string(t.ID)) {
		return true
	}
	return slices.ContainsFunc(t.Comments, func(c core.Comment) bool { return strings.Contains(message, string(c.ID)) })
}

// touched says whether a commit changed what a thread is about, and what it did
// there.
func (s *Service) touched(ctx context.Context, dir string, repo *mirror.Mirror, c mirror.Commit, t core.Thread) (bool, string, error) {
	path := named(t.Anchor.Path, t.Anchor.Raw)
	if path == "" {
		return true, "", nil // about the whole change
	}
	at := t.Anchor
	if at.Side != sideOld && at.Head != c.Parents[0] {
		if !s.has(ctx, dir, repo, at.Head) {
			return false, "", nil
		}
		places, err := s.follow(ctx, dir, repo, at.Head, c.Parents[0], []core.Anchor{at})
		if err != nil {
			return false, "", err
		}
		if places[0].lost {
			return false, "", nil
		}
		now := places[0].now
		if now.Path != "" {
			at.Path, at.Raw = now.Path, now.Raw
			path = named(now.Path, now.Raw)
		}
		at.Line, at.EndLine = now.Line, now.EndLine
	}
	files, err := s.step(ctx, dir, repo, c.Parents[0], c.ID)
	if err != nil {
		return false, "", err
	}
	i := slices.IndexFunc(files, func(f mirror.Compared) bool {
		return f.Path == path && f.Status != mirror.Copied || f.OldPath == path && f.Status == mirror.Renamed
	})
	if i < 0 || files[i].OldMode == submodule || files[i].NewMode == submodule {
		return i >= 0, "", nil
	}
	pair := mirror.Pair{Old: files[i].OldBlob, New: files[i].NewBlob}
	need := map[mirror.Pair]*mapping{}
	if err := s.mappings(ctx, dir, repo, []mirror.Pair{pair}, need); err != nil {
		return false, "", err
	}
	exact := at.Side != sideOld && at.Line > 0 // lines of the old side are not in the commit's parent
	if exact && !need[pair].touches(at.Line, last(at)) {
		return false, "", nil
	}
	patch, err := s.small(ctx, repo, pair, at, exact)
	return true, patch, err
}

// small is the part of a patch that is about an anchor.
func (s *Service) small(ctx context.Context, repo *mirror.Mirror, pair mirror.Pair, at core.Anchor, exact bool) (string, error) {
	sc, err := repo.Scratch()
	if err != nil {
		return "", err
	}
	defer sc.Close()
	text := ""
	err = sc.Patches(ctx, []mirror.Pair{pair}, mirror.PatchOptions{Limit: maxMapped}, func(_ int, p mirror.FilePatch) (bool, error) {
		for _, h := range hunks(string(p.Text)) {
			head, ok := mirror.ParseHunk(h[:strings.IndexByte(h, '\n')])
			if exact && (!ok || head.OldStart > last(at) || head.OldStart+max(head.OldLines, 1) <= at.Line) {
				continue
			}
			if text != "" && len(text)+len(h) > maxAnswerPatch {
				break
			}
			text += h
		}
		return false, nil
	})
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxAnswerPatch {
		text = text[:maxAnswerPatch]
		text = strings.ToValidUTF8(text[:strings.LastIndexByte(text, '\n')+1], "\uFFFD")
	}
	return text, err
}

// hunks splits a patch by the counts in the hunks' heads.
func hunks(patch string) []string {
	var out []string
	start, left, right := 0, 0, 0
	for at := 0; at < len(patch); {
		end := len(patch)
		if i := strings.IndexByte(patch[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := patch[at:end]
		if left <= 0 && right <= 0 && !strings.HasPrefix(line, "\\") {
			if h, ok := mirror.ParseHunk(strings.TrimSuffix(line, "\n")); ok && strings.HasSuffix(line, "\n") {
				if at > start {
					out = append(out, patch[start:at])
				}
				start, left, right = at, h.OldLines, h.NewLines
			}
		} else {
			switch line[0] {
			case ' ':
				left--
				right--
			case '-':
				left--
			case '+':
				right--
			}
		}
		at = end
	}
	if strings.HasPrefix(patch[start:], "@@ ") {
		out = append(out, patch[start:])
	}
	return out
}
