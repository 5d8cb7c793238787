package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"drydock/internal/execution/environment"
)

// benchRebuild builds examples/shop again and again. From scratch is what
// `drydock env build --fresh` does and what happens once a day: base image,
// set-up, services, warm-up, memory image. Archives of packages are there.
func benchRebuild(ctx context.Context, b *bench) error {
	s, err := b.workshop(ctx)
	if err != nil {
		return err
	}
	defer s.builder.Close()
	repo := filepath.Join(s.dir, "rebuilt")
	if err := s.shopFiles(ctx, repo); err != nil {
		return err
	}
	spent := newParts()
	timed := func(name string, into *series, fresh bool) error {
		began := time.Now()
		built, err := s.build(ctx, "rebuilt", repo, fresh)
		if err != nil {
			return err
		}
		into.took(time.Since(began))
		for _, p := range built.Phases {
			spent.note(name+p.Name, p.Duration)
		}
		return nil
	}
	touch := func(name string, n int) error {
		path := filepath.Join(repo, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return s.repository(ctx, repo, map[string]string{name: string(data) + fmt.Sprintf("%*s\n", n, "")})
	}
	var first, scratch, same, changed, locked series
	if err := timed("first ", &first, false); err != nil {
		return err
	}
	if err := timed("scratch ", &scratch, true); err != nil {
		return err
	}
	for n := range b.times(3, 1) {
		if err := timed("same ", &same, false); err != nil {
			return err
		}
		if err := touch("server.js", n+1); err != nil {
			return err
		}
		if err := timed("changed ", &changed, false); err != nil {
			return err
		}
		if err := touch("package-lock.json", n+1); err != nil {
			return err
		}
		if err := timed("locked ", &locked, false); err != nil {
			return err
		}
	}
	note := "the floor is a build of examples/shop from scratch, once, with its base image; package archives are there"
	r := against("rebuild: nothing changed, against from scratch", "ms", same, scratch, note)
	b.add(r.below(0.05, "ratio", *r.Ratio))
	r = against("rebuild: one changed file, against from scratch", "ms", changed, scratch, note)
	b.add(r.below(0.1, "ratio", *r.Ratio))
	for _, name := range []string{environment.PhaseSandbox, environment.PhaseCheckout, environment.PhaseServices, environment.PhaseWarm, environment.PhaseStop, environment.PhaseSnapshot, environment.PhaseMemory} {
		b.add(alone("rebuild: one changed file, part "+name, "ms", spent.take("changed "+name), ""))
	}
	b.add(against("rebuild: a changed lock file, against from scratch", "ms", locked, scratch, note))
	b.add(against("rebuild: from scratch on a base image that is there", "ms", first, scratch, note))
	return nil
}
