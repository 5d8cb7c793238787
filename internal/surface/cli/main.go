package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
)

// Main runs one command and returns its exit code.
func Main(ctx context.Context, args []string, env Env) int {
	a := newApp(env)
	root := a.root() //nolint:contextcheck // cobra hands the context of ExecuteContext to the command
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	return a.finish(root.ExecuteContext(ctx))
}

// Root is the tree of commands, for the generator of docs/cli.md.
func Root(env Env) *cobra.Command { return newApp(env).root() }

// exit ends with a code and says nothing more: the command has told it.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit %d", e.code) }

// failure is an error of a command that ran; every other error that cobra
// returns is about how it was called.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func (a *app) finish(err error) int {
	if err == nil {
		return core.ExitDone
	}
	if e, ok := errors.AsType[exit](err); ok {
		return e.code
	}
	if _, ran := errors.AsType[failure](err); !ran && !isCore(err) {
		err = usageError(err)
	}
	a.printError(err)
	return core.KindOf(err).ExitCode()
}

func isCore(err error) bool {
	_, ok := errors.AsType[*core.Error](err)
	return ok
}

// usageError gives cobra's text our form.
func usageError(err error) error {
	message, rest, _ := strings.Cut(err.Error(), "\n")
	hint := "see: drydock --help"
	if _, suggestion, found := strings.Cut(rest, "Did you mean this?\n"); found {
		hint = "did you mean: " + strings.Join(strings.Fields(suggestion), ", ")
	}
	return core.E("cli.usage", core.Invalid, nil, "%s", message).WithHint("%s", hint)
}

func (a *app) printError(err error) {
	e := api.Error{Code: core.KindOf(err).String(), Message: err.Error(), Hint: core.HintOf(err)}
	if errors.Is(err, context.Canceled) {
		e.Message = "interrupted"
	}
	if a.json {
		raw, _ := json.Marshal(e) // plain strings only
		_, _ = fmt.Fprintf(a.env.Stderr, "%s\n", raw)
		return
	}
	st := a.style(a.env.Stderr)
	var b strings.Builder
	for i, line := range render.Wrap(render.Clean(e.Message), a.width(a.env.Stderr)-9) {
		if i == 0 {
			b.WriteString(st.Red("drydock: ") + line + "\n")
			continue
		}
		b.WriteString("         " + line + "\n")
	}
	if e.Hint != "" {
		for i, line := range render.Wrap(render.Clean(e.Hint), a.width(a.env.Stderr)-9) {
			lead := "         "
			if i == 0 {
				lead = "   hint: "
			}
			b.WriteString(st.Dim(lead) + line + "\n")
		}
	}
	_, _ = io.WriteString(a.env.Stderr, b.String())
}
