package environment

import (
	"context"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"drydock/internal/execution/guest"
	"drydock/internal/gitcmd"
)

// Standing says on what a workspace should stand already.
type Standing struct {
	Commit string
	Branch string // to be checked out; made or moved
	Base   string // origin's branch that the commit is shown as; "" for none
}

// Stand makes a branch the one that is checked out, and marks the place, where
// the workspace has the very commit checked out already and tracked files are
// those of it, as in a sandbox of an environment that did not move. It returns
// the files that are new to git. False means that this is not so, or that
// something is out of the ordinary: CheckoutMirror makes it so.
//
// Repository scripts ran where the files come from, and services may run now.
// So nothing is believed that was recorded before: git itself says in the end,
// in one process, which commit and branch it sees, and what differs from it. A
// process takes 15 to 25 ms in a sandbox, and a checkout starts two dozen.
func (m *Machine) Stand(ctx context.Context, on Standing) (fresh []string, ok bool, err error) {
	first, others, ok := refsOf(on)
	if !ok || !m.ordinary(ctx) {
		return nil, false, ctx.Err()
	}
	// Where it fails a name is taken by a directory, or the disk is full: git
	// will say which.
	if m.writeRefs(ctx, first).Wait() != nil {
		return nil, false, ctx.Err()
	}
	beside := m.writeRefs(ctx, others)
	seen, ok := m.look(ctx)
	if beside.Wait() != nil || !ok || seen.commit != on.Commit || seen.branch != on.Branch || seen.differs {
		return nil, false, ctx.Err()
	}
	return seen.fresh, true, nil
}

func (m *Machine) writeRefs(ctx context.Context, refs [][2]string) *errgroup.Group {
	var all errgroup.Group
	for _, ref := range refs {
		all.Go(func() error {
			return m.guest.WriteFile(ctx, path.Join(m.Workspace(), gitDir, ref[0]), 0o644, strings.NewReader(ref[1]+"\n"))
		})
	}
	return &all
}

const gitDir = ".git"

// ordinaryFiles are what a repository has that nothing is going on in, and whose
// refs are single files. A lock, a merge under way, packed refs, another
// storage of refs, a sparse checkout: such things are left to git.
var ordinaryFiles = []string{
	"HEAD", "config", "description", "index", "hooks", "info", "objects", "refs", "logs", "branches", "drydock",
	"FETCH_HEAD", "ORIG_HEAD", "COMMIT_EDITMSG",
}

func (m *Machine) ordinary(ctx context.Context) bool {
	list, err := m.guest.List(ctx, path.Join(m.Workspace(), gitDir))
	if err != nil {
		return false
	}
	found := map[string]bool{}
	for _, f := range list {
		name := path.Base(f.Path)
		if !slices.Contains(ordinaryFiles, name) || name == "HEAD" && !f.Mode.IsRegular() || name == "refs" && !f.Mode.IsDir() {
			return false
		}
		found[name] = true
	}
	return found["HEAD"] && found["refs"] && found["index"]
}

// refsOf are the files that refs are kept in, and what they hold: those that git
// is asked about, and the others.
func refsOf(on Standing) (first, others [][2]string, ok bool) {
	if !isCommit(on.Commit) || gitcmd.CheckBranch(on.Branch) != nil {
		return nil, nil, false
	}
	first = [][2]string{{"HEAD", "ref: refs/heads/" + on.Branch}, {"refs/heads/" + on.Branch, on.Commit}}
	others = [][2]string{{placeRef, on.Commit}}
	if on.Base == "" {
		return first, others, true
	}
	return first, append(others, [2]string{"refs/remotes/origin/" + on.Base, on.Commit}), gitcmd.CheckBranch(on.Base) == nil
}

// view is what git says of a workspace.
type view struct {
	commit, branch string
	differs        bool     // of a tracked file, index or working tree
	fresh          []string // new to git, and not ignored
}

// look asks git for it, without a shell: that would be one more program.
func (m *Machine) look(ctx context.Context) (view, bool) {
	res, err := m.guest.Run(ctx, guest.Command{
		Argv: []string{
			"git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false",
			"status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=all", "--no-renames", "-z",
		},
		// What a recipe may have set for all processes is not for this one.
		Env: []string{
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C",
			"GIT_DIR=" + gitDir, "GIT_WORK_TREE=.", "GIT_INDEX_FILE=" + gitDir + "/index", "GIT_OBJECT_DIRECTORY=" + gitDir + "/objects",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=", "GIT_CONFIG_COUNT=0", "GIT_CONFIG_PARAMETERS=", "GIT_NO_REPLACE_OBJECTS=1",
		},
		Dir: m.Workspace(), Timeout: gitTimeout, Limit: guest.MaxLimit,
	})
	if err != nil || res.ExitCode != 0 || res.Truncated {
		return view{}, false
	}
	return parseView(string(res.Stdout))
}

// parseView reads what comes from the sandbox; false where it is not understood.
func parseView(out string) (v view, ok bool) {
	for line := range strings.SplitSeq(out, "\x00") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "":
			if line != "" {
				return view{}, false
			}
		case "#":
			name, value, _ := strings.Cut(rest, " ")
			switch name {
			case "branch.oid":
				v.commit = value
			case "branch.head":
				v.branch = value
			}
		case "?":
			if rest == "" {
				return view{}, false
			}
			v.fresh = append(v.fresh, rest)
		case "1", "2", "u":
			v.differs = true
			return v, true // what follows may be the second half of a rename
		default:
			return view{}, false
		}
	}
	return v, isCommit(v.commit)
}
