package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Kind says what class of failure an error is. It decides the HTTP status, the
// exit code of the command line, and whether trying again can help.
type Kind uint8

const (
	Internal      Kind = iota // a fault of Drydock itself: logged, the user gets an identifier
	Invalid                   // the request or a file is wrong; trying again cannot help
	Unauthorized              // nobody said who they are
	Denied                    // a rule forbids it
	NotFound                  // no such object
	Conflict                  // the object is not in a state that allows it
	HandedOver                // the work ended with a person, by design
	NeedsApproval             // a person must say yes first
	Exhausted                 // a limit or a budget is used up
	Unavailable               // something needed is away; trying again may help
	Canceled                  // somebody asked for it to stop
)

type kindRow struct {
	name  string
	http  int
	exit  int
	retry bool
}

// Exit codes are part of the interface: 0 done, 1 failed, 2 usage, 3 handed
// over, 4 denied, 5 not found, 6 unavailable.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitHandedOver  = 3
	ExitDenied      = 4
	ExitNotFound    = 5
	ExitUnavailable = 6
)

var kindTable = [...]kindRow{
	Internal:      {"internal", http.StatusInternalServerError, ExitFailed, false},
	Invalid:       {"invalid", http.StatusBadRequest, ExitUsage, false},
	Unauthorized:  {"unauthorized", http.StatusUnauthorized, ExitDenied, false},
	Denied:        {"denied", http.StatusForbidden, ExitDenied, false},
	NotFound:      {"not_found", http.StatusNotFound, ExitNotFound, false},
	Conflict:      {"conflict", http.StatusConflict, ExitFailed, false},
	HandedOver:    {"handed_over", http.StatusConflict, ExitHandedOver, false},
	NeedsApproval: {"needs_approval", http.StatusForbidden, ExitHandedOver, false},
	Exhausted:     {"exhausted", http.StatusTooManyRequests, ExitFailed, false},
	Unavailable:   {"unavailable", http.StatusServiceUnavailable, ExitUnavailable, true},
	Canceled:      {"canceled", 499, ExitFailed, false},
}

func (k Kind) row() kindRow {
	if int(k) >= len(kindTable) {
		return kindTable[Internal]
	}
	return kindTable[k]
}

func (k Kind) String() string  { return k.row().name }
func (k Kind) HTTPStatus() int { return k.row().http }
func (k Kind) ExitCode() int   { return k.row().exit }

// Retryable says whether the same call may succeed later without a change.
func (k Kind) Retryable() bool { return k.row().retry }

// KindByName is the inverse of String, for clients that read an error from the
// wire. An unknown name is Internal.
func KindByName(name string) Kind {
	for k, row := range kindTable {
		if row.name == name {
			return Kind(k)
		}
	}
	return Internal
}

// Error is the one error type that crosses package borders. Message names the
// object and the value in lower case; Hint says what to do about it.
type Error struct {
	Op      string // "session.start": package and verb
	Kind    Kind
	Message string
	Hint    string
	Err     error // cause, may be nil
}

func (e *Error) Error() string {
	switch {
	case e.Message == "" && e.Err != nil:
		return e.Op + ": " + e.Err.Error()
	case e.Err != nil:
		return e.Message + ": " + e.Err.Error()
	case e.Message == "":
		return e.Op + ": " + e.Kind.String()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// E makes an error. With a nil cause it still makes one; format may be empty
// when the cause says everything.
func E(op string, kind Kind, cause error, format string, args ...any) *Error {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	return &Error{Op: op, Kind: kind, Message: message, Err: cause}
}

// WithHint returns a copy of the error with a hint for the person.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = format
	if len(args) > 0 {
		c.Hint = fmt.Sprintf(format, args...)
	}
	return &c
}

// KindOf is the kind of the outermost *Error in err's chain. Cancellation of a
// context is Canceled and its deadline Unavailable; anything else is Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable
	}
	return Internal
}

// HintOf is the first hint in err's chain, or "".
func HintOf(err error) string {
	for err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			if e.Hint != "" {
				return e.Hint
			}
			err = e.Err
			continue
		}
		return ""
	}
	return ""
}

// Is reports whether err is of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }
