package examples_test

import (
	"testing"

	"drydock/examples"
	"drydock/internal/harness/model/scripted"
)

func TestScriptParses(t *testing.T) {
	if _, err := scripted.Parse("shop.script.yaml", examples.Script); err != nil {
		t.Fatal(err)
	}
}
