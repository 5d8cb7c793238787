package image

import (
	"context"

	"drydock/internal/core"
)

func (s *Store) layout(_ context.Context, dir string, _ Request) (Image, error) {
	return Image{}, core.E("image.layout", core.Unavailable, nil, "OCI layout %q cannot be read yet", dir)
}

func (s *Store) registry(_ context.Context, req Request) (Image, error) {
	return Image{}, core.E("image.registry", core.Unavailable, nil, "image %q cannot be pulled yet", req.Base)
}
