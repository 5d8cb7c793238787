package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/model"
	"drydock/internal/strictyaml"
)

// File is one parsed YAML file of scripts. It is read-only.
type File struct {
	Scripts []*Script `yaml:"scripts"`
}

// Script answers the requests of one task.
type Script struct {
	Name    string    `yaml:"name"`
	When    When      `yaml:"when,omitempty"`
	Usage   *Usage    `yaml:"usage,omitempty"`
	Summary string    `yaml:"summary,omitempty"`
	Delay   Duration  `yaml:"delay,omitempty"`
	Answers []*Answer `yaml:"answers"`
	labels  map[string]int
}

// When says which task a script answers.
type When struct {
	Prompt  *Text `yaml:"prompt,omitempty"`
	Message *Text `yaml:"message,omitempty"`
	Seed    int64 `yaml:"seed,omitempty"` // of the request; 0 fits any
}

// Text is a condition on a text; all that is given must hold.
type Text struct {
	Contains    Words    `yaml:"contains,omitempty"`
	NotContains Words    `yaml:"not_contains,omitempty"`
	Regex       *Pattern `yaml:"regex,omitempty"`
}

// Expect is a condition on what the agent sent.
type Expect struct {
	In          string   `yaml:"in,omitempty"` // result (default), note, prompt, message, system
	Tool        string   `yaml:"tool,omitempty"`
	Failed      *bool    `yaml:"failed,omitempty"`
	Image       *bool    `yaml:"image,omitempty"`
	Contains    Words    `yaml:"contains,omitempty"`
	NotContains Words    `yaml:"not_contains,omitempty"`
	Regex       *Pattern `yaml:"regex,omitempty"`
}

// Answer is one turn of the model.
type Answer struct {
	Label   string              `yaml:"label,omitempty"`
	If      []Expect            `yaml:"if,omitempty"`
	Expect  []Expect            `yaml:"expect,omitempty"`
	Capture map[string]*Pattern `yaml:"capture,omitempty"`
	Think   string              `yaml:"think,omitempty"`
	Say     string              `yaml:"say,omitempty"`
	Calls   []Call              `yaml:"calls,omitempty"`
	Stop    string              `yaml:"stop,omitempty"` // max_tokens
	Fault   *Fault              `yaml:"fault,omitempty"`
	Repeat  *Repeat             `yaml:"repeat,omitempty"`
	Usage   *Usage              `yaml:"usage,omitempty"`
	Delay   Duration            `yaml:"delay,omitempty"`
	Pace    Duration            `yaml:"pace,omitempty"` // between pieces of text
}

// Call is one tool call of an answer.
type Call struct {
	Tool  string         `yaml:"tool"`
	Input map[string]any `yaml:"input,omitempty"`
	Raw   string         `yaml:"raw,omitempty"` // instead of input: what is no JSON
}

// Fault makes a try fail before the answer is given.
type Fault struct {
	Kind       string   `yaml:"kind"`
	Times      int      `yaml:"times,omitempty"` // tries that fail; default 1
	RetryAfter Duration `yaml:"retry_after,omitempty"`
	Above      int      `yaml:"above,omitempty"` // only when the messages hold more bytes
}

// Repeat goes back after an answer until what came of it satisfies Until.
type Repeat struct {
	From  string   `yaml:"from,omitempty"` // label; default this answer
	Until []Expect `yaml:"until"`
	Max   int      `yaml:"max"`
}

// Usage is reported as if a model had counted.
type Usage struct {
	Input      int64 `yaml:"input,omitempty"`
	CacheRead  int64 `yaml:"cache_read,omitempty"`
	CacheWrite int64 `yaml:"cache_write,omitempty"`
	Output     int64 `yaml:"output,omitempty"`
}

// Words is one text or a list of them.
type Words []string

// UnmarshalYAML implements the YAML library's interface.
func (w *Words) UnmarshalYAML(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*w = Words{one}
		return nil
	}
	var many []string
	if err := decode(&many); err != nil {
		return err
	}
	*w = many
	return nil
}

// Pattern is a regular expression (RE2).
type Pattern struct {
	source string
	*regexp.Regexp
}

// UnmarshalYAML implements the YAML library's interface. Parse compiles, so
// that a mistake is told with its place.
func (p *Pattern) UnmarshalYAML(decode func(any) error) error { return decode(&p.source) }

