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
	people, places := map[string]int{}, map[core.EnvironmentID]int{}
	for _, l := range st.loads {
		people[l.Author] += l.Running
		places[l.Environment] += l.Running
	}
	type line struct {
		author string
		env    core.EnvironmentID
	}
	var out, late []turn
	lines := map[line][]store.Waiting{}
	byAge := func(a, b store.Waiting) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) }
	for _, w := range slices.SortedFunc(slices.Values(waiting), byAge) {
		if w.State == core.PromptRunning {
			out = append(out, turn{Waiting: w})
			continue
		}
		key := line{w.Author.Handle, w.Environment}
		lines[key] = append(lines[key], w)
	}
	for key, l := range lines { // held back by a limit that is reached already
		bound := limit.reached(l[0].Author, people[key.author], places[key.env])
		if bound == "" {
			continue
		}
		for _, w := range l {
			late = append(late, turn{w, bound})
		}
		delete(lines, key)
	}
	last := make(map[string]int64, len(st.served))
	for author, at := range st.served {
		if !at.IsZero() {
			last[author] = at.UnixNano()
		}
	}
	over := func(k line) int {
		if limit.reached(core.Author{}, people[k.author], places[k.env]) != "" {
			return 1
		}
		return 0
	}
	for now := int64(1) << 62; len(lines) > 0; now++ { // later than any time that is stored
		var next line
		found := false
		for key, l := range lines {
			if !found || cmp.Or(
				cmp.Compare(over(key), over(next)),
				cmp.Compare(people[key.author], people[next.author]),
				cmp.Compare(last[key.author], last[next.author]),
				cmp.Compare(places[key.env], places[next.env]),
				byAge(l[0], lines[next][0]),
			) < 0 {
				next, found = key, true
			}
		}
		out = append(out, turn{Waiting: lines[next][0]})
		people[next.author]++
		places[next.env]++
		last[next.author] = now
		if lines[next] = lines[next][1:]; len(lines[next]) == 0 {
			delete(lines, next)
		}
	}
	slices.SortFunc(late, func(a, b turn) int { return byAge(a.Waiting, b.Waiting) })
	return append(out, late...)
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
func (s *Service) tellPlaces(ctx context.Context, list []core.Session) error {
	if !slices.ContainsFunc(list, func(v core.Session) bool { return mayWait(v.State) && s.local(v.ID) == nil }) {
		return nil
	}
	turns, err := s.turns(ctx)
	if err != nil {
		return err
	}
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
		list[i].Reason = placeTold(v.Reason, what, fmt.Sprintf("place %d of %d", at+1, len(turns)), why)
	}
	return nil
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
