package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "drydock",
		Short: "Background coding agents on your own machine",
		Long: `Drydock runs coding agents in the background: someone states a task, an agent
works on it alone in a disposable copy of the development environment, proves
its work in a clean one, and hands over a change that is quick to review.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 handed over to a person,
4 denied, 5 not found, 6 the daemon is unavailable.`,
		Example: `  drydock serve                                  # the daemon, as root
  drydock env build https://git.example.com/shop # prepare an environment
  drydock run -e shop "the total ignores the discount"
  drydock change diff shop#1
  drydock change merge shop#1`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.env.Version,
	}
	root.SetVersionTemplate("drydock {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return core.E("cli.usage", core.Invalid, nil, "%s", err.Error()).WithHint("see: %s --help", cmd.CommandPath())
	})
	pf := root.PersistentFlags()
	pf.BoolVar(&a.json, "json", false, "print JSON: one document, or one object per line for streams")
	pf.StringVar(&a.server, "server", "", "address of the daemon (default DRYDOCK_URL, else the state directory)")
	pf.StringVar(&a.token, "token", "", "token (default DRYDOCK_TOKEN, else the state directory)")
	pf.StringVar(&a.state, "state", "", "state directory of the daemon (default DRYDOCK_STATE, else "+DefaultState+")")
	root.AddGroup(
		&cobra.Group{ID: "work", Title: "Work:"},
		&cobra.Group{ID: "review", Title: "Review:"},
		&cobra.Group{ID: "run", Title: "Operate:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("work", a.newDemo(), a.newEnv(), a.newRun(), a.newSession(), a.newSelection())
	add("review", a.newChange(), a.newEvidence(), a.newApproval())
	add("run", a.newServe(), a.newWeb(), a.newDoctor(), a.newSnapshot(), a.newSandbox(), a.newCapacity(), a.newToken(), a.newUsage(), a.newBackup(), a.newConfig(), a.newVersion())
	return root
}

// group is a command that only holds others.
func group(use, short, example string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "see: " + cmd.CommandPath() + " --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean: " + cmd.CommandPath() + " " + strings.Join(near, ", ")
			}
			return core.E("cli.usage", core.Invalid, nil, "unknown command %q for %q", args[0], cmd.CommandPath()).WithHint("%s", hint)
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(children...)
	return cmd
}

// exactly and its siblings check arguments and say what is missing by name.
func exactly(names ...string) cobra.PositionalArgs { return between(len(names), len(names), names...) }

func between(least, most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := "usage: " + cmd.UseLine()
		if len(args) < least {
			return core.E("cli.usage", core.Invalid, nil, "%s is missing", names[len(args)]).WithHint("%s", hint)
		}
		if most >= 0 && len(args) > most {
			return core.E("cli.usage", core.Invalid, nil, "unexpected argument %q", args[most]).WithHint("%s", hint)
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error { return between(0, 0)(cmd, args) }
