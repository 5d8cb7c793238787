package registries

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// goNames are what a sandbox's go command is told, as the host's says.
var goNames = []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE"}

func (r *reader) readGo() {
	values, source := map[string]string{}, "go env"
	out, ok := r.ask("go", append([]string{"env", "-json"}, goNames...)...)
	if ok && json.Unmarshal(out, &values) != nil {
		r.note("go env printed no JSON")
		ok = false
	}
	if !ok {
		source = "environment"
		file := r.env["GOENV"]
		if file == "" {
			file = path.Join(r.home, ".config/go/env")
		}
		if data, found := r.file(file, maxFile); found {
			source = file
			values = parseAssignments(data)
		}
		for _, name := range goNames {
			if v, set := r.env[name]; set {
				values[name] = v
			}
		}
	}
	proxy := regexp.MustCompile(`[^,|]+`).ReplaceAllStringFunc(values["GOPROXY"], func(entry string) string {
		entry = strings.TrimSpace(entry)
		if clean := r.endpoint("go", source, entry); clean != "" || strings.Contains(entry, "@") {
			return clean
		}
		return entry
	})
	r.setEnv("GOPROXY", proxy)
	if db := goSumDB(values["GOSUMDB"]); db != "" && proxy != "" {
		r.endpoint("go", source, db)
	}
	for _, name := range goNames[1:] {
		if strings.Contains(values[name], "@") {
			r.drop("go", name, source)
			continue
		}
		r.setEnv(name, values[name])
	}
}

// goSumDB is the address of a checksum database: GOSUMDB is a name, which is
// also its host, with an optional key and an optional address after a space.
func goSumDB(value string) string {
	fields := strings.Fields(value)
	switch {
	case len(fields) == 0 || fields[0] == "off":
		return ""
	case len(fields) > 1:
		return fields[1]
	}
	name, _, _ := strings.Cut(fields[0], "+")
	return "https://" + name
}

// parseAssignments reads NAME=value lines.
func parseAssignments(data []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		if ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") && len(out) < maxEntry {
			out[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return out
}

// npmrcPath is where the sandbox's npm finds the settings: below a user's and a
// project's own.
const npmrcPath = "/etc/drydock/npmrc"

func (r *reader) readNpm() {
	settings, source := map[string]string{}, "npm config"
	out, asked := r.ask("npm", "config", "ls", "-l", "--json")
	var all map[string]any
	if asked && json.Unmarshal(out, &all) != nil {
		r.note("npm config printed no JSON")
	}
	for k, v := range all {
		if s, ok := v.(string); ok {
			settings[k] = s
		}
	}
	// The files are read in any case: npm does not print what it protects, and
	// what is left out has to be named.
	for _, file := range []string{"/etc/npmrc", settings["globalconfig"], r.env["NPM_CONFIG_GLOBALCONFIG"], path.Join(r.home, ".npmrc"), settings["userconfig"], r.env["NPM_CONFIG_USERCONFIG"]} {
		data, ok := r.file(file, maxFile)
		if !ok {
			continue
		}
		for k, v := range parseAssignments(data) {
			if npmSecret(k) {
				r.drop("npm", k, file)
			} else if all == nil {
				settings[k], source = v, file
			}
		}
	}
	if v := r.env["NPM_CONFIG_REGISTRY"]; v != "" && all == nil {
		settings["registry"], source = v, "environment"
	}
	var rc strings.Builder
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		if k != "registry" && !(strings.HasPrefix(k, "@") && strings.HasSuffix(k, ":registry")) {
			continue
		}
		if clean := r.endpoint("npm", source, settings[k]); clean != "" {
			fmt.Fprintf(&rc, "%s=%s\n", k, clean)
		}
	}
	if rc.Len() > 0 {
		r.give(npmrcPath, []byte(rc.String()))
		r.setEnv("NPM_CONFIG_GLOBALCONFIG", npmrcPath)
	}
	r.setEnv("NPM_CONFIG_UPDATE_NOTIFIER", "false")
}

func npmSecret(key string) bool {
	key = strings.ToLower(key)
	if i := strings.LastIndexByte(key, ':'); i >= 0 {
		key = key[i+1:]
	}
	return strings.HasPrefix(key, "_") || key == "username" || key == "password" || key == "key" || key == "keyfile" || key == "certfile" || key == "cert" || key == "otp"
}

