package exam_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"drydock/internal/proof/exam"
)

// answer is what a scripted room does with a check.
type answer struct {
	exit   int
	stdout string
	files  map[string]string
	age    time.Duration // of the files, before the run
	slow   bool          // runs into its time limit
	dies   string
}

// scripted are rooms that follow a script.
type scripted struct {
	run      func(req exam.RoomRequest, name string) answer
	open     func(req exam.RoomRequest) error
	ready    func(req exam.RoomRequest) error
	setup    func(req exam.RoomRequest) answer
	warm     map[string]string // files that the snapshot holds
	checks   map[string]string // command to name
	mu       sync.Mutex
	ran      []string // "A/1 test"
	overlays map[exam.Cell][]string
	living   int
}

func (s *scripted) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, fmt.Sprintf(format, args...))
}

func (s *scripted) Open(_ context.Context, req exam.RoomRequest) (exam.Room, error) {
	if s.open != nil {
		if err := s.open(req); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.living++
	s.mu.Unlock()
	files := map[string]exam.RoomFile{}
	for name, text := range s.warm {
		files[name] = exam.RoomFile{Path: name, Data: []byte(text), ModTime: time.Now().Add(-time.Hour)}
	}
	return &scriptedRoom{s: s, req: req, files: files}, nil
}

type scriptedRoom struct {
	s     *scripted
	req   exam.RoomRequest
	files map[string]exam.RoomFile
}

func (r *scriptedRoom) Root() string                           { return "/workspace" }
func (r *scriptedRoom) Checkout(context.Context, string) error { return nil }

func (r *scriptedRoom) Overlay(_ context.Context, files []exam.OverlayFile) error {
	var names []string
	for _, f := range files {
		if f.Delete {
			names = append(names, "-"+f.Path)
		} else {
			names = append(names, f.Path)
		}
	}
	slices.Sort(names)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.overlays == nil {
		r.s.overlays = map[exam.Cell][]string{}
	}
	r.s.overlays[r.req.Cell] = names
	return nil
}

func (r *scriptedRoom) Ready(context.Context) error {
	if r.s.ready != nil {
		return r.s.ready(r.req)
	}
	return nil
}

func (r *scriptedRoom) Run(ctx context.Context, c exam.Command) (exam.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return exam.Outcome{}, err
	}
	now := time.Now()
	name, known := r.s.checks[c.Shell]
	a := answer{}
	if known {
		r.s.log("%s/%d %s", r.req.Cell, r.req.Try, name)
		a = r.s.run(r.req, name)
	} else {
		r.s.log("%s/%d setup", r.req.Cell, r.req.Try)
		if r.s.setup != nil {
			a = r.s.setup(r.req)
		}
	}
	for name, text := range a.files {
		r.files[name] = exam.RoomFile{Path: name, Data: []byte(text), ModTime: now.Add(-a.age)}
	}
	return exam.Outcome{
		ExitCode: a.exit, TimedOut: a.slow, Died: a.dies, Detail: a.stdoutIf(a.dies != ""), Started: now, Duration: time.Millisecond,
		Stdout: exam.Bytes([]byte(a.stdout)), Stderr: exam.Bytes(nil),
	}, nil
}

func (a answer) stdoutIf(yes bool) string {
	if yes {
		return a.stdout
	}
	return ""
}

func (r *scriptedRoom) match(globs []string) []string {
	var out []string
	for name := range r.files {
		for _, g := range globs {
			if ok, _ := path.Match(g, name); ok {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (r *scriptedRoom) Files(_ context.Context, globs []string, _ int64) ([]exam.RoomFile, error) {
	var out []exam.RoomFile
	for _, name := range r.match(globs) {
		out = append(out, r.files[name])
	}
	return out, nil
}

func (r *scriptedRoom) Remove(_ context.Context, globs []string) error {
	for _, name := range r.match(globs) {
		delete(r.files, name)
	}
	return nil
}

func (r *scriptedRoom) Close(context.Context) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.living--
	return nil
}