// Duration is written "250ms".
type Duration struct {
	source string
	time.Duration
}

// UnmarshalYAML implements the YAML library's interface.
func (d *Duration) UnmarshalYAML(decode func(any) error) error { return decode(&d.source) }

// faults are the endings that a script can simulate.
var faults = map[string]model.Outcome{
	"overloaded": model.Overloaded, "rate_limited": model.RateLimited, "unreachable": model.Unreachable,
	"truncated": model.Truncated, "empty": model.Empty, "refused": model.Refused,
	"context_overflow": model.ContextOverflow, "rejected": model.Rejected,
}

var (
	nameWord = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	variable = regexp.MustCompile(`\$\{([a-z][a-z0-9_]*)\}`)
)

// Limits of a file.
const (
	maxScripts = 1000
	maxAnswers = 2000
	maxRepeat  = 1000
)

// Parse reads a file of scripts strictly; file names it in errors, which show
// the line with a caret.
func Parse(file string, data []byte) (*File, error) {
	var f File
	if err := strictyaml.Decode(file, data, &f); err != nil {
		return nil, err
	}
	c := checker{file: file, data: data}
	if len(f.Scripts) == 0 || len(f.Scripts) > maxScripts {
		return nil, core.E("scripted.parse", core.Invalid, nil, "%s holds %d scripts; 1 to %d are needed", file, len(f.Scripts), maxScripts)
	}
	names := map[string]bool{}
	for i, s := range f.Scripts {
		at := fmt.Sprintf("$.scripts[%d]", i)
		if s == nil {
			return nil, c.err(at, "is empty")
		}
		if s.Name == "" {
			return nil, c.err(at, "needs a name")
		}
		if !nameWord.MatchString(s.Name) {
			return nil, c.err(at+".name", "name %q is not of lower case letters, digits, dot, dash", s.Name)
		}
		if names[s.Name] {
			return nil, c.err(at+".name", "script %q is there twice", s.Name)
		}
		names[s.Name] = true
		if err := c.script(at, s); err != nil {
			return nil, err
		}
	}
	return &f, nil
}

type checker struct {
	file string
	data []byte
}

func (c checker) err(path, format string, args ...any) error {
	return strictyaml.At(c.file, c.data, path, format, args...)
}

func (c checker) pattern(at string, p *Pattern) error {
	if p == nil {
		return nil
	}
	var err error
	if p.Regexp, err = regexp.Compile(p.source); err != nil {
		return c.err(at, "%s", err)
	}
	return nil
}

func (c checker) duration(at string, d *Duration) error {
	if d.source == "" {
		return nil
	}
	var err error
	if d.Duration, err = time.ParseDuration(d.source); err != nil || d.Duration < 0 || d.Duration > time.Hour {
		return c.err(at, "%q is no duration between 0 and 1h, such as 250ms", d.source)
	}
	return nil
}

func (c checker) script(at string, s *Script) error {
	for name, t := range map[string]*Text{"prompt": s.When.Prompt, "message": s.When.Message} {
		if t != nil {
			if err := c.pattern(at+".when."+name+".regex", t.Regex); err != nil {
				return err
			}
		}
	}
	if err := c.duration(at+".delay", &s.Delay); err != nil {
		return err
	}
	if len(s.Answers) == 0 || len(s.Answers) > maxAnswers {
		return c.err(at, "script %q has %d answers; 1 to %d are needed", s.Name, len(s.Answers), maxAnswers)
	}
	s.labels = map[string]int{}
	captured := map[string]bool{}
	for i, a := range s.Answers {
		path := fmt.Sprintf("%s.answers[%d]", at, i)
		if a == nil {
			return c.err(path, "is empty")
		}
		if a.Label != "" {
			if _, ok := s.labels[a.Label]; ok {
				return c.err(path+".label", "label %q is there twice", a.Label)
			}
			s.labels[a.Label] = i
		}
		for name, p := range a.Capture {
			if p == nil {
				return c.err(path+".capture", "%s needs a regular expression", name)
			}
			if err := c.pattern(path+".capture."+name, p); err != nil {
				return err
			}
			if !variable.MatchString("${" + name + "}") {
				return c.err(path+".capture", "%q is not a name of lower case letters, digits, underscore", name)
			}
			captured[name] = true
		}
	}
	for i, a := range s.Answers {
		if err := c.answer(fmt.Sprintf("%s.answers[%d]", at, i), s, i, a, captured); err != nil {
			return err
		}
	}
	return nil
}

