package scenarios

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/proof/check"
	"drydock/internal/proof/evidence"
	"drydock/internal/proof/exam"
	"drydock/internal/surface/api"
	"drydock/internal/testkit"
)

const goScript = `
scripts:
  - name: raise-yaml
    answers:
      - say: First a case that shows the fault.
        calls:
          - {tool: read, input: {path: go.mod}}
          - tool: write
            input:
              path: broken_test.go
              content: |
                package settings

                import "testing"

                func TestParseBrokenInput(t *testing.T) {
                	defer func() {
                		if r := recover(); r != nil {
                			t.Errorf("broken input ends the program: %v", r)
                		}
                	}()
                	if _, err := Parse([]byte("0: [:!00 \xef")); err == nil {
                		t.Error("broken input is taken as settings")
                	}
                }
          - {tool: run, input: {command: go test ./...}}
      - expect:
          - {tool: read, contains: "yaml.v3 v3.0.0-2021"}
          - {tool: run, failed: true, contains: "broken input ends the program"}
        say: It panics, as the advisory says. Now the version that mends it.
        calls:
          - {tool: run, input: {command: "go get gopkg.in/yaml.v3@v3.0.1 && go mod tidy && go test ./..."}}
      - expect:
          - {tool: run, failed: false, regex: "(?m)^ok"}
        calls:
          - {tool: finish, input: {verdict: done, summary: "yaml.v3 is raised to v3.0.1; broken input is an error now."}}
`

const npmScript = `
scripts:
  - name: raise-minimist
    answers:
      - say: First a case that shows the fault.
        calls:
          - {tool: read, input: {path: package.json}}
          - tool: write
            input:
              path: test/prototype.test.js
              content: |
                'use strict';

                const test = require('node:test');
                const assert = require('node:assert');
                const { flags } = require('../flags.js');

                test('a flag cannot reach what all functions share', () => {
                  flags(['--_.concat.constructor.prototype.y', '123']);
                  try {
                    assert.strictEqual((() => {}).y, undefined);
                  } finally {
                    delete Function.prototype.y;
                  }
                });
          - {tool: run, input: {command: node --test test/}}
      - expect:
          - {tool: read, contains: "\"minimist\": \"1.2.5\""}
          - {tool: run, failed: true, contains: "a flag cannot reach"}
        say: The flag reaches the prototype, as the advisory says. Now the version that mends it.
        calls:
          - {tool: run, input: {command: "npm install minimist@1.2.8 --save-exact --no-audit --no-fund && node --test test/"}}
      - expect:
          - {tool: run, failed: false, regex: "(?m)^# fail 0"}
        calls:
          - {tool: finish, input: {verdict: done, summary: "minimist is raised to 1.2.8; flags cannot reach prototypes any more."}}
`

// TestForeignGo raises a module with a known panic through the real registry.
func TestForeignGo(t *testing.T) {
	foreign(t, "go", goScript, "Raise yaml.v3 to a version in which broken input does not panic", "TestParseBrokenInput",
		map[string]string{"go.mod": "gopkg.in/yaml.v3 v3.0.1", "go.sum": "gopkg.in/yaml.v3 v3.0.1 h1:"})
}

// TestForeignNpm raises a package with a known prototype pollution.
func TestForeignNpm(t *testing.T) {
	foreign(t, "npm", npmScript, "Raise minimist to a version without the prototype pollution", "a flag cannot reach what all functions share",
		map[string]string{"package.json": `"minimist": "1.2.8"`, "package-lock.json": "minimist"})
}

// foreign runs a session on a repository that nobody here wrote a feature for,
// and looks at the proof: one case is red on the old code and green on the new.
func foreign(t *testing.T, name, script, task, kase string, diff map[string]string) {
	d := testkit.Start(t, testkit.Options{Script: script})
	env := d.BuildEnvironment(t, testkit.RepoOf(t, "testdata/foreign/"+name+"/repo"))
	got := d.Run(t, env, task)
	if got.Run.State != core.RunDone || got.Run.Verdict != "proven" || got.Change.State != core.ChangeOpen {
		t.Fatalf("run %+v\nchange %+v\n%s", got.Run, got.Change, testkit.Story(got.Events))
	}
	c := d.Client(t, "ana")
	proof, err := c.Evidence(t.Context(), got.Change.Evidence)
	if err != nil {
		t.Fatal(err)
	}
	row := findCase(t, proof, kase)
	if row.Class != exam.ClassFixed {
		t.Errorf("case %q is %q, want fixed", kase, row.Class)
	}
	for cell, want := range map[exam.Cell]check.Status{exam.CellD: check.Fail, exam.CellB: check.Pass} {
		tries := row.Cells[cell]
		if len(tries) == 0 || slices.ContainsFunc(tries, func(s check.Status) bool { return s != want }) {
			t.Errorf("cell %s of %q: %v, want %s", cell, kase, tries, want)
		}
	}
	patch, err := c.ChangeDiff(t.Context(), string(got.Change.ID))
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range diff {
		if !strings.Contains(patch.Diff, "+++ b/"+file) || !strings.Contains(patch.Diff, text) {
			t.Errorf("the change has no %q in %s:\n%s", text, file, patch.Diff)
		}
	}
	if denied := testkit.Of[core.DeniedData](t, got.Events, core.EventNetworkDenied); len(denied) > 0 {
		t.Errorf("the registries are allowed, and yet: %+v", denied)
	}
}

func findCase(t *testing.T, proof api.Evidence, name string) exam.CaseRow {
	t.Helper()
	var manifest evidence.Manifest
	if err := json.Unmarshal(proof.Manifest, &manifest); err != nil {
		t.Fatal(err)
	}
	for _, row := range manifest.Result.Cases {
		if row.ID.Name == name {
			return row
		}
	}
	t.Fatalf("the proof has no case %q: %+v", name, manifest.Result.Cases)
	return exam.CaseRow{}
}
