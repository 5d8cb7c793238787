// Package settings reads the settings file of a service.
package settings

import (
	"errors"

	"gopkg.in/yaml.v3"
)

// ErrEmpty says that a file has no settings.
var ErrEmpty = errors.New("no settings")

// Parse reads settings from YAML.
func Parse(data []byte) (map[string]interface{}, error) {
	out := map[string]interface{}{}
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, ErrEmpty
	}
	return out, nil
}
