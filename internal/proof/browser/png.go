package browser

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/draw"
	"image/png"
	"maps"
	"slices"

	"drydock/internal/core"
)

// Bounds of a picture. A small file can unpack to any size, so the head is
// read before anything is unpacked.
const (
	maxPNG    = 64 << 20
	maxPixels = 48 << 20
	maxEdge   = 16_384
)

func checkPNG(raw []byte) (image.Config, error) {
	const op = "browser.png"
	if len(raw) > maxPNG {
		return image.Config{}, core.E(op, core.Invalid, nil, "picture of %d bytes; at most %d are read", len(raw), maxPNG)
	}
	config, err := png.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return config, core.E(op, core.Invalid, err, "picture of %d bytes", len(raw))
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxEdge || config.Height > maxEdge || config.Width*config.Height > maxPixels {
		return config, core.E(op, core.Invalid, nil, "picture of %dx%d pixels; at most %d on an edge and %d in all are read",
			config.Width, config.Height, maxEdge, maxPixels)
	}
	return config, nil
}

// decode reads a picture within bounds.
func decode(raw []byte) (*image.NRGBA, error) {
	if _, err := checkPNG(raw); err != nil {
		return nil, err
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, core.E("browser.png", core.Invalid, err, "picture of %d bytes", len(raw))
	}
	if n, ok := img.(*image.NRGBA); ok && n.Rect.Min == (image.Point{}) {
		return n, nil
	}
	out := image.NewNRGBA(image.Rect(0, 0, img.Bounds().Dx(), img.Bounds().Dy()))
	draw.Draw(out, out.Rect, img, img.Bounds().Min, draw.Src)
	return out, nil
}

// Stamp writes facts about a picture into it as text chunks, so that it tells
// what it shows even away from its bundle. A broken picture comes back as is.
func Stamp(raw []byte, facts map[string]string) []byte {
	const headEnd = 8 + 4 + 4 + 13 + 4 // signature and IHDR
	if len(raw) < headEnd || string(raw[12:16]) != "IHDR" {
		return raw
	}
	out := slices.Clone(raw[:headEnd])
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		value := latin(facts[key])
		if len(value) == 0 {
			continue
		}
		body := slices.Concat([]byte("tEXt"), latin(key), []byte{0}, value)
		out = binary.BigEndian.AppendUint32(out, uint32(len(body)-4)) //nolint:gosec // far below 4 GiB
		out = append(out, body...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	}
	return append(out, raw[headEnd:]...)
}

// latin keeps the printable ASCII of a text: chunks are Latin-1.
func latin(s string) []byte {
	var out []byte
	for _, r := range s {
		if r >= ' ' && r <= '~' && len(out) < 300 {
			out = append(out, byte(r))
		}
	}
	return out
}
