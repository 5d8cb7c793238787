package server_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/surface/server"
)

const goldenDocument = "../../../docs/openapi.json"

// The description that clients are made from is committed. Run this test with
// UPDATE=1 (make openapi) after changing the interface on purpose.
func TestOpenAPIDocumentIsCurrent(t *testing.T) {
	got, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(goldenDocument, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenDocument)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/openapi.json is not what the code says; refresh it with make openapi (-file +code):\n%s", diff)
	}
}
