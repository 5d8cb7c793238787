package recipe

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"drydock/internal/core"
)

// File is where a recipe is looked for first.
const File = "drydock.yaml"

// Source says where a recipe came from.
type Source struct {
	File         string `json:"file"`
	Devcontainer bool   `json:"devcontainer,omitempty"`
}

// example is the smallest useful recipe.
const example = `base: debian:bookworm
packages: [nodejs, npm]
setup: npm ci
checks:
  test: {run: npm test}
network: {allow: [registries]}`

// Files are the places a recipe is looked for, in order.
func Files() []string {
	return []string{File, ".devcontainer/devcontainer.json", ".devcontainer.json", "devcontainer.json"}
}

// Detect finds and reads the recipe of a repository. read returns the content
// of a path at the root of the repository; an error of kind NotFound, or
// fs.ErrNotExist, means that there is no such file.
func Detect(ctx context.Context, read func(path string) ([]byte, error)) (Recipe, Source, error) {
	for _, file := range Files() {
		if err := ctx.Err(); err != nil {
			return Recipe{}, Source{}, err
		}
		data, err := read(file)
		if core.Is(err, core.NotFound) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Recipe{}, Source{}, core.E("recipe.detect", core.KindOf(err), err, "cannot read %s", file)
		}
		source := Source{File: file, Devcontainer: file != File}
		if source.Devcontainer {
			r, err := ParseDevcontainer(file, data)
			return r, source, err
		}
		r, err := Parse(file, data)
		return r, source, err
	}
	return Recipe{}, Source{}, core.E("recipe.detect", core.NotFound, nil, "the repository has no recipe: none of %s is there", strings.Join(Files(), ", ")).
		WithHint("write a %s at the root of the repository, for example:\n%s", File, example)
}
