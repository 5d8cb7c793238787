package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

type runOptions struct {
	env, title                    string
	blueprint, agent, model, base string
	budget                        string
	time                          time.Duration
	wait, detach                  bool
	clientID, pictures            string
	bestOf                        int
	pick                          string
}

func (a *app) newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   `run -e ENV "TASK"`,
		Short: "Start a session with a task",
		Long: `Start a session. On a terminal its work is shown as it happens; leaving with
Ctrl-C does not stop it. Elsewhere the command prints the session's identifier
and returns, unless --wait is given.

A TASK of "-" is read from standard input. With a single environment, -e may be
left out. --wait ends with 0 when a change (or an answer) was delivered, 3 when
the work was handed over to a person, 1 when it failed.

--best-of N gives the task to N sessions that start from the same commit and
snapshot, with seeds 1 to N for models that take one (OpenAI's and compatible
ones; Anthropic's take none and differ by chance) and the models of --model in
turn. Each is proven as usual; "drydock selection show" compares them. --pick
says who picks one: "person" (the default), or by a rule, which picks a proven
one or none: "first-proven" (the others are stopped), "smallest" (fewest changed
lines), "cheapest", "fastest". The others' changes are closed and their sessions
archived. --budget is then of the whole and divided evenly, --time of each
session. --wait ends with 0 when one is picked or a person has a proven one to
pick, 3 when none is proven.`,
		Example: `  drydock run -e shop "the total ignores the discount; add a test"
  drydock run -e shop --wait --json - < task.md | jq .change
  drydock run -e shop --base release-2 --budget 1.50 --time 30m "raise the go version"
  drydock run -e shop --detach "write the changelog"
  drydock run -e shop --best-of 3 --pick smallest --wait "the total is wrong"
  drydock run -e shop --best-of 4 --model openai/gpt-5,anthropic/claude-opus-4-5 "the total is wrong"  # drydock selection show last`,
		Args:              between(1, -1, "TASK"),
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			best := cmd.Flags().Changed("best-of")
			switch {
			case best && (o.bestOf < core.MinSelection || o.bestOf > core.MaxSelection):
				return core.E("cli.usage", core.Invalid, nil, "--best-of %d is not %d to %d", o.bestOf, core.MinSelection, core.MaxSelection)
			case !best && o.pick != "":
				return core.E("cli.usage", core.Invalid, nil, "--pick without --best-of: there is nothing to pick from").WithHint("add --best-of 3")
			}
			return nil
		},
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.startRun(ctx, c, strings.Join(args, " "), o)
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&o.env, "env", "e", "", "environment, by name or identifier")
	f.StringVar(&o.title, "title", "", "title of the session (default: first line of the task)")
	f.StringVar(&o.blueprint, "blueprint", "", "blueprint (default code-change)")
	f.StringVar(&o.agent, "agent", "", "agent (default builtin)")
	f.StringVar(&o.model, "model", "", "model (default that of the configuration); with --best-of several, with commas")
	f.StringVar(&o.base, "base", "", "branch the work is for (default that of the environment)")
	f.StringVar(&o.budget, "budget", "", "US dollars the session may spend, e.g. 2.50")
	f.DurationVar(&o.time, "time", 0, "how long the session may work, e.g. 30m")
	f.BoolVarP(&o.wait, "wait", "w", false, "wait for the end, and show the work")
	f.BoolVarP(&o.detach, "detach", "d", false, "do not show the work, also on a terminal")
	f.StringVar(&o.clientID, "client-id", "", "identifier of this request: giving it again is not a second session")
	f.StringVar(&o.pictures, "pictures", "", "save pictures into this directory")
	f.IntVar(&o.bestOf, "best-of", 0, "give the task to so many sessions, 2 to 10, one of which is picked")
	f.StringVar(&o.pick, "pick", "", "who picks with --best-of: person, first-proven, smallest, cheapest, fastest")
	cmd.MarkFlagsMutuallyExclusive("wait", "detach")
	cmd.MarkFlagsMutuallyExclusive("best-of", "pictures")
	_ = cmd.RegisterFlagCompletionFunc("pick", cobra.FixedCompletions([]string{"person", "first-proven", "smallest", "cheapest", "fastest"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("env", a.completeEnvironments)
	return cmd
}

func (a *app) startRun(ctx context.Context, c *client.Client, task string, o runOptions) error {
	task, err := a.text(task)
	if err != nil {
		return err
	}
	budget, err := budgetOf(o.budget, o.time)
	if err != nil {
		return err
	}
	if o.env == "" {
		if o.env, err = onlyEnvironment(ctx, c); err != nil {
			return err
		}
	}
	if o.bestOf > 0 {
		return a.startBest(ctx, c, task, budget, o)
	}
	made, err := c.CreateSession(ctx, api.CreateSession{
		Environment: o.env, Prompt: task, Title: o.title, Blueprint: o.blueprint, Agent: o.agent,
		Model: o.model, Base: o.base, Budget: budget, ClientID: o.clientID,
	})
	if err != nil {
		return err
	}
	watch := o.wait || (a.terminal(a.env.Stdout) && !o.detach && !a.json)
	if watch {
		return a.watchPrompt(ctx, c, made.Session, made.Prompt, watchOptions{pictures: o.pictures, fromStart: true})
	}
	if a.json {
		return a.document(made)
	}
	if err := a.printf("%s\n", made.Session.ID); err != nil {
		return err
	}
	a.note("Follow it with: drydock session log -f %s\n", made.Session.ID)
	return nil
}

// text is the argument, or standard input for "-".
func (a *app) text(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	raw, err := io.ReadAll(io.LimitReader(a.env.Stdin, api.MaxPrompt+1))
	if err != nil {
		return "", core.E("cli.read", core.Invalid, err, "read standard input")
	}
	if len(raw) > api.MaxPrompt {
		return "", core.E("cli.read", core.Invalid, nil, "the text is longer than %d bytes", api.MaxPrompt)
	}
	s := strings.TrimSpace(string(raw))
	if s == "" {
		return "", core.E("cli.read", core.Invalid, nil, "standard input is empty")
	}
	return s, nil
}

func budgetOf(money string, span time.Duration) (core.Budget, error) {
	b := core.Budget{WallClock: span}
	if span < 0 {
		return b, core.E("cli.budget", core.Invalid, nil, "--time %s is negative", span)
	}
	if money == "" {
		return b, nil
	}
	m, err := parseMoney(money)
	if err != nil {
		return b, err
	}
	b.Money = m
	return b, nil
}

// parseMoney reads dollars with up to six decimals, exactly.
func parseMoney(s string) (core.Money, error) {
	bad := core.E("cli.budget", core.Invalid, nil, "--budget %q is not an amount of dollars", s).WithHint("like 2 or 2.50")
	whole, frac, _ := strings.Cut(strings.TrimPrefix(s, "$"), ".")
	if whole == "" || len(whole) > 9 || len(frac) > 6 {
		return 0, bad
	}
	var m core.Money
	for _, d := range whole + frac + strings.Repeat("0", 6-len(frac)) {
		if d < '0' || d > '9' {
			return 0, bad
		}
		m = m*10 + core.Money(d-'0')
	}
	if m == 0 {
		return 0, bad
	}
	return m, nil
}

func onlyEnvironment(ctx context.Context, c *client.Client) (string, error) {
	l, err := c.Environments(ctx, client.Page{Limit: 2})
	if err != nil {
		return "", err
	}
	switch len(l.Items) {
	case 0:
		return "", core.E("cli.run", core.NotFound, nil, "there is no environment yet").
			WithHint("make one with: drydock env build URL|PATH")
	case 1:
		return string(l.Items[0].ID), nil
	}
	return "", core.E("cli.run", core.Invalid, nil, "there are several environments and none was named").
		WithHint("name one with -e; drydock env list shows them")
}
