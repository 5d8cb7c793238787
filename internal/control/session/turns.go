package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Capacity knows whether the host has room for one more session.
type Capacity interface {
	// Enter keeps room for a session that is about to run, until leave is
	// called. lack says what is missing ("memory: needs ..."), and then nothing
	// is kept. A resumed session comes before everything that has not begun.
	Enter(ctx context.Context, id core.SessionID, resumed bool) (leave func(), lack string)
	// Lack says what a session that enters now would miss; "" is nothing.
	Lack(ctx context.Context, resumed bool) string
	// Waits says what a sandbox of this session or run waits for; "" is nothing.
	Waits(owner string) string
}

// turn is a prompt in the order in which prompts run.
type turn struct {
	store.Waiting
	bound string // the limit that its author or environment has reached; "" none
}

func (t turn) resumed() bool { return t.State == core.PromptRunning }

// bounds are limits of what runs at once; 0 is none.
type bounds struct{ person, environment int }

// standing is what turns are taken by.
type standing struct {
	loads  []store.Load
	served map[string]time.Time // when an author was last served
}

// inTurn orders what waits. A run that was begun goes on first. Then people
// take turns: who has least running, then who was served longest ago; among
// the prompts of one turn the environment with least running comes first, then
// the oldest. Each one is counted as running for those that come after it, so
// that places are told as they will be taken. What a limit holds back now comes
// after the rest.
func inTurn(waiting []store.Waiting, st standing, limit bounds) []turn {
	people, places := map[string]*asker{}, map[core.EnvironmentID]*int{}
	who := func(handle string) *asker {
		if people[handle] == nil {
			people[handle] = &asker{}
			if at := st.served[handle]; !at.IsZero() {
				people[handle].last = at.UnixNano()
			}
		}
		return people[handle]
	}
	where := func(env core.EnvironmentID) *int {
		if places[env] == nil {
			places[env] = new(int)
		}
		return places[env]
	}
	for _, l := range st.loads {
		who(l.Author).running += l.Running
		*where(l.Environment) += l.Running
	}
	var out, late []turn
	type key struct {
		author string
		env    core.EnvironmentID
	}
	lines := map[key]*line{}
	var open []*line
	for _, w := range slices.SortedFunc(slices.Values(waiting), byAge) {
		if w.State == core.PromptRunning {
			out = append(out, turn{Waiting: w})
			continue
		}
		k := key{w.Author.Handle, w.Environment}
		l := lines[k]
		if l == nil {
			l = &line{who: who(k.author), running: where(k.env)}
			l.bound = limit.reached(w.Author, l.who.running, *l.running)
			lines[k] = l
			if l.bound == "" {
				open = append(open, l)
			}
		}
		if l.bound != "" { // reached already
			late = append(late, turn{w, l.bound})
			continue
		}
		l.queue = append(l.queue, w)
	}
	for now := int64(1) << 62; len(open) > 0; now++ { // later than any time that is stored
		best := 0
		for i := range open {
			if open[i].before(open[best], limit) {
				best = i
			}
		}
		l := open[best]
		out = append(out, turn{Waiting: l.queue[0]})
		l.who.running++
		*l.running++
		l.who.last = now
		if l.queue = l.queue[1:]; len(l.queue) == 0 {
			open[best] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	return append(out, late...)
}

// asker is somebody whose prompts wait.
type asker struct {
	running int
	last    int64 // when one of theirs was last begun
}

// line is what one person asked for in one environment, oldest first.
type line struct {
	who     *asker
	running *int // in the environment
	queue   []store.Waiting
	bound   string
}

// before says whether the head of l runs before that of o. It is called often,
// and stops at the first difference.
func (l *line) before(o *line, limit bounds) bool {
	if a, b := limit.over(l), limit.over(o); a != b {
		return b
	}
	if l.who != o.who {
		if l.who.running != o.who.running {
			return l.who.running < o.who.running
		}
		if l.who.last != o.who.last {
			return l.who.last < o.who.last
		}
	}
	if *l.running != *o.running {
		return *l.running < *o.running
	}
	return byAge(l.queue[0], o.queue[0]) < 0
}

func byAge(a, b store.Waiting) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}

// over says whether one more of a line would be over a limit.
func (b bounds) over(l *line) bool {
	return b.person > 0 && l.who.running >= b.person || b.environment > 0 && *l.running >= b.environment
}

// reached says which limit so much running has reached.
func (b bounds) reached(by core.Author, person, environment int) string {
	switch {
	case b.person > 0 && person >= b.person:
		return fmt.Sprintf("%s has %s running (limit %d for each person)", nameOf(by), sessions(person), b.person)
	case b.environment > 0 && environment >= b.environment:
		return fmt.Sprintf("%s of its environment run (limit %d for each)", sessions(environment), b.environment)
	}
	return ""
}

func sessions(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}

// turns are the prompts that wait for a runner, in the order in which they run.
func (s *Service) turns(ctx context.Context) ([]turn, error) {
	waiting, err := s.db.ClaimablePrompts(ctx, s.opts.Instance, s.busy(), time.Now())
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	var st standing
	if st.loads, err = s.db.Loads(ctx); err != nil {
		return nil, err
	}
	if st.served, err = s.db.Served(ctx); err != nil {
		return nil, err
	}
	return inTurn(waiting, st, bounds{s.opts.PerUser, s.opts.PerEnvironment}), nil
}

// Queue is how many prompts wait for a runner, and how many sessions run here.
func (s *Service) Queue(ctx context.Context) (waiting, running int, err error) {
	list, err := s.turns(ctx)
	return len(list), len(s.current()), err
}

// tellPlaces puts into the reason of sessions that wait for a runner what they
// wait for and where they stand. It is worked out whenever somebody looks, and
// stored nowhere: a place changes with everybody else's.
func (s *Service) tellPlaces(ctx context.Context, list []core.Session) (map[core.SessionID]int, error) {
	s.tellWaits(list)
	if !slices.ContainsFunc(list, func(v core.Session) bool { return mayWait(v.State) && s.local(v.ID) == nil }) {
		return nil, nil
	}
	turns, err := s.turns(ctx)
	if err != nil {
		return nil, err
	}
	places := map[core.SessionID]int{}
	place := make(map[core.SessionID]int, len(turns))
	for i, t := range turns {
		place[t.Session] = i
	}
	running := len(s.current())
	lacks := map[bool]string{}
	for i, v := range list {
		at, ok := place[v.ID]
		if !ok || !mayWait(v.State) {
			continue
		}
		t := turns[at]
		places[v.ID] = at + 1
		what, why := "a runner", ""
		switch {
		case t.bound != "":
			why = t.bound
		case running >= s.opts.MaxRunning:
			why = fmt.Sprintf("%s run (limit %d)", sessions(running), s.opts.MaxRunning)
			if running == 1 {
				why = fmt.Sprintf("1 session runs (limit %d)", s.opts.MaxRunning)
			}
		case s.capacity != nil:
			lack, asked := lacks[t.resumed()]
			if !asked {
				lack = s.capacity.Lack(ctx, t.resumed())
				lacks[t.resumed()] = lack
			}
			if lack != "" {
				what = lack
			}
		}
		told := fmt.Sprintf("place %d of %d", at+1, len(turns))
		if len(turns) >= store.MaxWaiting {
			told += " or more"
		}
		list[i].Reason = placeTold(v.Reason, what, told, why)
	}
	return places, nil
}

// tellWaits puts into the reason of sessions that run here that a sandbox of
// theirs, or a room of their proof, waits for the host.
func (s *Service) tellWaits(list []core.Session) {
	if s.capacity == nil {
		return
	}
	for i, v := range list {
		r := s.local(v.ID)
		if r == nil || !mayWait(v.State) {
			continue
		}
		for _, owner := range []string{string(v.ID), string(r.job.Run.ID)} {
			if what := s.capacity.Waits(owner); what != "" {
				list[i].Reason += "; a sandbox of it waits for " + what
				break
			}
		}
	}
}

// mayWait is every state in which a prompt may wait for a runner: queued, or
// begun by a runner that died.
func mayWait(s core.SessionState) bool {
	return s == core.SessionQueued || s == core.SessionStarting || s == core.SessionRunning
}

// waitsForRunner is the reason that is stored; the place is told beside it.
const waitsForRunner = "waits for a runner"

// placeTold joins the stored reason of a session and where it stands.
func placeTold(stored, what, place, why string) string {
	told := "waits for " + what + ": " + place
	if why != "" {
		told += "; " + why
	}
	switch before, ok := strings.CutSuffix(stored, waitsForRunner); {
	case ok:
		return before + told
	case stored == "":
		return told
	}
	return stored + "; " + told
}
