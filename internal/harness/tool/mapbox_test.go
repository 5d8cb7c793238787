package tool_test

import (
	"context"
	"io/fs"
	"maps"

	"drydock/internal/core"
	"drydock/internal/harness/tool"
)

// mapBox has files only, for fuzzing.
type mapBox struct {
	tool.Processes
	files map[string]string
}

func newMapBox(files map[string]string) *mapBox { return &mapBox{files: files} }

func (m *mapBox) copy() map[string]string            { return maps.Clone(m.files) }
func (m *mapBox) equal(other map[string]string) bool { return maps.Equal(m.files, other) }

func (m *mapBox) Read(_ context.Context, p string, max int64) ([]byte, tool.FileInfo, error) {
	s, ok := m.files[p]
	if !ok {
		return nil, tool.FileInfo{}, core.E("read", core.NotFound, nil, "%s does not exist", p)
	}
	return []byte(s[:min(int64(len(s)), max)]), tool.FileInfo{Path: p, Size: int64(len(s)), Mode: 0o644}, nil
}

func (m *mapBox) Write(_ context.Context, p string, _ fs.FileMode, data []byte) error {
	m.files[p] = string(data)
	return nil
}

func (m *mapBox) Remove(_ context.Context, p string) error {
	delete(m.files, p)
	return nil
}

func (m *mapBox) List(context.Context, string, int, int) ([]tool.FileInfo, bool, error) {
	return nil, false, nil
}

func (m *mapBox) Search(context.Context, tool.Query) (tool.Matches, error) {
	return tool.Matches{}, nil
}
