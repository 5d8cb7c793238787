package check

import (
	"fmt"
	"slices"
	"strconv"
)

// collector gathers cases under their identities.
type collector struct {
	opts   Options
	report Report
	index  map[ID]int
	raws   map[ID]string // raw identity behind a normalised one
	extra  map[ID]map[string]ID
	full   bool
}

func newCollector(format string, o Options) *collector {
	return &collector{
		opts:   o,
		report: Report{Format: format},
		index:  map[ID]int{},
		raws:   map[ID]string{},
		extra:  map[ID]map[string]ID{},
	}
}

// entry is a case as reported, before its identity is made.
type entry struct {
	suite, class, name string
	Case
}

// add enters one try of a case. A case of the same raw identity becomes
// another try; a different raw name that only normalises to the same identity
// gets a number.
func (c *collector) add(e entry) *Case {
	e.suite = cut(e.suite, maxName)
	one := e.Case
	one.ID = ID{
		Check: c.opts.Check,
		Suite: Normalise(relative(c.opts.Root, e.suite)),
		Class: Normalise(e.class),
		Name:  Normalise(e.name),
	}
	if one.ID.Name == "" {
		one.ID.Name = "(no name)"
	}
	raw := fold(e.suite) + "\x00" + fold(e.class) + "\x00" + fold(e.name)
	one.ID = c.distinct(one.ID, raw)
	if f := cut(fold(e.name), maxName); f != one.ID.Name {
		one.Raw = f
	}
	one.File = relative(c.opts.Root, one.File)
	one.Message = cutMiddle(one.Message, maxText)
	if at, ok := c.index[one.ID]; ok {
		merge(&c.report.Cases[at], one)
		return &c.report.Cases[at]
	}
	if len(c.report.Cases) >= maxCases {
		if !c.full {
			c.full = true
			c.partial("more than %d cases; the rest was not read", maxCases)
		}
		return &one
	}
	c.index[one.ID] = len(c.report.Cases)
	c.report.Cases = append(c.report.Cases, one)
	return &c.report.Cases[len(c.report.Cases)-1]
}

func (c *collector) distinct(id ID, raw string) ID {
	first, seen := c.raws[id]
	if !seen {
		c.raws[id] = raw
		return id
	}
	if first == raw {
		return id
	}
	more := c.extra[id]
	if more == nil {
		more = map[string]ID{}
		c.extra[id] = more
	}
	if other, ok := more[raw]; ok {
		return other
	}
	other := id
	other.Name += " #" + strconv.Itoa(len(more)+2)
	if len(c.report.Cases) < maxCases {
		more[raw] = other
	}
	return other
}

// rank orders statuses from good to bad. Fail is above Error, since an
// assertion that said no is a judgement and an error is the lack of one.
func rank(s Status) int {
	return slices.Index([]Status{Missing, Pass, Todo, Skip, Error, Fail}, s)
}

func merge(into *Case, next Case) {
	if len(into.Tries) == 0 {
		into.Tries = []Status{into.Status}
	}
	if len(next.Tries) > 0 {
		into.Tries = append(into.Tries, next.Tries...)
	} else {
		into.Tries = append(into.Tries, next.Status)
	}
	if len(into.Tries) > 64 {
		into.Tries = into.Tries[:64]
	}
	into.Duration += next.Duration
	into.Group = into.Group || next.Group
	if rank(next.Status) > rank(into.Status) {
		into.Status, into.Fault, into.Derived = next.Status, next.Fault, next.Derived
		into.Message, into.File, into.Line = next.Message, next.File, next.Line
	}
}

func (c *collector) fault(format string, args ...any) {
	if len(c.report.Faults) < 50 {
		c.report.Faults = append(c.report.Faults, cut(fold(fmt.Sprintf(format, args...)), 500))
	}
}

func (c *collector) partial(format string, args ...any) {
	c.report.Partial = true
	c.fault(format, args...)
}

// Merge joins the reports of several files of one check. A case that occurs
// in several of them becomes one case with several tries.
func Merge(reports ...Report) Report {
	var out Report
	index := map[ID]int{}
	for _, r := range reports {
		if out.Format == "" {
			out.Format = r.Format
		}
		out.Partial = out.Partial || r.Partial
		out.Cached = out.Cached || r.Cached
		for _, f := range r.Faults {
			if len(out.Faults) < 50 {
				out.Faults = append(out.Faults, f)
			}
		}
		for _, one := range r.Cases {
			if at, ok := index[one.ID]; ok {
				merge(&out.Cases[at], one)
				continue
			}
			if len(out.Cases) >= maxCases {
				out.Partial = true
				continue
			}
			index[one.ID] = len(out.Cases)
			out.Cases = append(out.Cases, one)
		}
	}
	return out
}