func (c checker) answer(at string, s *Script, n int, a *Answer, captured map[string]bool) error {
	if a.Say == "" && a.Think == "" && len(a.Calls) == 0 && a.Fault == nil {
		return c.err(at, "does nothing: give say, calls or fault")
	}
	if a.Stop != "" && a.Stop != "max_tokens" {
		return c.err(at+".stop", "stop %q is not known; there is max_tokens", a.Stop)
	}
	for name, d := range map[string]*Duration{"delay": &a.Delay, "pace": &a.Pace} {
		if err := c.duration(at+"."+name, d); err != nil {
			return err
		}
	}
	for name, list := range map[string][]Expect{"expect": a.Expect, "if": a.If} {
		if err := c.expects(at+"."+name, list); err != nil {
			return err
		}
	}
	for i, call := range a.Calls {
		path := fmt.Sprintf("%s.calls[%d]", at, i)
		if call.Tool == "" {
			return c.err(path, "needs a tool")
		}
		if call.Raw != "" && call.Input != nil {
			return c.err(path, "has input and raw; give one")
		}
		if _, err := json.Marshal(call.Input); err != nil {
			return c.err(path, "input cannot be JSON: %v", err)
		}
	}
	if f := a.Fault; f != nil {
		if _, ok := faults[f.Kind]; !ok {
			return c.err(at+".fault", "kind %q is not known", f.Kind)
		}
		if err := c.duration(at+".fault.retry_after", &f.RetryAfter); err != nil {
			return err
		}
		if f.Times < 0 || f.Above < 0 {
			return c.err(at+".fault", "times and above cannot be negative")
		}
	}
	if r := a.Repeat; r != nil {
		to, ok := s.labels[r.From]
		if r.From != "" && (!ok || to > n) {
			return c.err(at+".repeat", "from %q is no label of this answer or one before it", r.From)
		}
		if r.Max < 1 || r.Max > maxRepeat || len(r.Until) == 0 {
			return c.err(at+".repeat", "needs until, and max between 1 and %d", maxRepeat)
		}
		if err := c.expects(at+".repeat.until", r.Until); err != nil {
			return err
		}
	}
	raw, _ := json.Marshal(a.Calls)
	for _, m := range variable.FindAllStringSubmatch(a.Say+a.Think+string(raw), -1) {
		if !captured[m[1]] {
			return c.err(at, "${%s} is captured nowhere in this script", m[1])
		}
	}
	return nil
}

func (c checker) expects(at string, list []Expect) error {
	for i, e := range list {
		if err := c.pattern(fmt.Sprintf("%s[%d].regex", at, i), e.Regex); err != nil {
			return err
		}
		switch e.In {
		case "", "result":
		case "note", "prompt", "message", "system":
			if e.Tool != "" || e.Failed != nil || e.Image != nil {
				return c.err(fmt.Sprintf("%s[%d]", at, i), "tool, failed and image belong to results, not to %q", e.In)
			}
		default:
			return c.err(fmt.Sprintf("%s[%d]", at, i), "in %q is not known; there are result, note, prompt, message, system", e.In)
		}
	}
	return nil
}

func (e Expect) String() string {
	var parts []string
	where := "a result"
	switch {
	case e.In != "" && e.In != "result":
		where = "the " + e.In
	case e.Tool != "":
		where = "a result of " + e.Tool
	}
	if e.Failed != nil {
		parts = append(parts, fmt.Sprintf("failed=%v", *e.Failed))
	}
	if e.Image != nil {
		parts = append(parts, fmt.Sprintf("image=%v", *e.Image))
	}
	for _, w := range e.Contains {
		parts = append(parts, fmt.Sprintf("contains %q", w))
	}
	for _, w := range e.NotContains {
		parts = append(parts, fmt.Sprintf("does not contain %q", w))
	}
	if e.Regex != nil {
		parts = append(parts, fmt.Sprintf("matches %q", e.Regex.String()))
	}
	if len(parts) == 0 {
		return where
	}
	return where + " that " + strings.Join(parts, " and ")
}
