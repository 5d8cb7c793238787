package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
)

// DefaultConfig is read when it exists and no other file is named.
const DefaultConfig = "/etc/drydock/drydock.yaml"

func (a *app) newConfig() *cobra.Command {
	return group("config", "Configuration of the daemon",
		`  drydock config check /etc/drydock/drydock.yaml
  drydock config show --defaults`,
		a.newConfigCheck(), a.newConfigShow(), a.newConfigSchema())
}

func configFile(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	if _, err := os.Stat(DefaultConfig); err == nil {
		return DefaultConfig
	}
	return ""
}

func (a *app) newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "Report every fault of a configuration file",
		Example: `  drydock config check drydock.yaml`,
		Args:    between(0, 1),
		RunE: a.run(func(_ context.Context, args []string) error {
			if a.env.Config.Check == nil {
				return a.without("a configuration")
			}
			file := configFile(args)
			if file == "" {
				return core.E("cli.config", core.NotFound, nil, "no file named and there is no %s", DefaultConfig)
			}
			faults := a.env.Config.Check(file)
			texts := make([]string, len(faults))
			for i, err := range faults {
				texts[i] = err.Error()
			}
			if a.json {
				if err := a.document(map[string]any{"file": file, "ok": len(faults) == 0, "faults": texts}); err != nil {
					return err
				}
			} else if len(faults) == 0 {
				return a.printf("%s is good.\n", file)
			}
			for _, t := range texts {
				a.note("%s\n", render.Clean(t))
			}
			if len(faults) > 0 {
				return exit{core.ExitUsage}
			}
			return nil
		}),
	}
}

func (a *app) newConfigShow() *cobra.Command {
	var defaults bool
	cmd := &cobra.Command{
		Use: "show [FILE]", Short: "Print the settings in force",
		Example: `  drydock config show
  drydock config show --defaults > drydock.yaml`,
		Args: between(0, 1),
		RunE: a.run(func(_ context.Context, args []string) error {
			if a.env.Config.Show == nil {
				return a.without("a configuration")
			}
			return a.env.Config.Show(configFile(args), defaults, a.env.Stdout)
		}),
	}
	cmd.Flags().BoolVar(&defaults, "defaults", false, "print the defaults, and read no file")
	return cmd
}

func (a *app) newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON schema of the configuration file",
		Example: `  drydock config schema > drydock.schema.json`,
		Args:    noArgs,
		RunE: a.run(func(context.Context, []string) error {
			if a.env.Config.Schema == nil {
				return a.without("a configuration")
			}
			return a.env.Config.Schema(a.env.Stdout)
		}),
	}
}
