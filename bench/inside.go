package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
)

// modules is how many files the repository has that is worked with inside.
const modules = 3000

const insideRecipe = `base: debian:bookworm
packages: [git, nodejs, npm, golang-go, esbuild]
setup: |
  cd go && go test -count=1 ./... >/dev/null
  cd .. && git status --porcelain >/dev/null
`

// work is done in /workspace, where npm, go and the bundler find their files.
var work = []struct{ name, run string }{
	{"go test", "cd go && go test -count=1 ./..."},
	{"npm test", "npm test --silent"},
	{"git status", "git status --porcelain"},
	{"esbuild, 3000 modules", "esbuild src/main.js --bundle --outfile=/tmp/out.js --log-level=error"},
	{"stat of /usr/lib/go-1.19", "find /usr/lib/go-1.19 /usr/share/go-1.19 -xdev -printf %s"},
	{"node, start", "node -e 0"},
}

// variants are other settings of runsc than those of the driver.
var variants = []struct {
	name  string
	flags []string
}{
	{"dentry cache of gVisor's own choice", []string{"--dcache=-1"}},
	{"files through the file server", []string{"--directfs=false"}},
	{"files that others may change", []string{"--file-access=shared", "--file-access-mounts=shared"}},
}

func insideFiles() map[string]string {
	files := map[string]string{
		"drydock.yaml": insideRecipe, "package.json": `{"name":"inside","version":"1.0.0","type":"commonjs","scripts":{"test":"node --test test/"}}`,
		"go/go.mod": "module example.com/inside\n\ngo 1.19\n", "src/main.js": "",
	}
	var main strings.Builder
	for i := range modules {
		name := fmt.Sprintf("d%02d/m%04d", i%50, i)
		files["src/"+name+".js"] = fmt.Sprintf("export const v%d = %d;\n", i, i)
		fmt.Fprintf(&main, "import { v%d } from './%s.js'; console.log(v%d);\n", i, name, i)
	}
	files["src/main.js"] = main.String()
	for i := range 3 {
		files[fmt.Sprintf("test/t%d.test.js", i)] = "const test = require('node:test'); const assert = require('node:assert');\nfor (let i = 0; i < 20; i++) test(`case ${i}`, () => assert.equal(i + 1, 1 + i));\n"
		files[fmt.Sprintf("go/p%d/p.go", i)] = fmt.Sprintf("package p%d\n\nimport \"strings\"\n\n// Up is s in capitals.\nfunc Up(s string) string { return strings.ToUpper(s) }\n", i)
		files[fmt.Sprintf("go/p%d/p_test.go", i)] = fmt.Sprintf("package p%d\n\nimport \"testing\"\n\nfunc TestUp(t *testing.T) {\n\tfor i := 0; i < 1000; i++ {\n\t\tif Up(\"a\") != \"A\" {\n\t\t\tt.Fatal(i)\n\t\t}\n\t}\n}\n", i)
	}
	return files
}

// timesOf is a script that does a piece of work n times, after once that does
// not count, and prints the microseconds of each.
func timesOf(run string, n int) string {
	return fmt.Sprintf(`export HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
for i in $(seq 0 %d); do
	cd /workspace; a=${EPOCHREALTIME/[.,]/}
	( %s ) >/dev/null 2>/tmp/why || { cat /tmp/why >&2; exit 1; }
	b=${EPOCHREALTIME/[.,]/}; [ $i = 0 ] || echo $((b - a))
done`, n, run)
}

func readTimes(out string) (s series, err error) {
	for line := range strings.FieldsSeq(out) {
		var us float64
		if _, err := fmt.Sscan(line, &us); err != nil {
			return nil, fmt.Errorf("%q is not a time: %w", line, err)
		}
		s = append(s, us/1000)
	}
	return s, nil
}

// benchInside does what agents do, inside and outside of gVisor.
func benchInside(ctx context.Context, b *bench) error {
	s, err := b.workshop(ctx)
	if err != nil {
		return err
	}
	defer s.builder.Close()
	repo := filepath.Join(s.dir, "inside")
	if err := s.repository(ctx, repo, insideFiles()); err != nil {
		return err
	}
	built, err := s.build(ctx, "inside", repo, false)
	if err != nil {
		return err
	}
	layers, release, err := s.snaps.Acquire(ctx, built.Snapshot)
	if err != nil {
		return err
	}
	defer release()
	m, err := s.launcher.Launch(ctx, environment.LaunchRequest{
		Snapshot: built.Snapshot, Purpose: environment.PurposeSession, Owner: "bench", Policy: &core.NetworkPolicy{}, Limits: limits,
	})
	if err != nil {
		return err
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
	config, err := s.written(m.ID())
	if err != nil {
		return err
	}
	n := b.times(5, 1)
	floors, ours := make([]series, len(work)), make([]series, len(work))
	for i, w := range work {
		if floors[i], err = s.outside(ctx, layers, w.run, n); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if ours[i], err = inside(ctx, m.Guest(), w.run, n); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		b.add(against("inside: "+w.name, "ms", ours[i], floors[i], "the floor is the same in a chroot of the same layers"))
	}
	for _, v := range variants {
		if err := b.variant(ctx, s, layers, config, v.flags, func(g *guest.Client) error {
			for i, w := range work {
				took, err := inside(ctx, g, w.run, n)
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				b.add(against("inside: "+w.name+", "+v.name, "ms", took, ours[i], "the floor is the same under the settings of the driver"))
			}
			return nil
		}); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return nil
}

func inside(ctx context.Context, g *guest.Client, run string, n int) (series, error) {
	res, err := g.Run(ctx, guest.Command{Argv: []string{"bash", "-c", timesOf(run, n)}, Timeout: 10 * time.Minute})
	if err != nil {
		return nil, err
	}
	if res.ExitCode != 0 {
		return nil, fmt.Errorf("exit code %d: %s", res.ExitCode, tail(string(res.Stderr)))
	}
	return readTimes(string(res.Stdout))
}

// variant starts the same sandbox with other flags.
func (b *bench) variant(ctx context.Context, s *workshop, layers []string, config specs.Spec, flags []string, do func(*guest.Client) error) (err error) {
	x, err := s.raw.box(ctx)
	if err != nil {
		return err
	}
	x.flags = flags
	defer func() {
		clean := context.WithoutCancel(ctx)
		err = errors.Join(err, s.raw.stop(clean, x), s.raw.forget(clean, x))
	}()
	if err := s.raw.start(ctx, x, layers, config); err != nil {
		return err
	}
	g := guest.NewTCPClient(x.guest, x.token)
	defer g.Close()
	return do(g)
}
