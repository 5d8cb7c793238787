package recipe

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema of drydock.yaml, for editors. It is looser than
// Parse, which also checks what services name each other.
func Schema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema",
		Title:  "drydock.yaml", Type: "object", Required: []string{"base"},
		Description:          "how a repository becomes a working machine",
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Properties: map[string]*jsonschema.Schema{
			"base":      textSchema("base image: debian:SUITE, an OCI image reference, or oci-layout:DIR", "debian:bookworm"),
			"packages":  eitherSchema(listSchema("packages to install, by the names of the base's own package manager", textSchema("a package")), "array", "null"),
			"env":       envSchema(),
			"user":      withDefault(userSchema("user of setup, services, checks and the agent"), "root"),
			"workspace": withDefault(textSchema("absolute directory of the repository in the sandbox"), DefaultWorkspace),
			"setup": {
				Types: []string{"string", "array", "null"}, Items: textSchema("a step"),
				Description: "commands that run once when the environment is built, in the workspace",
			},
			"services": namedSchema("processes that run as long as the sandbox", serviceSchema()),
			"checks":   namedSchema("commands that say whether the code is good", checkSchema()),
			"pages":    namedSchema("pages that are pictured for evidence", pageSchema()),
			"warm": objectSchema("run once when the environment is built, to fill caches", []string{"run"}, map[string]*jsonschema.Schema{
				"run": textSchema("command, given to a shell"), "dir": dirSchema(), "timeout": durationSchema("then the build fails", "20m"),
			}),
			"ports":      listSchema("more ports that people may open", portSchema()),
			"link_ports": {Type: "boolean", Description: "in previews, pages of one port may use another port without credentials"},
			"on_sync": {
				Types: []string{"string", "array", "null"}, Items: syncSchema(),
				Description: "commands that are run, instead of setup, when the tree has moved from the commit of a snapshot to another one",
			},
			"max_age": textSchema("a session that starts from an older snapshot says so; never: any age is fine; default: the daemon's max_snapshot_age", "7d"),
			"refresh": durationSchema("how often the environment is built anew when its branch has moved; never: not by itself", "30m"),
			"limits": objectSchema("of one sandbox; what is absent is the host's default", nil, map[string]*jsonschema.Schema{
				"cpu":      {Type: "number", Minimum: new(0.1), Maximum: new(1024.0), Description: "cores"},
				"memory":   sizeSchema("of the whole sandbox", "4GiB"),
				"pids":     {Type: "integer", Minimum: new(32.0), Description: "processes and threads"},
				"disk":     sizeSchema("written above the snapshot", "20GiB"),
				"lifetime": textSchema("then the sandbox is removed", "8h"),
			}),
			"network": objectSchema("what may be reached; nothing else is", nil, map[string]*jsonschema.Schema{
				"allow": listSchema("hosts for sessions: a name, *.name, either with :port, or registries", textSchema("a host")),
				"build": listSchema("hosts while the environment is built; default: those of allow and registries", textSchema("a host")),
			}),
		},
	}
}

func serviceSchema() *jsonschema.Schema {
	return objectSchema("a process that runs as long as the sandbox", []string{"run"}, map[string]*jsonschema.Schema{
		"run":     textSchema("command, given to a shell"),
		"ready":   textSchema("ready when this succeeds: a command, an http URL, or tcp:PORT", "pg_isready", "http://127.0.0.1:3000/healthz", "tcp:5432"),
		"port":    portSchema(),
		"after":   listSchema("services that must be ready first", textSchema("a service")),
		"restart": withDefault(eitherSchema(&jsonschema.Schema{Enum: []any{"always", "on-failure", "no", false}, Description: "what to do when it ends"}, "string", "boolean"), "always"),
		"user":    userSchema("user it runs as"),
		"env":     envSchema(),
		"dir":     dirSchema(),
		"timeout": durationSchema("how long it may take to become ready", "60s"),
	})
}

