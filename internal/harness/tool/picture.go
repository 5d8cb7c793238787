package tool

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"strings"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

type pictureInput struct {
	URL      string `json:"url"`
	Width    number `json:"width"`
	Height   number `json:"height"`
	FullPage bool   `json:"full_page"`
	WaitFor  string `json:"wait_for"`
}

func pictureTitle(_ *Set, in pictureInput) string { return "look at " + in.URL }

func (s *Set) picture(ctx context.Context, c Call) (Result, error) {
	var in pictureInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	if u, err := url.Parse(in.URL); err != nil || u.Host == "" && u.Scheme != "file" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" {
		return Result{}, tell("url %q is no http, https or file URL", clip(in.URL, 200))
	}
	req := PictureRequest{URL: in.URL, Width: 1280, Height: 800, FullPage: in.FullPage, WaitFor: in.WaitFor}
	if in.Width > 0 {
		req.Width = min(max(int(in.Width), 200), 3840)
	}
	if in.Height > 0 {
		req.Height = min(max(int(in.Height), 200), 3840)
	}
	p, err := s.deps.Pictures.Picture(ctx, req)
	if err != nil {
		return Result{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: status %d, title %q, %dx%d\n", in.URL, p.Status, clip(p.Title, 200), p.Width, p.Height)
	list(&b, "console", p.Console)
	list(&b, "failed requests", p.Failed)
	r := text(b.String())
	r.Picture = &core.PictureData{Name: "agent", URL: in.URL, Digest: p.Digest, Width: p.Width, Height: p.Height}
	shown, err := fit(p.PNG)
	if err != nil {
		r.Content[0].Text += fmt.Sprintf("[the picture cannot be shown: %s]\n", err)
		return r, nil
	}
	r.Content = append(r.Content, model.Block{Kind: model.Image, MediaType: "image/png", Data: shown})
	return r, nil
}

func list(b *strings.Builder, name string, lines []string) {
	if len(lines) == 0 {
		fmt.Fprintf(b, "%s: none\n", name)
		return
	}
	fmt.Fprintf(b, "%s:\n", name)
	for i, l := range lines {
		if i == 20 {
			fmt.Fprintf(b, "  ... and %d more\n", len(lines)-i)
			break
		}
		fmt.Fprintf(b, "  %s\n", oneLine(l, 300))
	}
}

// Models take pictures up to some 5 MB as base64, and look at no more than
// about 1568 points on a side.
const maxSide = 1568

// fit makes a picture small enough for a model.
func fit(data []byte) ([]byte, error) {
	cfg, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if cfg.Width*cfg.Height > 64<<20 {
		return nil, fmt.Errorf("%dx%d is too large", cfg.Width, cfg.Height)
	}
	factor := 1
	for max(cfg.Width, cfg.Height)/factor > maxSide*2 {
		factor++
	}
	if factor == 1 && len(data) <= maxImage {
		return data, nil
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for ; ; factor++ {
		var out bytes.Buffer
		if err := png.Encode(&out, shrink(img, factor)); err != nil {
			return nil, err
		}
		if out.Len() <= maxImage {
			return out.Bytes(), nil
		}
	}
}

// shrink averages squares of n by n points.
func shrink(img image.Image, n int) image.Image {
	b := img.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, max(b.Dx()/n, 1), max(b.Dy()/n, 1)))
	for y := range out.Bounds().Dy() {
		for x := range out.Bounds().Dx() {
			var sum [4]uint32
			for dy := range n {
				for dx := range n {
					r, g, bl, a := img.At(b.Min.X+x*n+dx, b.Min.Y+y*n+dy).RGBA()
					sum[0], sum[1], sum[2], sum[3] = sum[0]+r>>8, sum[1]+g>>8, sum[2]+bl>>8, sum[3]+a>>8
				}
			}
			k := uint32(n * n)
			out.SetRGBA(x, y, color.RGBA{uint8(sum[0] / k), uint8(sum[1] / k), uint8(sum[2] / k), uint8(sum[3] / k)})
		}
	}
	return out
}
