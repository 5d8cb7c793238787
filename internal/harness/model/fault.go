package model

import (
	"errors"
	"fmt"
	"time"

	"drydock/internal/core"
)

// Retry says whether the same request may be sent again.
type Retry uint8

const (
	RetryByOutcome Retry = iota // the outcome decides
	RetryYes                    // the provider said so
	RetryNo
)

// Fault is why one request did not end well. Message is the provider's own
// words, bounded, without keys.
type Fault struct {
	Outcome Outcome
	Status  int // HTTP status, 0 without one
	Message string
	Retry   Retry
	After   time.Duration // the provider asked to wait this long; 0 when it did not
	Err     error         // cause, may be nil
}

func (f *Fault) Error() string {
	switch {
	case f.Status != 0 && f.Message != "":
		return fmt.Sprintf("%s (HTTP %d): %s", f.Outcome, f.Status, f.Message)
	case f.Status != 0:
		return fmt.Sprintf("%s (HTTP %d)", f.Outcome, f.Status)
	case f.Message != "":
		return fmt.Sprintf("%s: %s", f.Outcome, f.Message)
	}
	return string(f.Outcome)
}

func (f *Fault) Unwrap() error { return f.Err }

// Again reports whether another try may help.
func (f *Fault) Again() bool {
	switch f.Retry {
	case RetryYes:
		return true
	case RetryNo:
		return false
	}
	switch f.Outcome {
	case Overloaded, RateLimited, Unreachable, Truncated, Empty:
		return true
	}
	return false
}

// OutcomeOf is the outcome that err names, or "" when it names none (a
// cancelled context, a fault of the program).
func OutcomeOf(err error) Outcome {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Outcome
	}
	return ""
}

// Passing reports whether an outcome is a state of the world that ends by
// itself or by a person's word, so that work can go on where it stopped.
func (o Outcome) Passing() bool {
	switch o {
	case Overloaded, RateLimited, Unreachable, Truncated, BudgetSpent:
		return true
	}
	return false
}

// Good reports whether the outcome is an answer.
func (o Outcome) Good() bool { return o == EndTurn || o == WantsTools || o == MaxTokens }

type outcomeRow struct {
	kind core.Kind
	text string
	hint string
}

func (o Outcome) row() outcomeRow {
	switch o {
	case Refused:
		return outcomeRow{core.Denied, "refused to answer", "word the task differently, or use another model"}
	case ContextOverflow:
		return outcomeRow{core.Exhausted, "was sent more than its context window holds", "split the task, or use a model with a larger window"}
	case Overloaded:
		return outcomeRow{core.Unavailable, "is overloaded", "try again later, or use another model"}
	case RateLimited:
		return outcomeRow{core.Unavailable, "limits the rate of requests", "wait, raise the limit at the provider, or run fewer sessions at once"}
	case Truncated:
		return outcomeRow{core.Unavailable, "broke off its answer", "try again; if it goes on, look at the network between here and the provider"}
	case Empty:
		return outcomeRow{core.Unavailable, "gave an empty answer", "try again, or use another model"}
	case Rejected:
		return outcomeRow{core.Invalid, "rejected the request", "check the key, the base URL and the name of the model in the configuration"}
	case Unreachable:
		return outcomeRow{core.Unavailable, "could not be reached", "check the base URL and the network of this host"}
	case ScriptMismatch:
		return outcomeRow{core.Invalid, "was sent what its script did not expect", "compare expected and got, then correct the script or the agent"}
	case BudgetSpent:
		return outcomeRow{core.Exhausted, "was not asked: the budget is spent", "raise the session's budget and continue"}
	}
	return outcomeRow{core.Internal, "failed", ""}
}

func asError(op, name string, f *Fault) error {
	row := f.Outcome.row()
	return core.E(op, row.kind, f, "model %s %s", name, row.text).WithHint("%s", row.hint)
}