func checkSchema() *jsonschema.Schema {
	return objectSchema("a command that says whether the code is good", []string{"run"}, map[string]*jsonschema.Schema{
		"run":      textSchema("command, given to a shell; exit code 0 is good"),
		"fix":      textSchema("command that repairs what it can"),
		"changed":  {Type: "string", Pattern: `\{files\}`, Description: "faster command for the changed files in {files}"},
		"files":    listSchema("patterns of files that {files} may hold; all when absent", textSchema("a pattern", "src/**/*.js")),
		"report":   {Type: "string", Pattern: `^(gotest|tap|tap:.+|junit:.+)$`, Description: "where the cases are", Examples: []any{"gotest", "junit:reports/*.xml", "tap"}},
		"dir":      dirSchema(),
		"env":      envSchema(),
		"timeout":  durationSchema("then it is stopped and could not be judged", "10m"),
		"required": withDefault(&jsonschema.Schema{Type: "boolean", Description: "whether a change may not be proven without it"}, true),
	})
}

func pageSchema() *jsonschema.Schema {
	return objectSchema("a page that is pictured for evidence", []string{"url"}, map[string]*jsonschema.Schema{
		"url":      textSchema("as the browser in the sandbox sees it", "http://127.0.0.1:3000/"),
		"viewport": withDefault(&jsonschema.Schema{Type: "string", Pattern: sizesForm.String(), Description: "width and height in pixels"}, "1280x800"),
		"wait":     textSchema("before the picture: a time after loading, or a CSS selector that must be visible", "500ms", "#cart"),
		"after":    listSchema("services that must be ready; all when absent", textSchema("a service")),
	})
}

func syncSchema() *jsonschema.Schema {
	s := objectSchema("a command, or a command with the files that it is for", []string{"run"}, map[string]*jsonschema.Schema{
		"run":     textSchema("command, given to a shell"),
		"when":    {Types: []string{"string", "array"}, Items: textSchema("a pattern"), MinItems: new(1), Description: "run only when a changed file fits one of these patterns; always when absent", Examples: []any{"package-lock.json", []any{"db/migrations/**"}}},
		"after":   listSchema("services that must be ready first; otherwise services may run or not", textSchema("a service")),
		"dir":     dirSchema(),
		"timeout": durationSchema("then it has failed", "30m"),
	})
	return eitherSchema(s, "string", "object")
}

func textSchema(description string, examples ...any) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", MinLength: new(1), Description: description, Examples: examples}
}

func listSchema(description string, item *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: item, Description: description}
}

func eitherSchema(s *jsonschema.Schema, types ...string) *jsonschema.Schema {
	s.Type, s.Types = "", types
	return s
}

func withDefault(s *jsonschema.Schema, v any) *jsonschema.Schema {
	s.Default, _ = json.Marshal(v) // only strings, numbers and booleans are given
	return s
}

func durationSchema(description, fallback string) *jsonschema.Schema {
	s := textSchema(description)
	s.Pattern = `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+|never)$`
	return withDefault(s, fallback)
}

func sizeSchema(description string, example string) *jsonschema.Schema {
	s := textSchema(description, example)
	s.Pattern = sizeForm.String()
	return s
}

func portSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: new(1.0), Maximum: new(65535.0), Description: "TCP port in the sandbox"}
}

func envSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Description: "variables of the environment", AdditionalProperties: &jsonschema.Schema{Types: []string{"string", "number", "boolean"}}}
}

func userSchema(description string) *jsonschema.Schema {
	return eitherSchema(textSchema(description), "string", "integer")
}

func objectSchema(description string, required []string, properties map[string]*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Description: description, Properties: properties, Required: required, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
}

func namedSchema(description string, item *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{
		Types: []string{"object", "null"}, Description: description, AdditionalProperties: item,
		PropertyNames: &jsonschema.Schema{Pattern: nameForm.String()},
	}
}

func dirSchema() *jsonschema.Schema {
	return textSchema("directory below the workspace to run in", "web")
}
