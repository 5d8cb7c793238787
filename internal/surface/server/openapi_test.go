package server_test

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/surface/server"
)

var update = flag.Bool("update", false, "write golden files")

const goldenDocument = "../../../docs/openapi.json"

// The description that clients are made from is committed; make generate
// refreshes it after the interface was changed on purpose.
func TestGoldenOpenAPI(t *testing.T) {
	got, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(goldenDocument, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenDocument)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/openapi.json is not what the code says; refresh it with make generate (-file +code):\n%s", diff)
	}
}

// Every parameter of a path is described: the framework passes over embedded
// types in silence when they are not exported.
func TestEveryPathParameterIsDescribed(t *testing.T) {
	raw, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Paths) < 40 {
		t.Errorf("only %d paths are described", len(doc.Paths))
	}
	braces := regexp.MustCompile(`\{(\w+)\}`)
	for path, ops := range doc.Paths {
		for method, op := range ops {
			var got, want []string
			for _, p := range op.Parameters {
				if p.In == "path" {
					got = append(got, p.Name)
				}
			}
			for _, m := range braces.FindAllStringSubmatch(path, -1) {
				want = append(want, m[1])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s: parameters of the path (-want +got):\n%s", method, path, diff)
			}
		}
	}
}
