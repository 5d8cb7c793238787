package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"drydock/internal/core"
	"drydock/internal/proof/exam"
)

// Photographer pictures pages for exams. Rooms must be Machines too.
type Photographer struct{}

var (
	_ exam.Photographer = Photographer{}
	_ exam.Stamper      = Photographer{}
)

// Shoot pictures every page in one room with one browser. A page that cannot
// be pictured is told in its shot; the error is about the browser.
func (Photographer) Shoot(ctx context.Context, room exam.Room, pages []exam.Page) ([]exam.Shot, error) {
	machine, ok := room.(Machine)
	if !ok {
		return nil, core.E("browser.shoot", core.Unavailable, nil, "rooms of this kind cannot be reached by a browser")
	}
	shots := make([]exam.Shot, 0, len(pages))
	err := With(ctx, machine, func(b *Browser) error {
		for _, page := range pages {
			shot, err := b.Picture(ctx, Request{
				URL: page.URL, Width: page.Width, Height: page.Height, Full: page.Full, Selector: page.Selector, Wait: page.Wait,
			})
			if err != nil && ctx.Err() != nil {
				return err
			}
			one := exam.Shot{
				Page: page.Name, PNG: shot.PNG, Title: shot.Title, Status: shot.Status, ConsoleErrors: shot.ConsoleErrors,
				FailedRequests: shot.FailedRequests, Browser: b.version, Stable: shot.Stable,
			}
			if err != nil {
				one.Failed, one.PNG = err.Error(), nil
			}
			shots = append(shots, one)
		}
		return nil
	})
	return shots, err
}

// Compare sets base and branch of a page side by side.
func (Photographer) Compare(_ context.Context, page exam.Page, base, again, branch exam.Shot) (exam.Comparison, error) {
	c := exam.Comparison{Page: page.Name, Width: page.Width, Height: page.Height, Browser: branch.Browser}
	switch {
	case base.Failed != "" && branch.Failed != "":
		c.Problem = "it cannot be opened, neither at the base nor at the branch: " + branch.Failed
		return c, nil
	case base.Failed != "":
		c.Problem = "it cannot be opened at the base, so there is nothing to compare: " + base.Failed
		return c, nil
	case branch.Failed != "":
		c.Problem, c.Broken = branch.Failed, true
		return c, nil
	case branch.Status >= 500 && base.Status < 500:
		c.Problem, c.Broken = fmt.Sprintf("it answers %d where the base answers %d", branch.Status, base.Status), true
	}
	c.NewErrors = fresh(branch.ConsoleErrors, base.ConsoleErrors, again.ConsoleErrors)
	c.NewFailures = fresh(branch.FailedRequests, base.FailedRequests, again.FailedRequests)
	c.OldErrors = len(branch.ConsoleErrors) + len(branch.FailedRequests) - len(c.NewErrors) - len(c.NewFailures)
	d, err := Compare(base.PNG, again.PNG, branch.PNG)
	if err != nil {
		var e *core.Error
		if errors.As(err, &e) && e.Kind == core.Invalid {
			c.Problem = "its pictures cannot be compared: " + err.Error()
			return c, nil
		}
		return c, err
	}
	c.Changed, c.Noise, c.Resized, c.DiffPNG = d.Changed, d.Noise, d.Resized, d.PNG
	for _, b := range d.Boxes {
		c.Boxes = append(c.Boxes, exam.Box{X: b.Min.X, Y: b.Min.Y, Width: b.Dx(), Height: b.Dy()})
	}
	if d.Noise > Unstable && c.Problem == "" {
		c.Problem = fmt.Sprintf("it is not stable: %.0f%% differ between two pictures of the base, so the picture is only a picture", d.Noise*100)
	}
	return c, nil
}

// fresh lists what only the branch says.
func fresh(now []string, before ...[]string) []string {
	var out []string
	for _, line := range now {
		if !slices.ContainsFunc(before, func(list []string) bool { return slices.Contains(list, line) }) {
			out = append(out, line)
		}
	}
	return out
}

// Stamp is the function of that name, for exams.
func (Photographer) Stamp(png []byte, facts map[string]string) []byte { return Stamp(png, facts) }
