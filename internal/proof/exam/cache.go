package exam

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"drydock/internal/proof/check"
)

// key is what everything about the base depends on, and what is asked of it.
func (e *engine) key(kind string, asked any) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode([]any{
		kind, e.exam.Repository, e.exam.Environment, e.exam.Snapshot, e.exam.SnapshotCommit, e.exam.Base,
		asked, e.exam.Setup, e.exam.Services, e.exam.Runtime,
	})
	return "exam-a-" + hex.EncodeToString(h.Sum(nil))
}

// load reads what an earlier exam of the same base found. An entry that
// cannot be read is none.
func (e *engine) load(ctx context.Context, key string, out any) (bool, error) {
	if e.deps.Cache == nil || e.exam.Snapshot == "" {
		return false, nil
	}
	raw, ok, err := e.deps.Cache.Get(ctx, key)
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		e.deps.Log.WarnContext(ctx, "the cache of base results cannot be read", "error", err)
		return false, nil
	}
	return ok && json.Unmarshal(raw, out) == nil, nil
}

func (e *engine) store(ctx context.Context, key string, value any) {
	if e.deps.Cache == nil || e.exam.Snapshot == "" {
		return
	}
	raw, err := json.Marshal(value)
	if err == nil {
		err = e.deps.Cache.Put(ctx, key, raw)
	}
	if err != nil {
		e.deps.Log.WarnContext(ctx, "the cache of base results cannot be written", "error", err)
	}
}

func (e *engine) keyA() string { return e.key("cell-a/1/"+check.Mark(), e.exam.Checks) }

func (e *engine) loadA(ctx context.Context) error {
	var runs map[string][]*checkRun
	if ok, err := e.load(ctx, e.keyA(), &runs); err != nil || !ok {
		return err
	}
	for _, c := range e.exam.Checks {
		if len(runs[c.Name]) == 0 {
			return nil
		}
	}
	for _, list := range runs {
		for _, r := range list {
			r.Record.Cached = true
		}
	}
	e.runs[CellA] = runs
	return nil
}

// storeA keeps cell A for other exams, but never one with a fault in it.
func (e *engine) storeA(ctx context.Context) {
	if len(e.faults[CellA]) == 0 && e.runs[CellA] != nil {
		e.store(ctx, e.keyA(), e.runs[CellA])
	}
}

// basePages are pictures of the base, and a second set that shows their noise.
type basePages struct {
	Base  []Shot
	Again []Shot
}

// storedShot is a Shot with its picture, which evidence keeps as a file.
type storedShot struct {
	Shot
	Picture []byte `json:"picture"`
}

const maxPages = 16 << 20 // bytes of pictures that are worth keeping for the next exam

// The number in the key changes when pages are pictured in another way.
func (e *engine) keyPages() string { return e.key("pages/3", e.exam.Pages) }

func (e *engine) loadPages(ctx context.Context) basePages {
	var stored [2][]storedShot
	if ok, err := e.load(ctx, e.keyPages(), &stored); err != nil || !ok {
		return basePages{}
	}
	var sets [2][]Shot
	for i, list := range stored {
		for _, s := range list {
			s.PNG = s.Picture
			sets[i] = append(sets[i], s.Shot)
		}
	}
	if len(sets[0]) != len(e.exam.Pages) || len(sets[1]) > 0 && len(sets[1]) != len(e.exam.Pages) {
		return basePages{}
	}
	return basePages{Base: sets[0], Again: sets[1]}
}

// storePages keeps pictures of the base for other exams, but none that failed.
func (e *engine) storePages(ctx context.Context, pages basePages) {
	size := 0
	stored := [2][]storedShot{}
	for i, list := range [][]Shot{pages.Base, pages.Again} {
		for _, s := range list {
			size += len(s.PNG)
			stored[i] = append(stored[i], storedShot{Shot: s, Picture: s.PNG})
		}
	}
	if size <= maxPages && len(pages.Base) == len(e.exam.Pages) && !anyFailed(slices.Concat(pages.Base, pages.Again)) {
		e.store(ctx, e.keyPages(), stored)
	}
}
