package browser

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"

	"drydock/internal/core"
)

// Difference of two pictures of a page.
type Difference struct {
	Changed float64           // share of the compared pixels that differ and are no noise
	Noise   float64           // share that differs between two pictures of the base
	Boxes   []image.Rectangle // around what changed
	Before  image.Point       // sizes
	After   image.Point
	Resized string // "1280x800 to 1280x840", empty where sizes are equal
	PNG     []byte // the difference drawn
}

// Unstable is the share of noise beyond which a comparison says nothing.
const Unstable = 0.05

// sight is the smallest difference that counts, as a share of the largest
// possible one: what nobody can see is none.
const sight = 0.00015

// Compare says what differs between base and branch. again is a second picture
// of the base; where it differs from the first is noise. It may be nil if base
// and branch are the same picture.
func Compare(base, again, branch []byte) (Difference, error) {
	a, err := decode(base)
	if err != nil {
		return Difference{}, err
	}
	b, err := decode(branch)
	if err != nil {
		return Difference{}, err
	}
	overlap := image.Rect(0, 0, min(a.Rect.Dx(), b.Rect.Dx()), min(a.Rect.Dy(), b.Rect.Dy()))
	d := Difference{Before: a.Rect.Size(), After: b.Rect.Size()}
	if d.Before != d.After {
		d.Resized = fmt.Sprintf("%dx%d to %dx%d", d.Before.X, d.Before.Y, d.After.X, d.After.Y)
	}
	noise := make([]bool, overlap.Dx()*overlap.Dy())
	if len(again) > 0 {
		c, err := decode(again)
		if err != nil {
			return Difference{}, err
		}
		d.Noise = noiseMask(noise, overlap, a, c)
	}
	changed := make([]bool, len(noise))
	n, w := 0, overlap.Dx()
	for y := range overlap.Dy() {
		for x := range w {
			if !noise[y*w+x] && differs(a, b, x, y) {
				changed[y*w+x] = true
				n++
			}
		}
	}
	if len(changed) > 0 {
		d.Changed = float64(n) / float64(len(changed))
	}
	d.Boxes = boxes(changed, overlap)
	d.PNG, err = d.draw(b, overlap, noise, changed)
	return d, err
}

// noiseMask marks what differs between two pictures of the base, and one pixel
// around it. It returns the share that differs.
func noiseMask(mask []bool, overlap image.Rectangle, a, c *image.NRGBA) float64 {
	w, h := overlap.Dx(), overlap.Dy()
	n := 0
	for y := range h {
		for x := range w {
			in := x < c.Rect.Dx() && y < c.Rect.Dy()
			if in && !differs(a, c, x, y) {
				continue
			}
			n++
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if nx, ny := x+dx, y+dy; nx >= 0 && ny >= 0 && nx < w && ny < h {
						mask[ny*w+nx] = true
					}
				}
			}
		}
	}
	if len(mask) == 0 {
		return 0
	}
	return float64(n) / float64(len(mask))
}

// differs compares two pixels as an eye does: in YIQ, brightness before hue,
// on white where they are transparent.
func differs(a, b *image.NRGBA, x, y int) bool {
	i, j := a.PixOffset(x, y), b.PixOffset(x, y)
	p, q := a.Pix[i:i+4:i+4], b.Pix[j:j+4:j+4]
	if p[0] == q[0] && p[1] == q[1] && p[2] == q[2] && p[3] == q[3] {
		return false
	}
	r1, g1, b1 := onWhite(p)
	r2, g2, b2 := onWhite(q)
	dr, dg, db := r1-r2, g1-g2, b1-b2
	luma := 0.299*dr + 0.587*dg + 0.114*db
	inPhase := 0.596*dr - 0.274*dg - 0.322*db
	quadrature := 0.211*dr - 0.523*dg + 0.312*db
	const most = 0.5053*255*255 + 0.299*0.596*0.596*255*255 + 0.1957*0.523*0.523*255*255
	return 0.5053*luma*luma+0.299*inPhase*inPhase+0.1957*quadrature*quadrature > sight*most
}