func (r *reader) readPip() {
	source, index, extra := "", "", []string(nil)
	for _, file := range []string{"/etc/pip.conf", "/etc/xdg/pip/pip.conf", path.Join(r.home, ".pip/pip.conf"), path.Join(r.home, ".config/pip/pip.conf"), r.env["PIP_CONFIG_FILE"]} {
		data, ok := r.file(file, maxFile)
		if !ok {
			continue
		}
		conf := parseINI(data)
		for _, section := range []string{"global", "install", "download"} {
			if v := conf[section+".index-url"]; len(v) > 0 {
				index, source = v[0], file
			}
			if v := conf[section+".extra-index-url"]; len(v) > 0 {
				extra, source = v, file
			}
		}
	}
	if v := r.env["PIP_INDEX_URL"]; v != "" {
		index, source = v, "environment"
	}
	if v := r.env["PIP_EXTRA_INDEX_URL"]; v != "" {
		extra, source = strings.Fields(v), "environment"
	}
	if index == "" {
		if out, ok := r.ask("pip", "help", "download"); ok {
			index, source = defaultIndex(string(out)), "pip help"
		}
	}
	if clean := r.endpoint("pip", source, index); clean != "" {
		r.setEnv("PIP_INDEX_URL", clean)
	}
	var kept []string
	for _, e := range extra {
		if clean := r.endpoint("pip", source, e); clean != "" {
			kept = append(kept, clean)
		}
	}
	r.setEnv("PIP_EXTRA_INDEX_URL", strings.Join(kept, " "))
	r.setEnv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
}

// defaultIndex finds what pip's own help says it uses when nothing is set.
func defaultIndex(help string) string {
	_, after, ok := strings.Cut(strings.Join(strings.Fields(help), " "), "--index-url")
	if !ok {
		return ""
	}
	if m := regexp.MustCompile(`^.{0,200}?\(default (https?://[^\s)]+)\)`).FindStringSubmatch(after); m != nil {
		return m[1]
	}
	return ""
}

// parseINI reads an INI file to "section.key" with one value a line; lines that
// begin with space go on with the value before.
func parseINI(data []byte) map[string][]string {
	out, section, key := map[string][]string{}, "", ""
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' || text[0] == ';':
		case text[0] == '[' && strings.HasSuffix(text, "]"):
			section, key = strings.Trim(text, "[]"), ""
		case (line[0] == ' ' || line[0] == '\t') && key != "":
			out[key] = append(out[key], text)
		default:
			i := strings.IndexAny(text, "=:")
			if i <= 0 || len(out) >= maxEntry {
				continue
			}
			key = section + "." + strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text[:i])), "_", "-")
			out[key] = nil
			if v := strings.TrimSpace(text[i+1:]); v != "" {
				out[key] = []string{v}
			}
		}
	}
	return out
}

func (r *reader) readUv() {
	var urls []string
	source := ""
	for _, file := range []string{"/etc/uv/uv.toml", path.Join(r.home, ".config/uv/uv.toml"), r.env["UV_CONFIG_FILE"]} {
		data, ok := r.file(file, maxFile)
		if !ok {
			continue
		}
		source = file
		for _, e := range parseTOML(data) {
			switch {
			case e.section == "index" && e.key == "url", e.key == "index-url", e.key == "extra-index-url":
				urls = append(urls, e.values...)
			}
		}
	}
	for _, name := range []string{"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"} {
		value, ok := r.env[name]
		if !ok {
			continue
		}
		var kept []string
		for u := range strings.FieldsSeq(value) {
			label, rest, named := strings.Cut(u, "=")
			if !named || strings.Contains(label, ":") {
				label, rest = "", u
			} else {
				label += "="
			}
			if clean := r.endpoint("uv", "environment", rest); clean != "" {
				kept = append(kept, label+clean)
			}
		}
		r.setEnv(name, strings.Join(kept, " "))
	}
	var kept []string
	for _, u := range urls {
		if clean := r.endpoint("uv", source, u); clean != "" {
			kept = append(kept, clean)
		}
	}
	if _, set := r.env["UV_INDEX"]; !set {
		r.setEnv("UV_INDEX", strings.Join(kept, " "))
	}
}

// cargoPath is read by cargo for every directory below the root.
const cargoPath = "/.cargo/config.toml"

