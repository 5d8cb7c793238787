// Package tool holds the tools of the built-in agent: run, process, read,
// edit, patch, write, search, list, picture, finish.
//
// A tool validates what the model wrote, does it in the sandbox through Box,
// and answers in words and pictures. What the model can put right comes back
// as a failed Result; only what it cannot (the sandbox is away, the context is
// cancelled) is an error. Long outputs are cut, head and tail kept, with a
// pointer to the whole. Paths are taken relative to the workspace; they are
// not confined, the sandbox is the border.
//
// A call that may have run before a restart is marked Again: commands find
// their process by key, edits accept that they are already there.
//
// A Set is safe for use by many goroutines.
//
//	set := tool.New(tool.Deps{Box: box}, tool.Options{})
//	res, err := set.Do(ctx, tool.Call{ID: "1", Key: "att_x/1", Name: "run", Input: json.RawMessage(`{"command":"ls"}`)})
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// Deps of a Set. Without Pictures the tool picture is not offered. Gate is
// asked before anything that may write; it waits or refuses while the
// repository catches up, and may be nil.
type Deps struct {
	Box      Box
	Pictures Pictures
	Gate     func(ctx context.Context) error
}

// Options of a Set; zero values take the defaults.
type Options struct {
	Root       string        // /workspace
	Timeout    time.Duration // of a command, default 2 min
	MaxTimeout time.Duration // what the model may ask for, default 30 min
	Head, Tail int           // bytes kept of a long output, default 6 KiB and 18 KiB
	Settle     time.Duration // how long a background command is watched for an early end, default 2 s
}

// Call is one tool call of a model.
type Call struct {
	ID    string
	Key   string // names the call for good, so that it is not done twice
	Again bool   // it may have been done before
	Name  string
	Input json.RawMessage
	Bad   string // what the model wrote, when it is no JSON object
}

// Result of a call. Content is for the model, Output for people.
type Result struct {
	Content  []model.Block
	Output   string
	Cut      bool
	Failed   bool
	ExitCode *int
	Wrote    bool // files were changed, or a command may have
	Picture  *core.PictureData
	Finish   *Finish
}

// Finish is how the agent ends its work.
type Finish struct {
	Verdict string   `json:"verdict"` // done, cannot, answer
	Summary string   `json:"summary"`
	Claims  []string `json:"claims,omitempty"`
}

// Set is the tools for one sandbox.
type Set struct {
	deps Deps
	opts Options
}

// New makes a Set.
func New(deps Deps, opts Options) *Set {
	if opts.Root == "" {
		opts.Root = "/workspace"
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 2 * time.Minute
	}
	if opts.MaxTimeout <= 0 {
		opts.MaxTimeout = 30 * time.Minute
	}
	if opts.Settle <= 0 {
		opts.Settle = 2 * time.Second
	}
	if opts.Head <= 0 {
		opts.Head = 6 << 10
	}
	if opts.Tail <= 0 {
		opts.Tail = 18 << 10
	}
	return &Set{deps: deps, opts: opts}
}

// handler does one tool.
type handler struct {
	tool   model.Tool
	writes bool
	title  func(s *Set, raw json.RawMessage) string
	do     func(s *Set, ctx context.Context, c Call) (Result, error)
}

func (s *Set) handlers() []handler {
	list := []handler{
		{runTool, true, titleOf(runTitle), (*Set).run},
		{processTool, false, titleOf(processTitle), (*Set).process},
		{readTool, false, titleOf(readTitle), (*Set).read},
		{editTool, true, titleOf(editTitle), (*Set).edit},
		{patchTool, true, titleOf(patchTitle), (*Set).patch},
		{writeTool, true, titleOf(writeTitle), (*Set).write},
		{searchTool, false, titleOf(searchTitle), (*Set).search},
		{listTool, false, titleOf(listTitle), (*Set).list},
		{finishTool, false, titleOf(finishTitle), (*Set).finish},
	}
	if s.deps.Pictures != nil {
		list = append(list, handler{pictureTool, false, titleOf(pictureTitle), (*Set).picture})
	}
	return list
}

func (s *Set) find(name string) (handler, bool) {
	for _, h := range s.handlers() {
		if h.tool.Name == name {
			return h, true
		}
	}
	return handler{}, false
}