func onWhite(p []uint8) (r, g, b float64) {
	alpha := float64(p[3]) / 255
	over := func(c uint8) float64 { return 255 + (float64(c)-255)*alpha }
	return over(p[0]), over(p[1]), over(p[2])
}

const (
	tile     = 8
	near     = 16
	maxBoxes = 50
)

// boxes groups changed pixels: tiles that hold one, joined while they are near
// each other.
func boxes(changed []bool, overlap image.Rectangle) []image.Rectangle {
	w, h := overlap.Dx(), overlap.Dy()
	tw, th := (w+tile-1)/tile, (h+tile-1)/tile
	tight := make([]image.Rectangle, tw*th)
	for y := range h {
		for x := range w {
			if changed[y*w+x] {
				t := &tight[(y/tile)*tw+x/tile]
				*t = t.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	seen := make([]bool, len(tight))
	var out []image.Rectangle
	for start := range tight {
		if seen[start] || tight[start].Empty() {
			continue
		}
		var box image.Rectangle
		stack := []int{start}
		seen[start] = true
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			box = box.Union(tight[at])
			const reach = near / tile
			for dy := -reach; dy <= reach; dy++ {
				for dx := -reach; dx <= reach; dx++ {
					nx, ny := at%tw+dx, at/tw+dy
					if next := ny*tw + nx; nx >= 0 && ny >= 0 && nx < tw && ny < th && !seen[next] && !tight[next].Empty() {
						seen[next] = true
						stack = append(stack, next)
					}
				}
			}
		}
		out = append(out, box)
	}
	slices.SortFunc(out, func(a, b image.Rectangle) int { return b.Dx()*b.Dy() - a.Dx()*a.Dy() })
	if len(out) > maxBoxes {
		rest := out[maxBoxes-1]
		for _, r := range out[maxBoxes:] {
			rest = rest.Union(r)
		}
		out = append(out[:maxBoxes-1], rest)
	}
	return out
}

// draw paints the branch's picture pale, what changed in red, noise hatched,
// what only one side has in blue, and a box around each place.
func (d Difference) draw(b *image.NRGBA, overlap image.Rectangle, noise, changed []bool) ([]byte, error) {
	size := image.Pt(max(d.Before.X, d.After.X), max(d.Before.Y, d.After.Y))
	if size.X*size.Y > maxPixels {
		return nil, core.E("browser.compare", core.Invalid, nil, "the difference would have %dx%d pixels", size.X, size.Y)
	}
	out := image.NewNRGBA(image.Rectangle{Max: size})
	w := overlap.Dx()
	for y := range size.Y {
		for x := range size.X {
			c := color.NRGBA{205, 220, 250, 255}
			if image.Pt(x, y).In(overlap) {
				i := b.PixOffset(x, y)
				r, g, bl := onWhite(b.Pix[i : i+4 : i+4])
				grey := uint8(200 + (0.299*r+0.587*g+0.114*bl)*55/255)
				c = color.NRGBA{grey, grey, grey, 255}
				switch at := y*w + x; {
				case changed[at]:
					c = color.NRGBA{214, 0, 28, 255}
				case noise[at] && (x+y)%4 == 0:
					c = color.NRGBA{230, 160, 0, 255}
				}
			}
			out.SetNRGBA(x, y, c)
		}
	}
	for _, box := range d.Boxes {
		frame(out, box.Inset(-3))
	}
	var buf bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&buf, out); err != nil {
		return nil, core.E("browser.compare", core.Internal, err, "draw the difference")
	}
	return buf.Bytes(), nil
}

func frame(img *image.NRGBA, box image.Rectangle) {
	c := color.NRGBA{214, 0, 28, 255}
	for x := box.Min.X; x < box.Max.X; x++ {
		for _, y := range []int{box.Min.Y, box.Max.Y - 1} {
			if image.Pt(x, y).In(img.Rect) {
				img.SetNRGBA(x, y, c)
			}
		}
	}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for _, x := range []int{box.Min.X, box.Max.X - 1} {
			if image.Pt(x, y).In(img.Rect) {
				img.SetNRGBA(x, y, c)
			}
		}
	}
}
