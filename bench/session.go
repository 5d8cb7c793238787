package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/daemon"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

// daemons is a whole daemon in this process, and a client of it.
type daemons struct {
	d      *daemon.Daemon
	client *client.Client
}

const tinyRecipe = `base: debian:bookworm
packages: [git, redis-server, python3]
checks:
  test: {run: sh test/run.sh, report: tap}
`

const tinyFault = "add() { echo $(($1 - $2)); }\n"

const tinyTest = `. ./calc.sh
n=0 bad=0
is() {
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		printf '  ---\n  expected: %s\n  actual: %s\n  ...\n' "$3" "$2"
		bad=1
	fi
}
echo "TAP version 13"
is "nothing is added" "$(add 4 0)" 4
echo "1..$n"
exit $bad
`

const tinyOld, tinyNew = `echo "1..$n"`, `is "three is added" "$(add 4 3)" 7
echo "1..$n"`

const tinyScript = `scripts:
  - name: tiny
    when: {prompt: {contains: "adds wrongly"}}
    answers:
      - say: A test first, then the cause.
        calls:
          - {tool: read, input: {path: calc.sh}}
          - {tool: read, input: {path: test/run.sh}}
          - tool: edit
            input: {path: test/run.sh, old: 'echo "1..$n"', new: "is \"three is added\" \"$(add 4 3)\" 7\necho \"1..$n\""}
          - {tool: run, input: {command: sh test/run.sh}}
      - expect:
          - {tool: run, contains: "not ok 2"}
        say: It is red. Now the cause.
        calls:
          - {tool: edit, input: {path: calc.sh, old: "$1 - $2", new: "$1 + $2"}}
          - {tool: run, input: {command: sh test/run.sh}}
      - expect:
          - {tool: run, contains: "ok 2"}
        calls:
          - {tool: finish, input: {verdict: done, summary: Numbers are added now., claims: [the second case fails without the change]}}
`

func (b *bench) daemon(ctx context.Context) (*daemons, error) {
	dir := filepath.Join(b.dir, "d")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	script, file := filepath.Join(dir, "tiny.yaml"), filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nstate_dir: %s\nrunsc: %s\ninit: %s\nmodels:\n  - {name: scripted, kind: scripted, script: %s}\n",
		filepath.Join(dir, "state"), b.runsc, b.init, script)
	if err := errors.Join(os.WriteFile(script, []byte(tinyScript), 0o600), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		return nil, err
	}
	cfg, err := config.Load(file, config.OS)
	if err != nil {
		return nil, err
	}
	opts, err := daemon.FromConfig(cfg, config.OS, config.Environ(), b.log)
	if err != nil {
		return nil, err
	}
	if opts.Images.Dir, err = imageDir(); err != nil {
		return nil, err
	}
	w := &daemons{}
	if w.d, err = daemon.Start(ctx, opts); err != nil {
		return nil, err
	}
	b.world = w
	token, err := os.ReadFile(filepath.Join(opts.State, "token"))
	if err != nil {
		return nil, err
	}
	w.client, err = client.New(client.Options{URL: w.d.URL(), Token: strings.TrimSpace(string(token))})
	return w, err
}

func (w *daemons) close(ctx context.Context) error {
	if w.client != nil {
		w.client.Close()
	}
	return w.d.Teardown(ctx)
}

func decode[T any](e core.Event) (v T, err error) {
	err = json.Unmarshal(e.Data, &v)
	return v, err
}

// environment builds one and waits.
func (w *daemons) environment(ctx context.Context, name, source string) error {
	build, err := w.client.CreateBuild(ctx, api.CreateBuild{Source: source, Name: name})
	if err != nil {
		return err
	}
	for e, err := range w.client.BuildEvents(ctx, build.ID, 0) {
		if err != nil {
			return err
		}
		if e.Kind != core.EventBuildState {
			continue
		}
		d, err := decode[core.BuildData](e)
		switch {
		case err != nil:
			return err
		case d.State == core.BuildDone:
			return nil
		case core.BuildTable.Final(d.State):
			return fmt.Errorf("build of %s: %s %+v", name, d.State, d.Failure)
		}
	}
	return ctx.Err()
}

