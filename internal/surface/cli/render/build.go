package render

import (
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
)

// Build shows the events of a build: each phase with its duration, services,
// and on failure the command that failed with its output.
type Build struct {
	screen
	phase   string
	phaseAt time.Time
	newest  string   // last line of output, for the bottom line
	tail    []string // end of the output of the phase under way
	began   time.Time
	width   int
}

// NewBuild makes one.
func NewBuild(o Options) *Build {
	return &Build{screen: screen{o: o.withDefaults()}, width: 20}
}

// Err is the first error of the writer.
func (b *Build) Err() error { return b.err }

// Close takes the bottom line away.
func (b *Build) Close() { b.clear() }

// Tick redraws the bottom line.
func (b *Build) Tick() {
	if b.phase == "" {
		b.status("building", b.began)
		return
	}
	text := b.phase
	if b.newest != "" {
		text += b.o.Style.Dot() + b.newest
	}
	b.status(text, b.phaseAt)
}

// keepTail is how much output is kept in case it explains a failure.
const keepTail = 30

// Event shows one.
func (b *Build) Event(ev core.Event) {
	if b.began.IsZero() {
		b.began = ev.Time
	}
	switch ev.Kind {
	case core.EventBuildState:
		b.state(Decode[core.BuildData](ev), ev.Time)
	case core.EventPhase:
		b.phaseDone(Decode[core.Phase](ev), ev.Time)
	case core.EventLog:
		b.log(Decode[core.LogData](ev), ev.Time)
	case core.EventService:
		b.service(Decode[core.ServiceData](ev))
	case core.EventWarning:
		d := Decode[core.WarningData](ev)
		b.line(2, b.o.Style.Warn()+" "+Line(d.Message))
		if d.Hint != "" {
			b.para(4, Clean(d.Hint), b.o.Style.Dim)
		}
	case core.EventNetworkDenied:
		d := Decode[core.DeniedData](ev)
		b.line(2, b.o.Style.Warn()+fmt.Sprintf(" network: %s:%d denied%s", Line(d.Host), d.Port, reason(d.Reason)))
		if d.Hint != "" {
			b.para(4, Clean(d.Hint), b.o.Style.Dim)
		}
	}
	b.Tick()
}

func (b *Build) log(d core.LogData, at time.Time) {
	if name := Words(d.Phase); name != b.phase && name != "" {
		b.phase, b.phaseAt, b.tail = name, at, nil
	}
	for _, l := range splitLines(strings.TrimRight(Clean(d.Text), "\n")) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		b.newest = Line(l)
		b.tail = append(b.tail, l)
	}
	if n := len(b.tail); n > keepTail {
		b.tail = b.tail[n-keepTail:]
	}
}

func (b *Build) phaseDone(d core.Phase, at time.Time) {
	st := b.o.Style
	name := Words(d.Name)
	if d.Duration == 0 && !d.Cached { // it begins
		b.phase, b.phaseAt, b.newest, b.tail = name, at, Line(d.Detail), nil
		return
	}
	took := Duration(d.Duration)
	if d.Cached {
		took = "cached"
	}
	line := st.Good() + " " + Pad(name, b.width) + st.Dim("  "+Pad(took, 10))
	if d.Detail != "" {
		line += st.Dim("  " + Cut(Line(d.Detail), b.o.Width-b.width-18))
	}
	b.line(2, strings.TrimRight(line, " "))
	b.phase, b.newest, b.tail = "", "", nil
}

func (b *Build) service(d core.ServiceData) {
	st := b.o.Style
	switch d.State {
	case "ready":
		b.line(4, st.Dim("service "+Line(d.Service)+" ready"))
	case "failed":
		b.line(2, st.Bad()+" service "+Line(d.Service)+" "+st.Red("failed")+reason(d.Detail))
	}
}

func (b *Build) state(d core.BuildData, at time.Time) {
	st := b.o.Style
	took := ""
	if at.After(b.began) {
		took = " in " + Duration(at.Sub(b.began))
	}
	name := Line(b.o.Environment)
	if name == "" {
		name = "environment"
	}
	switch d.State {
	case core.BuildRunning:
		b.line(0, st.Bold("Building "+name))
		return
	case core.BuildDone:
		b.line(0, st.Good()+" "+st.Green(name+" is ready")+took+st.Dim(st.Dot()+Line(string(d.Snapshot))))
		if !strings.HasPrefix(name, "env_") {
			b.line(2, st.Dim("start a session with: ")+st.Cyan(`drydock run -e `+name+` "TASK"`))
		}
	case core.BuildFailed:
		b.failed(d, took)
	case core.BuildStopped:
		b.line(0, st.Warn()+" the build was stopped"+took)
	}
	b.phase = ""
}

func (b *Build) failed(d core.BuildData, took string) {
	st := b.o.Style
	where := ""
	if b.phase != "" {
		where = " in phase " + b.phase
	}
	b.line(0, st.Bad()+" "+st.Red("build failed"+where)+took)
	f := core.Failure{Message: "no reason given"}
	if d.Failure != nil {
		f = *d.Failure
	}
	if f.Output == "" {
		f.Output = strings.Join(b.tail, "\n")
	}
	failure(&b.screen, f, b.o.Full)
	b.line(2, st.Dim("the last good build, if there is one, stays in use"))
}
