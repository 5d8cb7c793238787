package exam

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// picture shoots the recipe's pages at base and branch, each in a clean room.
// Where they differ, the base is shot again in another room, which shows how
// much of the difference is noise. Nothing here can make a case green: what
// fails is told beside the page.
func (e *engine) picture(ctx context.Context) error {
	if len(e.exam.Pages) == 0 || e.deps.Photographer == nil || !e.plan.behaviour {
		return nil
	}
	old := e.loadPages(ctx)
	kept := len(old.Again) > 0
	var branch []Shot
	var problems [3]string
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { branch, problems[1], err = e.shoot(gctx, CellB, 1); return err })
	if len(old.Base) == 0 {
		g.Go(func() (err error) { old.Base, problems[0], err = e.shoot(gctx, CellA, 1); return err })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var err error
	if problems[1] != "" || anyFailed(branch) {
		// A page that does not come up is worth a second look before it is
		// called broken.
		if branch, problems[1], err = e.shoot(ctx, CellB, 2); err != nil {
			return err
		}
	}
	if problems[0] == "" && problems[1] == "" && len(old.Again) == 0 && !samePictures(old.Base, branch) {
		if old.Again, problems[2], err = e.shoot(ctx, CellA, 2); err != nil {
			return err
		}
	}
	if !kept && problems[0] == "" && problems[2] == "" {
		e.storePages(ctx, old)
	}
	for _, p := range e.exam.Pages {
		c, err := e.comparePage(ctx, p, old.Base, old.Again, branch, problems)
		if err != nil {
			return err
		}
		e.result.Pictures = append(e.result.Pictures, c)
	}
	return nil
}

// shoot pictures every page in one room. problem says why there is no picture
// at all.
func (e *engine) shoot(ctx context.Context, cell Cell, try int) (shots []Shot, problem string, err error) {
	where := "the branch"
	if cell == CellA {
		where = "the base"
	}
	release, err := e.slot(ctx)
	if err != nil {
		return nil, "", err
	}
	defer release()
	room, err := e.openRoom(ctx, RoomRequest{Cell: cell, Try: try, Pictures: true, Commit: e.commit(cell), Services: e.exam.Services})
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, fmt.Sprintf("no room for pictures of %s: %v", where, err), nil
	}
	defer e.closeRoom(ctx, room)
	shots, err = e.deps.Photographer.Shoot(ctx, room, e.exam.Pages)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, fmt.Sprintf("no pictures of %s: %v", where, err), nil
	}
	return shots, "", nil
}

func anyFailed(shots []Shot) bool {
	for _, s := range shots {
		if s.Failed != "" {
			return true
		}
	}
	return false
}

func samePictures(a, b []Shot) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].PNG, b[i].PNG) {
			return false
		}
	}
	return true
}

func find(shots []Shot, page string) (Shot, bool) {
	for _, s := range shots {
		if s.Page == page {
			return s, true
		}
	}
	return Shot{}, false
}

func (e *engine) comparePage(ctx context.Context, p Page, base, again, branch []Shot, problems [3]string) (Comparison, error) {
	c := Comparison{Page: p.Name, Width: p.Width, Height: p.Height}
	a, okA := find(base, p.Name)
	b, okB := find(branch, p.Name)
	second, _ := find(again, p.Name)
	for i, ok := range []bool{okA, okB} {
		if ok {
			continue
		}
		c.Problem = problems[i]
		if c.Problem == "" {
			c.Problem = "it was not pictured"
		}
		return c, nil
	}
	c, err := e.deps.Photographer.Compare(ctx, p, a, second, b)
	if err != nil {
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		return Comparison{Page: p.Name, Width: p.Width, Height: p.Height, Problem: "it could not be compared: " + err.Error()}, nil
	}
	if problems[2] != "" && c.Problem == "" {
		c.Problem = "its noise is not known: " + problems[2]
	}
	keep := func(side, commit string, shot Shot) *Artifact {
		if e.deps.Artifacts == nil || len(shot.PNG) == 0 {
			return nil
		}
		png := shot.PNG
		if stamper, ok := e.deps.Photographer.(Stamper); ok {
			png = stamper.Stamp(png, map[string]string{
				"Commit": commit, "Page": p.Name, "URL": p.URL, "Viewport": fmt.Sprintf("%dx%d", p.Width, p.Height), "Browser": shot.Browser,
			})
		}
		art, err := e.deps.Artifacts.Put(ctx, "pages/"+p.Name+"/"+side+".png", "image/png", bytes.NewReader(png))
		if err != nil {
			e.note("picture %s of page %s could not be kept: %v", side, p.Name, err)
			return nil
		}
		return &art
	}
	c.Before, c.After = keep("before", e.exam.Base, a), keep("after", e.exam.Head, b)
	if len(c.DiffPNG) > 0 && (c.Changed > 0 || c.Resized != "") {
		c.Difference = keep("difference", e.exam.Head, Shot{PNG: c.DiffPNG, Browser: b.Browser})
	}
	c.DiffPNG = nil
	return c, ctx.Err()
}

// Stamper writes facts into a picture; a Photographer can be one.
type Stamper interface {
	Stamp(png []byte, facts map[string]string) []byte
}