// session runs one to the end of its prompt, which must be proven.
func (w *daemons) session(ctx context.Context, env, task string, spent *parts) error {
	made, err := w.client.CreateSession(ctx, api.CreateSession{Environment: env, Prompt: task})
	if err != nil {
		return err
	}
	verdict := core.VerdictData{Verdict: "none"}
	for e, err := range w.client.SessionEvents(ctx, made.Session.ID, 0) {
		if err != nil {
			return err
		}
		switch e.Kind {
		case core.EventNodeFinished:
			if d, err := decode[core.NodeData](e); err == nil && spent != nil {
				spent.note(d.Node, d.Duration)
			}
		case core.EventVerdict:
			if verdict, err = decode[core.VerdictData](e); err != nil {
				return err
			}
		case core.EventPromptState:
			d, err := decode[core.PromptData](e)
			if err != nil {
				return err
			}
			if core.PromptTable.Final(d.State) {
				if d.State != core.PromptDone || verdict.Verdict != "proven" {
					return fmt.Errorf("the session ended %s (%s), verdict %s %q", d.State, d.Reason, verdict.Verdict, verdict.Reasons)
				}
				return nil
			}
		}
	}
	return ctx.Err()
}

// benchSession lets the scripted model repair a shell function.
func benchSession(ctx context.Context, b *bench) error {
	s, err := b.workshop(ctx)
	if err != nil {
		return err
	}
	defer s.builder.Close()
	repo := filepath.Join(s.dir, "tiny")
	if err := s.repository(ctx, repo, map[string]string{"drydock.yaml": tinyRecipe, "calc.sh": tinyFault, "test/run.sh": tinyTest}); err != nil {
		return err
	}
	w, err := b.daemon(ctx)
	if err != nil {
		return err
	}
	if err := w.environment(ctx, "tiny", repo); err != nil {
		return err
	}
	spent := newParts()
	var ours, floor series
	n := 0
	err = turns(ctx, b.times(7, 2), func(count bool) error {
		into := spent
		if !count {
			into = nil
		}
		start := time.Now()
		err := w.session(ctx, "tiny", "The calculator adds wrongly. Find out why and repair it.", into)
		if count {
			ours.took(time.Since(start))
		}
		return err
	}, func(count bool) error {
		n++
		start := time.Now()
		err := byHand(ctx, s, repo, filepath.Join(s.dir, fmt.Sprintf("hand-%d", n)))
		if count {
			floor.took(time.Since(start))
		}
		return err
	})
	if err != nil {
		return err
	}
	b.add(against("session: tiny, from task to change", "ms", ours, floor, "start, agent, checks, proof in clean sandboxes, change; the floor is clone, test, edit, test, commit, push on the host"))
	for _, name := range spent.names() {
		b.add(alone("session: part "+name, "ms", spent.take(name), ""))
	}
	return nil
}

// byHand is the same work without Drydock.
func byHand(ctx context.Context, s *workshop, repo, dir string) error {
	if err := s.gitDo(ctx, s.dir, "clone", "-q", "--no-hardlinks", repo, dir); err != nil {
		return err
	}
	edit := func(name, old, text string) error {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, bytes.ReplaceAll(data, []byte(old), []byte(text)), 0o644)
	}
	check := func(green bool) error {
		cmd := exec.CommandContext(ctx, "sh", "test/run.sh")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if (err == nil) != green {
			return fmt.Errorf("the check by hand: %w: %s", err, out)
		}
		return nil
	}
	return errors.Join(
		edit("test/run.sh", tinyOld, tinyNew), check(false), edit("calc.sh", "$1 - $2", "$1 + $2"), check(true),
		s.gitDo(ctx, dir, "add", "-A"), s.gitDo(ctx, dir, "commit", "-q", "--no-gpg-sign", "-m", "Add"),
		s.gitDo(ctx, dir, "push", "-q", "origin", "HEAD:refs/heads/"+filepath.Base(dir)),
	)
}
