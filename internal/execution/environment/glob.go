package environment

import (
	"context"
	"path"
	"strings"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// Glob finds regular files below dir by a pattern of slash-separated parts, in
// which "**" crosses directories. The result is bounded.
func (m *Machine) Glob(ctx context.Context, dir, pattern string) ([]guest.FileInfo, error) {
	root := dir
	parts := strings.Split(path.Clean(pattern), "/")
	// Walk only below the part without wildcards.
	for len(parts) > 1 && !strings.ContainsAny(parts[0], `*?[\`) {
		root, parts = path.Join(root, parts[0]), parts[1:]
	}
	found, err := m.guest.Walk(ctx, guest.WalkOptions{Dir: root, SkipGit: true})
	if core.Is(err, core.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, m.Explain(ctx, err)
	}
	var out []guest.FileInfo
	for _, f := range found.Files {
		if f.Mode.IsRegular() && matchParts(parts, strings.Split(strings.TrimPrefix(f.Path, root+"/"), "/")) {
			out = append(out, f)
		}
	}
	return out, nil
}

// MatchGlob matches slash-separated paths part by part; "**" stands for any
// directories.
func MatchGlob(glob, file string) bool {
	return matchParts(strings.Split(strings.TrimPrefix(glob, "/"), "/"), strings.Split(file, "/"))
}

func matchParts(glob, parts []string) bool {
	for len(glob) > 0 {
		if glob[0] == "**" {
			for i := range len(parts) + 1 {
				if matchParts(glob[1:], parts[i:]) {
					return true
				}
			}
			return false
		}
		if len(parts) == 0 {
			return false
		}
		if ok, _ := path.Match(glob[0], parts[0]); !ok {
			return false
		}
		glob, parts = glob[1:], parts[1:]
	}
	return len(parts) == 0
}
