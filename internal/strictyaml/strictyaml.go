// Package strictyaml decodes one YAML document strictly: unknown keys, doubled
// keys, wrong types and a second document are errors that show line, column
// and the source with a caret.
//
// It is the only importer of the YAML library. Input is bounded by MaxBytes.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

	"drydock/internal/core"
)

// MaxBytes bounds what Decode reads.
const MaxBytes = 1 << 20

// Decode reads data, named file in errors, into out. An empty document leaves
// out as it is. What Parse refuses (anchors, aliases, tags, too deep a nesting)
// is refused here too.
func Decode(file string, data []byte, out any) (err error) {
	if _, err := Parse(file, data); err != nil {
		return err
	}
	// The library panics on some documents that are broken in rare ways.
	defer func() {
		if p := recover(); p != nil {
			err = core.E("yaml.decode", core.Invalid, nil, "%s cannot be read as YAML: %v", file, p)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict(), yaml.DisallowUnknownField())
	if err := dec.Decode(out); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return core.E("yaml.decode", core.Invalid, nil, "%s: %s", file, yaml.FormatError(err, false, true))
	}
	var second any
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return core.E("yaml.decode", core.Invalid, nil, "%s holds more than one YAML document", file)
	}
	return nil
}

// At is an error about the value at path ("$.scripts[0].answers[2].say") of a
// document that Decode took: it shows the source there with a caret.
func At(file string, data []byte, path, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	where := strings.TrimPrefix(path, "$.")
	if p, err := yaml.PathString(path); err == nil {
		if source, err := p.AnnotateSource(data, false); err == nil {
			return core.E("yaml.check", core.Invalid, nil, "%s: %s: %s\n%s", file, where, message, strings.TrimRight(string(source), "\n"))
		}
	}
	return core.E("yaml.check", core.Invalid, nil, "%s: %s: %s", file, where, message)
}

// Encode writes v as YAML.
func Encode(v any) ([]byte, error) { return yaml.MarshalWithOptions(v, yaml.Indent(2)) }
