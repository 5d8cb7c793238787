// Package recipe reads how a repository becomes a working machine: drydock.yaml,
// or devcontainer.json where there is none.
//
// It runs nothing and looks nothing up: names of packages, images and hosts are
// checked for form only.
//
// Invariants: a Recipe that Parse returned is complete (defaults filled in) and
// consistent (every service named exists, no service waits for itself, paths
// stay inside the workspace). All faults of a file are reported at once, each
// with line and caret. Input comes from repositories and is hostile: it is
// bounded and nothing in it is evaluated.
//
// All values are plain data; functions are safe for concurrent use.
//
//	r, src, err := recipe.Detect(ctx, func(path string) ([]byte, error) { ... })
//	for _, s := range r.StartOrder() { ... }
package recipe
