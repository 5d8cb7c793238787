// Package internal_test keeps the house in order: it reads the import graph
// and names the rule that an import breaks. docs/ARCHITECTURE.md shows the
// same picture in prose.
package internal_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// groups from top to bottom; an import may point down only.
var groups = []string{"daemon", "surface", "control", "harness", "execution", "containment", "proof", "delivery"}

// base packages may be imported by every group; they know only one another.
var base = map[string][]string{
	"core":          {},
	"strictyaml":    {"core"},
	"gitcmd":        {"core"},
	"gitcmd/mirror": {"core", "gitcmd"},
	"store":         {"core"},
	"store/blob":    {"core"},
	"config":        {"core", "strictyaml"},
	"obs":           {"core"},
	"testkit/need":  {},
}

// contracts are packages of a lower group that control may use.
var contracts = []string{
	"harness/agent", "harness/model", "execution/sandbox", "execution/guest", "execution/environment",
	"execution/environment/recipe", "execution/snapshot", "proof/check", "proof/exam", "proof/browser", "proof/evidence",
	"delivery/forge", "delivery/change", "harness/rules",
}

// adapters are named by the daemon alone.
var adapters = []string{
	"execution/sandbox/runsc", "execution/sandbox/fake", "delivery/forge/local",
	"harness/agent/builtin",
}

type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	DepsErrors   []any
}

const module = "drydock/internal/"

func load(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "drydock/internal/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func groupOf(path string) string { return strings.SplitN(path, "/", 2)[0] }

// breaks says which rule an import breaks, or "".
func breaks(from, to string) string {
	if from == to || strings.HasPrefix(from, "daemon") || strings.HasPrefix(from, "testkit") && from != "testkit/need" {
		return "" // the daemon wires everything; testkit starts the daemon
	}
	if slices.Contains(adapters, to) && !strings.HasPrefix(from, to+"/") {
		return "an adapter is named in daemon only; use its contract"
	}
	if known, isBase := base[from]; isBase {
		if slices.Contains(known, to) {
			return ""
		}
		return "a base package knows only " + strings.Join(known, ", ")
	}
	if _, isBase := base[to]; isBase {
		return ""
	}
	fromGroup, toGroup := groupOf(from), groupOf(to)
	fi, ti := slices.Index(groups, fromGroup), slices.Index(groups, toGroup)
	switch {
	case fi < 0:
		if from == "doctor" {
			if strings.HasPrefix(to, "containment/registries") {
				return ""
			}
			return "doctor looks at the host, not at Drydock's parts"
		}
		return "package belongs to no group of docs/ARCHITECTURE.md"
	case fromGroup == toGroup:
		return ""
	case ti < 0:
		return "it belongs to no group of docs/ARCHITECTURE.md"
	case ti < fi:
		return "imports point down only"
	case fromGroup == "control" && slices.Contains(contracts, to):
		return ""
	}
	return "a group knows core and its own packages; only control uses contracts below it"
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range load(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if rule := breaks(from, to); rule != "" {
				t.Errorf("%s imports %s: %s", from, to, rule)
			}
		}
	}
}

// TestLibrariesHaveOneHome keeps a library that should be easy to leave behind
// one package.
func TestLibrariesHaveOneHome(t *testing.T) {
	homes := map[string][]string{
		"github.com/goccy/go-yaml":               {"strictyaml"},
		"modernc.org/sqlite":                     {"store"},
		"github.com/danielgtaylor/huma":          {"surface/server", "surface/api"},
		"github.com/spf13/cobra":                 {"surface/cli"},
		"github.com/anthropics/":                 {"harness/model"},
		"github.com/openai/":                     {"harness/model"},
		"github.com/miekg/dns":                   {"containment"},
		"github.com/vishvananda/":                {"containment", "doctor"},
		"github.com/google/nftables":             {"containment", "doctor"},
		"github.com/bluekeyes/":                  {"proof/exam"},
		"github.com/google/go-containerregistry": {"execution/image"},
		"github.com/prometheus":                  {"obs"},
	}
	for _, p := range load(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			for lib, owners := range homes {
				if strings.HasPrefix(imp, lib) && !slices.ContainsFunc(owners, func(o string) bool { return strings.HasPrefix(from, o) }) {
					t.Errorf("%s imports %s, which only %s may", from, imp, strings.Join(owners, ", "))
				}
			}
		}
	}
}