func (r *reader) readCargo() {
	home := r.env["CARGO_HOME"]
	if home == "" {
		home = path.Join(r.home, ".cargo")
	}
	for _, file := range []string{path.Join(home, "config.toml"), path.Join(home, "config")} {
		data, ok := r.file(file, maxFile)
		if !ok {
			continue
		}
		var out strings.Builder
		last := ""
		for _, e := range parseTOML(data) {
			source, registry := strings.HasPrefix(e.section, "source."), strings.HasPrefix(e.section, "registries.")
			if strings.Contains(e.key, "token") || strings.Contains(e.key, "credential") {
				r.drop("cargo", e.section+"."+e.key, file)
				continue
			}
			if len(e.values) != 1 || !(source && (e.key == "registry" || e.key == "replace-with") || registry && e.key == "index" || e.section == "registry" && e.key == "default") {
				continue
			}
			value := e.values[0]
			if e.key == "registry" || e.key == "index" {
				if value = r.endpoint("cargo", file, value); value == "" {
					continue
				}
			}
			if e.section != last {
				fmt.Fprintf(&out, "[%s]\n", e.section)
				last = e.section
			}
			fmt.Fprintf(&out, "%s = %q\n", e.key, value)
		}
		if out.Len() > 0 {
			r.give(cargoPath, []byte(out.String()))
		}
		return
	}
}

// entry is one "key = value" of a TOML file, under its section.
type entry struct {
	section, key string
	values       []string
}

var tomlString = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|'([^']*)'`)

// parseTOML reads the part of TOML that these settings use: sections and keys
// whose values are strings or lists of strings on one line. The rest is passed
// over.
func parseTOML(data []byte) []entry {
	var out []entry
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			head, _, _ := strings.Cut(line, "#")
			section = strings.NewReplacer(`"`, "", "'", "", " ", "").Replace(strings.Trim(strings.TrimSpace(head), "[]"))
			if strings.ContainsAny(section, "[]\\=") {
				section = ""
			}
			continue
		}
		key, rest, ok := strings.Cut(line, "=")
		if !ok || len(out) >= maxEntry {
			continue
		}
		e := entry{section: section, key: strings.Trim(strings.TrimSpace(key), `"'`)}
		for _, m := range tomlString.FindAllStringSubmatch(rest, 32) {
			v := m[1] + m[2]
			if strings.ContainsAny(v, "\\\n") {
				continue
			}
			e.values = append(e.values, v)
		}
		out = append(out, e)
	}
	return out
}

// mavenSettings is the part of settings.xml that is handed on.
type mavenSettings struct {
	XMLName xml.Name      `xml:"settings"`
	Mirrors []mavenMirror `xml:"mirrors>mirror"`
	Servers []struct {
		ID string `xml:"id"`
	} `xml:"servers>server"`
	Repositories []struct {
		URL string `xml:"url"`
	} `xml:"profiles>profile>repositories>repository"`
}

type mavenMirror struct {
	ID       string `xml:"id"`
	MirrorOf string `xml:"mirrorOf"`
	URL      string `xml:"url"`
}

// mavenPath is where Debian's Maven reads its global settings; others are told
// by MAVEN_ARGS.
const mavenPath = "/etc/maven/settings.xml"

func (r *reader) readMaven() {
	seen := map[string]bool{}
	var mirrors []mavenMirror
	for _, file := range []string{path.Join(r.home, ".m2/settings.xml"), "/etc/maven/settings.xml", path.Join("/", r.env["MAVEN_HOME"], "conf/settings.xml")} {
		data, ok := r.file(file, maxFile)
		if !ok {
			continue
		}
		s, err := parseMaven(data)
		if err != nil {
			r.note("%s is not understood: %v", file, err)
			continue
		}
		for _, server := range s.Servers {
			r.drop("maven", "the credentials of server "+clip(server.ID), file)
		}
		for _, repo := range s.Repositories {
			r.endpoint("maven", file, repo.URL)
		}
		for _, m := range s.Mirrors {
			m.URL = r.endpoint("maven", file, m.URL)
			if m.URL != "" && !seen[m.ID] {
				seen[m.ID] = true
				mirrors = append(mirrors, m)
			}
		}
	}
	if len(mirrors) == 0 {
		return
	}
	out, err := xml.MarshalIndent(struct {
		XMLName xml.Name      `xml:"settings"`
		Mirrors []mavenMirror `xml:"mirrors>mirror"`
	}{Mirrors: mirrors}, "", "  ")
	if err != nil {
		r.note("Maven settings are not handed on: %v", err)
		return
	}
	r.give(mavenPath, append(out, '\n'))
	r.setEnv("MAVEN_ARGS", "-gs "+mavenPath)
}

func parseMaven(data []byte) (mavenSettings, error) {
	var s mavenSettings
	err := xml.Unmarshal(data, &s)
	return s, err
}

func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