// Offer is what the model is told it can call.
func (s *Set) Offer() []model.Tool {
	var out []model.Tool
	for _, h := range s.handlers() {
		out = append(out, h.tool)
	}
	return out
}

// Title says in one line for people what a call does.
func (s *Set) Title(name string, input json.RawMessage) string {
	if h, ok := s.find(name); ok {
		return oneLine(h.title(s, input), 160)
	}
	return oneLine(name, 160)
}

// Do performs a call. An error means that the sandbox or the caller is gone,
// not that the model did something wrong.
func (s *Set) Do(ctx context.Context, c Call) (Result, error) {
	h, ok := s.find(c.Name)
	if !ok {
		var names []string
		for _, t := range s.Offer() {
			names = append(names, t.Name)
		}
		return failed("there is no tool %q; there are %s", c.Name, strings.Join(names, ", ")), nil
	}
	if c.Bad != "" {
		return failed("the input of %s is not a JSON object, so nothing was done. Send it again as valid JSON. What came: %s", c.Name, clip(c.Bad, 400)), nil
	}
	if h.writes && s.deps.Gate != nil {
		if err := s.deps.Gate(ctx); err != nil {
			if ctx.Err() != nil {
				return Result{}, context.Cause(ctx)
			}
			return failed("nothing can be changed yet: %s. Read for now, and try again shortly", err), nil
		}
	}
	res, err := h.do(s, ctx, c)
	if err == nil {
		return res, nil
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if told, ok := errors.AsType[*tellError](err); ok {
		return failed("%s", told.text), nil
	}
	switch core.KindOf(err) {
	case core.Invalid, core.Denied, core.NotFound, core.Conflict, core.Exhausted:
		return failed("%s", err), nil
	}
	return Result{}, err
}

// tellError is for the model.
type tellError struct{ text string }

func (e *tellError) Error() string { return e.text }

func tell(format string, args ...any) error { return &tellError{fmt.Sprintf(format, args...)} }

func failed(format string, args ...any) Result {
	r := text(fmt.Sprintf(format, args...))
	r.Failed = true
	return r
}

func text(s string) Result {
	return Result{Content: []model.Block{{Kind: model.Text, Text: s}}, Output: s}
}

// decode reads a tool's input strictly, so that a misspelt field is told
// instead of ignored.
func decode(c Call, out any) error {
	raw := c.Input
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage(`{}`)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		if err == io.EOF {
			return nil
		}
		return tell("the input of %s does not fit its schema: %s", c.Name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// number takes 10 and "10"; models write both.
type number int

func (n *number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int(f)) {
		return fmt.Errorf("%s is not a whole number", clip(string(b), 40))
	}
	*n = number(f)
	return nil
}

// abs makes a path absolute, relative to the workspace.
func (s *Set) abs(p string) string {
	p = strings.TrimSpace(p)
	if p == "" {
		return s.opts.Root
	}
	if !path.IsAbs(p) {
		p = path.Join(s.opts.Root, p)
	}
	return path.Clean(p)
}

// short is how a path is shown: relative where it is inside the workspace.
func (s *Set) short(p string) string {
	if p == s.opts.Root {
		return "."
	}
	if rest, ok := strings.CutPrefix(p, s.opts.Root+"/"); ok {
		return rest
	}
	return p
}

// titleOf reads the input leniently: a title is shown before it is checked.
func titleOf[T any](f func(s *Set, in T) string) func(*Set, json.RawMessage) string {
	return func(s *Set, raw json.RawMessage) string {
		var in T
		_ = json.Unmarshal(raw, &in)
		return f(s, in)
	}
}

func (s *Set) finish(_ context.Context, c Call) (Result, error) {
	var in Finish
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	switch in.Verdict {
	case "done", "cannot", "answer":
	default:
		return Result{}, tell("verdict %q is not one of done, cannot, answer", in.Verdict)
	}
	if strings.TrimSpace(in.Summary) == "" {
		return Result{}, tell("finish needs a summary")
	}
	r := text("finished: " + in.Verdict)
	r.Output = in.Summary
	r.Finish = &in
	return r, nil
}

func finishTitle(_ *Set, in Finish) string { return "finish: " + in.Verdict }
