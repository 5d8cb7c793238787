package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/strictyaml"
)

// decoder fills the structs of this package from a parsed file. What it
// accepts is read from the structs' types and tags, and so is the schema: the
// two cannot differ.
type decoder struct{ faults *strictyaml.Faults }

func decode(file string, data []byte, cfg *Config) error {
	root, err := strictyaml.Parse(file, data)
	if err != nil {
		return err
	}
	d := &decoder{faults: strictyaml.NewFaults(file, data)}
	if root.Kind != strictyaml.Null {
		d.value(root, reflect.ValueOf(cfg).Elem(), "the configuration", "")
	}
	d.judge(root, cfg)
	return d.faults.Err()
}

func (d *decoder) value(n *strictyaml.Node, into reflect.Value, name string, tag reflect.StructTag) {
	if n.Kind == strictyaml.Null {
		return // a key without a value leaves the default
	}
	switch p := into.Addr().Interface().(type) {
	case *Size:
		scan(d, n, p, name, parseSize)
		d.bounds(n, float64(*p), name, tag, func(f float64) string { return Size(f).String() })
		return
	case *Duration:
		scan(d, n, p, name, parseDuration)
		d.bounds(n, float64(*p), name, tag, func(f float64) string { return Duration(f).String() })
		return
	case *Prefix:
		scan(d, n, p, name, parsePrefix)
		return
	case *Secret:
		if d.want(n, strictyaml.String, name) {
			*p = Secret(n.Text)
			if err := p.check(); err != nil {
				d.faults.Add(n, "%s: %s", name, err)
			}
		}
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		d.object(n, into, name)
	case reflect.Slice:
		d.list(n, into, name)
	case reflect.String:
		if d.want(n, strictyaml.String, name) {
			into.SetString(n.Text)
			if one := tag.Get("one"); one != "" && !slices.Contains(strings.Split(one, ","), n.Text) {
				d.faults.Add(n, "%s is one of %s", name, strings.ReplaceAll(one, ",", ", "))
			}
		}
	case reflect.Bool:
		if d.want(n, strictyaml.Bool, name) {
			into.SetBool(n.Text == "true")
		}
	case reflect.Int, reflect.Float64:
		d.number(n, into, name, tag)
	default:
		panic("config: no decoding for " + into.Type().String())
	}
}

func (d *decoder) want(n *strictyaml.Node, kind strictyaml.NodeKind, name string) bool {
	if n.Kind == kind {
		return true
	}
	d.faults.Add(n, "%s is %s, not %s", name, kind, n.Kind)
	return false
}

func scan[T any](d *decoder, n *strictyaml.Node, into *T, name string, parse func(string) (T, error)) {
	if n.Kind != strictyaml.String && n.Kind != strictyaml.Number {
		d.want(n, strictyaml.String, name)
		return
	}
	v, err := parse(n.Text)
	if err != nil {
		d.faults.Add(n, "%s: %s", name, err)
		return
	}
	*into = v
}

func (d *decoder) number(n *strictyaml.Node, into reflect.Value, name string, tag reflect.StructTag) {
	if !d.want(n, strictyaml.Number, name) {
		return
	}
	v, err := strconv.ParseFloat(n.Text, 64)
	whole := into.Kind() == reflect.Int
	if err != nil || v != v || (whole && v != float64(int64(v))) {
		d.faults.Add(n, "%s is not a usable number", name)
		return
	}
	if !d.bounds(n, v, name, tag, func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }) {
		return
	}
	if whole {
		into.SetInt(int64(v))
	} else {
		into.SetFloat(v)
	}
}

func (d *decoder) bounds(n *strictyaml.Node, v float64, name string, tag reflect.StructTag, show func(float64) string) bool {
	if least, err := strconv.ParseFloat(tag.Get("min"), 64); err == nil && v < least {
		d.faults.Add(n, "%s is at least %s", name, show(least))
		return false
	}
	if most, err := strconv.ParseFloat(tag.Get("max"), 64); err == nil && v > most {
		d.faults.Add(n, "%s is at most %s", name, show(most))
		return false
	}
	return true
}

func (d *decoder) list(n *strictyaml.Node, into reflect.Value, name string) {
	if !d.want(n, strictyaml.List, name) {
		return
	}
	const most = 200
	if len(n.Items) > most {
		d.faults.Add(n, "%s has more than %d entries", name, most)
		return
	}
	out := reflect.MakeSlice(into.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		d.value(item, out.Index(i), fmt.Sprintf("entry %d of %s", i+1, name), "")
	}
	into.Set(out)
}

func (d *decoder) object(n *strictyaml.Node, into reflect.Value, name string) {
	if !d.want(n, strictyaml.Map, name) {
		return
	}
	fields := map[string]reflect.StructField{}
	var names []string
	for f := range fieldsOf(into.Type()) {
		fields[key(f)] = f
		names = append(names, key(f))
	}
	for _, p := range n.Pairs {
		f, ok := fields[p.Key]
		if !ok {
			d.faults.AddHint(p.At, "known keys: "+strings.Join(names, ", "), "%s has no key %q", name, clip(p.Key))
			continue
		}
		d.value(p.Value, into.FieldByIndex(f.Index), p.Key, f.Tag)
	}
	for _, k := range names {
		if fields[k].Tag.Get("must") != "" && n.Get(k) == nil {
			d.faults.Add(n, "%s needs the key %q", name, k)
		}
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range t.Fields() {
			if f.Tag.Get("yaml") != "" && !yield(f) {
				return
			}
		}
	}
}

func key(f reflect.StructField) string { return f.Tag.Get("yaml") }

