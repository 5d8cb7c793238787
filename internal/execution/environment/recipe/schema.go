package recipe

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema of drydock.yaml, for editors. It is looser than
// Parse, which also checks what services name each other.
func Schema() *jsonschema.Schema {
	text := func(description string, examples ...any) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", MinLength: new(1), Description: description, Examples: examples}
	}
	list := func(description string, item *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", Items: item, Description: description}
	}
	either := func(s *jsonschema.Schema, types ...string) *jsonschema.Schema {
		s.Type, s.Types = "", types
		return s
	}
	withDefault := func(s *jsonschema.Schema, v any) *jsonschema.Schema {
		s.Default, _ = json.Marshal(v) // only strings, numbers and booleans are given
		return s
	}
	duration := func(description, fallback string) *jsonschema.Schema {
		s := text(description)
		s.Pattern = `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+|never)$`
		return withDefault(s, fallback)
	}
	size := func(description string, example string) *jsonschema.Schema {
		s := text(description, example)
		s.Pattern = sizeForm.String()
		return s
	}
	port := func() *jsonschema.Schema {
		return &jsonschema.Schema{Type: "integer", Minimum: new(1.0), Maximum: new(65535.0), Description: "TCP port in the sandbox"}
	}
	env := func() *jsonschema.Schema {
		return &jsonschema.Schema{Type: "object", Description: "variables of the environment", AdditionalProperties: &jsonschema.Schema{Types: []string{"string", "number", "boolean"}}}
	}
	user := func(description string) *jsonschema.Schema { return either(text(description), "string", "integer") }
	object := func(description string, required []string, properties map[string]*jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "object", Description: description, Properties: properties, Required: required, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	}
	named := func(description string, item *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{
			Types: []string{"object", "null"}, Description: description, AdditionalProperties: item,
			PropertyNames: &jsonschema.Schema{Pattern: nameForm.String()},
		}
	}
	dir := func() *jsonschema.Schema { return text("directory below the workspace to run in", "web") }

	service := object("a process that runs as long as the sandbox", []string{"run"}, map[string]*jsonschema.Schema{
		"run":     text("command, given to a shell"),
		"ready":   text("ready when this succeeds: a command, an http URL, or tcp:PORT", "pg_isready", "http://127.0.0.1:3000/healthz", "tcp:5432"),
		"port":    port(),
		"after":   list("services that must be ready first", text("a service")),
		"restart": withDefault(either(&jsonschema.Schema{Enum: []any{"always", "on-failure", "no", false}, Description: "what to do when it ends"}, "string", "boolean"), "always"),
		"user":    user("user it runs as"),
		"env":     env(),
		"dir":     dir(),
		"timeout": duration("how long it may take to become ready", "60s"),
	})
	check := object("a command that says whether the code is good", []string{"run"}, map[string]*jsonschema.Schema{
		"run":      text("command, given to a shell; exit code 0 is good"),
		"fix":      text("command that repairs what it can"),
		"changed":  {Type: "string", Pattern: `\{files\}`, Description: "faster command for the changed files in {files}"},
		"files":    list("patterns of files that {files} may hold; all when absent", text("a pattern", "src/**/*.js")),
		"report":   {Type: "string", Pattern: `^(gotest|tap|tap:.+|junit:.+)$`, Description: "where the cases are", Examples: []any{"gotest", "junit:reports/*.xml", "tap"}},
		"dir":      dir(),
		"env":      env(),
		"timeout":  duration("then it is stopped and could not be judged", "10m"),
		"required": withDefault(&jsonschema.Schema{Type: "boolean", Description: "whether a change may not be proven without it"}, true),
	})
	page := object("a page that is pictured for evidence", []string{"url"}, map[string]*jsonschema.Schema{
		"url":      text("as the browser in the sandbox sees it", "http://127.0.0.1:3000/"),
		"viewport": withDefault(&jsonschema.Schema{Type: "string", Pattern: sizesForm.String(), Description: "width and height in pixels"}, "1280x800"),
		"wait":     text("before the picture: a time after loading, or a CSS selector that must be visible", "500ms", "#cart"),
		"after":    list("services that must be ready; all when absent", text("a service")),
	})
	return &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema",
		Title:  "drydock.yaml", Type: "object", Required: []string{"base"},
		Description:          "how a repository becomes a working machine",
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Properties: map[string]*jsonschema.Schema{
			"base":      text("base image: debian:SUITE, an OCI image reference, or oci-layout:DIR", "debian:bookworm"),
			"packages":  either(list("packages to install, by the names of the base's own package manager", text("a package")), "array", "null"),
			"env":       env(),
			"user":      withDefault(user("user of setup, services, checks and the agent"), "root"),
			"workspace": withDefault(text("absolute directory of the repository in the sandbox"), DefaultWorkspace),
			"setup": {
				Types: []string{"string", "array", "null"}, Items: text("a step"),
				Description: "commands that run once when the environment is built, in the workspace",
			},
			"services": named("processes that run as long as the sandbox", service),
			"checks":   named("commands that say whether the code is good", check),
			"pages":    named("pages that are pictured for evidence", page),
			"warm": object("run once when the environment is built, to fill caches", []string{"run"}, map[string]*jsonschema.Schema{
				"run": text("command, given to a shell"), "dir": dir(), "timeout": duration("then the build fails", "20m"),
			}),
			"ports":   list("more ports that people may open", port()),
			"refresh": duration("how often the environment is built anew when its branch has moved; never: not by itself", "30m"),
			"limits": object("of one sandbox; what is absent is the host's default", nil, map[string]*jsonschema.Schema{
				"cpu":      {Type: "number", Minimum: new(0.1), Maximum: new(1024.0), Description: "cores"},
				"memory":   size("of the whole sandbox", "4GiB"),
				"pids":     {Type: "integer", Minimum: new(32.0), Description: "processes and threads"},
				"disk":     size("written above the snapshot", "20GiB"),
				"lifetime": text("then the sandbox is removed", "8h"),
			}),
			"network": object("what may be reached; nothing else is", nil, map[string]*jsonschema.Schema{
				"allow": list("hosts for sessions: a name, *.name, either with :port, or registries", text("a host")),
				"build": list("hosts while the environment is built; default: those of allow and registries", text("a host")),
			}),
		},
	}
}
