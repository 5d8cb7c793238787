package session

import (
	"errors"
	"fmt"
	"testing"

	"drydock/internal/core"
	"drydock/internal/store"
)

// What becomes of a run, for every reason its context ended and everything an
// executor may return.
func TestJudge(t *testing.T) {
	failed := core.E("x", core.Unavailable, nil, "no")
	spentErr := core.E("x", core.Exhausted, nil, "spent")
	lost := fmt.Errorf("write: %w", store.ErrLeaseLost)
	ended := func(s core.RunState) result { return result{ending: Ending{RunState: s}} }
	for _, c := range []struct {
		name  string
		cause error
		res   result
		spent bool
		want  verdict
		state core.RunState
		wait  string
	}{
		{"done", nil, ended(core.RunDone), false, finish, core.RunDone, ""},
		{"done, over budget by its last call", nil, ended(core.RunDone), true, finish, core.RunDone, ""},
		{"done, though stopped", ErrStopped, ended(core.RunDone), false, finish, core.RunDone, ""},
		{"done, though shut down", ErrShutdown, ended(core.RunHandedOver), false, finish, core.RunHandedOver, ""},
		{"done, though over its time", ErrBudget, ended(core.RunDone), true, finish, core.RunDone, ""},
		{"done, but somebody else has it", ErrLeaseLost, ended(core.RunDone), false, leave, "", ""},
		{"a write was refused", nil, result{err: lost}, false, leave, "", ""},
		{"stopped", ErrStopped, result{err: ErrStopped}, false, finish, core.RunStopped, ""},
		{"stopped, told as failed", ErrStopped, ended(core.RunFailed), false, finish, core.RunStopped, ""},
		{"stopped, told as waiting", ErrStopped, ended(core.RunWaiting), true, finish, core.RunStopped, ""},
		{"shut down", ErrShutdown, result{err: ErrShutdown}, false, leave, "", ""},
		{"shut down, told as failed", ErrShutdown, ended(core.RunFailed), false, leave, "", ""},
		{"shut down, told as stopped", ErrShutdown, ended(core.RunStopped), false, leave, "", ""},
		{"over its time", ErrBudget, result{err: ErrBudget}, true, park, "", waitBudget},
		{"over its time, raised since", ErrBudget, result{err: ErrBudget}, false, park, "", waitBudget},
		{"no money", nil, result{err: spentErr}, true, park, "", waitBudget},
		{"no money, told as waiting", nil, ended(core.RunWaiting), true, park, core.RunWaiting, waitBudget},
		{"no money, raised since", nil, result{err: fmt.Errorf("turn 3: %w", core.E("x", core.Exhausted, ErrBudget, "spent"))}, false, park, "", waitBudget},
		{"another limit", nil, result{err: spentErr}, false, finish, core.RunFailed, ""},
		{"waits for a person", nil, ended(core.RunWaiting), false, park, core.RunWaiting, waitPerson},
		{"failed", nil, ended(core.RunFailed), false, finish, core.RunFailed, ""},
		{"failed, over budget", nil, result{err: failed}, true, finish, core.RunFailed, ""},
		{"an error", nil, result{err: failed}, false, finish, core.RunFailed, ""},
		{"stopped by itself", nil, ended(core.RunStopped), false, finish, core.RunStopped, ""},
		{"nothing said", nil, result{}, false, finish, core.RunFailed, ""},
		{"still running", nil, ended(core.RunRunning), false, finish, core.RunFailed, ""},
	} {
		v, ending, wait := judge(c.cause, c.res, c.spent)
		if v != c.want || wait != c.wait || (v == finish && ending.RunState != c.state) {
			t.Errorf("%s: %v %s %q, want %v %s %q", c.name, v, ending.RunState, wait, c.want, c.state, c.wait)
		}
		if v == finish && ending.RunState == core.RunFailed && c.res.err != nil && ending.Failure == nil {
			t.Errorf("%s: no failure is told", c.name)
		}
	}
}

func TestCausesHaveTheKindCanceled(t *testing.T) {
	for _, err := range []error{ErrStopped, ErrBudget, ErrShutdown, ErrLeaseLost} {
		wrapped := fmt.Errorf("tool: %w", err)
		if core.KindOf(wrapped) != core.Canceled || !errors.Is(wrapped, err) {
			t.Errorf("%v: kind %v", err, core.KindOf(wrapped))
		}
	}
	if errors.Is(ErrStopped, ErrBudget) {
		t.Error("causes are told apart")
	}
}

func TestFirstLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "\n \n a b \nc": "a b", "äöüäöüäöüäöü": "äöüäöüä..."} {
		if got := firstLine(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