var (
	providerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	modelName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,120}$`)
)

// judge checks what belongs together.
func (d *decoder) judge(root *strictyaml.Node, c *Config) {
	at := func(path ...string) *strictyaml.Node {
		n := root
		for _, p := range path {
			if n = n.Get(p); n == nil {
				return nil
			}
		}
		return n
	}
	if host, port, err := net.SplitHostPort(c.Listen); err != nil || port == "" || (host != "" && strings.ContainsAny(host, "/@ ")) {
		d.faults.Add(at("listen"), "listen is an address with a port, like 127.0.0.1:7300")
	}
	d.previews(at("web"), c)
	for name, path := range map[string]string{"state_dir": c.StateDir, "runsc": c.Runsc, "init": c.Init} {
		if (path != "" || name == "state_dir") && !filepath.IsAbs(path) {
			d.faults.Add(at(name), "%s is an absolute path", name)
		}
	}
	seen := map[string]bool{}
	for i, p := range c.Models {
		n := at("models")
		if n != nil && i < len(n.Items) {
			n = n.Items[i]
		}
		if p.Name != "" && !providerName.MatchString(p.Name) {
			d.faults.Add(n, "a provider's name has small letters, digits and dashes")
		}
		if seen[p.Name] {
			d.faults.Add(n, "there are two providers called %q", clip(p.Name))
		}
		seen[p.Name] = true
		d.provider(n, p)
	}
	provider, _, ok := strings.Cut(c.DefaultModel, "/")
	if c.DefaultModel != "" && (!ok || !seen[provider]) {
		d.faults.Add(at("default_model"), "default_model is provider/model, with a provider under models")
	}
	if c.Running.Sessions > c.Running.Sandboxes {
		d.faults.Add(at("running"), "more sessions than sandboxes can run")
	}
}

func (d *decoder) provider(n *strictyaml.Node, p Provider) {
	if p.BaseURL != "" {
		if u, err := url.Parse(p.BaseURL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			d.faults.Add(n, "base_url of %s is an http or https address without a password", clip(p.Name))
		}
	}
	if p.Kind == "scripted" && p.Script == "" {
		d.faults.Add(n, "a scripted provider needs the key %q", "script")
	}
	if p.Kind == "anthropic" && p.Key == "" && p.BaseURL == "" {
		d.faults.Add(n, "provider %s needs the key %q", clip(p.Name), "key")
	}
	for _, m := range p.Models {
		if !modelName.MatchString(m) {
			d.faults.Add(n, "%q is not a model's name", clip(m))
		}
	}
}

// Show is the configuration in force as YAML, with a comment for each key.
// Secrets are references and stay that.
func (c Config) Show() ([]byte, error) {
	var out strings.Builder
	err := show(&out, reflect.ValueOf(c), "")
	return []byte(out.String()), err
}

func show(out *strings.Builder, v reflect.Value, indent string) error {
	for f := range fieldsOf(v.Type()) {
		fmt.Fprintf(out, "%s# %s\n", indent, f.Tag.Get("doc"))
		fv := v.FieldByIndex(f.Index)
		if f.Type.Kind() == reflect.Struct {
			fmt.Fprintf(out, "%s%s:\n", indent, key(f))
			if err := show(out, fv, indent+"  "); err != nil {
				return err
			}
			continue
		}
		value := fv.Interface()
		if f.Type.Kind() == reflect.Slice && fv.Len() == 0 {
			value = []string{}
		}
		text, err := strictyaml.Encode(map[string]any{key(f): value})
		if err != nil {
			return core.E("config.show", core.Internal, err, "show %s", key(f))
		}
		for line := range strings.Lines(string(text)) {
			out.WriteString(indent + line)
		}
	}
	return nil
}

// Schema is a JSON Schema of the file.
func Schema() ([]byte, error) {
	s := schemaOf(reflect.TypeFor[Config](), "", reflect.ValueOf(Default()))
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Configuration of the Drydock daemon"
	return json.MarshalIndent(s, "", "  ")
}

func schemaOf(t reflect.Type, tag reflect.StructTag, def reflect.Value) map[string]any {
	s := map[string]any{}
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	number := func(key, from string) {
		if v, err := strconv.ParseFloat(tag.Get(from), 64); err == nil {
			s[key] = v
		}
	}
	text := func(pattern string) {
		s["type"], s["pattern"] = "string", pattern
		if def.IsValid() && !def.IsZero() {
			s["default"] = fmt.Sprint(def.Interface())
		}
	}
	switch t {
	case reflect.TypeFor[Size]():
		text(sizeForm.String())
		return s
	case reflect.TypeFor[Duration]():
		text(`^([0-9.]+(ns|us|ms|s|m|h))+$|^0$`)
		return s
	case reflect.TypeFor[Prefix]():
		text(`^[0-9.]+/[0-9]+$`)
		return s
	case reflect.TypeFor[Secret]():
		text(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.*)?$`)
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		properties := map[string]any{}
		var must []string
		for f := range fieldsOf(t) {
			var d reflect.Value
			if def.IsValid() {
				d = def.FieldByIndex(f.Index)
			}
			properties[key(f)] = schemaOf(f.Type, f.Tag, d)
			if f.Tag.Get("must") != "" {
				must = append(must, key(f))
			}
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
		if len(must) > 0 {
			s["required"] = must
		}
		return s
	case reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), "", reflect.Value{})
		return s
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int:
		s["type"] = "integer"
	case reflect.Float64:
		s["type"] = "number"
	default:
		s["type"] = "string"
		if one := tag.Get("one"); one != "" {
			s["enum"] = strings.Split(one, ",")
		}
	}
	number("minimum", "min")
	number("maximum", "max")
	if def.IsValid() && !def.IsZero() {
		s["default"] = def.Interface()
	}
	return s
}
