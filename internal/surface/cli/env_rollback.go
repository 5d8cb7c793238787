package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

func (a *app) newEnvRollback() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback NAME SNAPSHOT",
		Short: "Use an earlier good snapshot of an environment again",
		Long: `Use an earlier good snapshot of an environment again. Sessions that start from now
on start from it; those that have started keep what they have.

The environment is pinned: it is not built by itself until its base branch has
moved on. The first good build after that, or of drydock env build NAME, ends it.
The snapshots of earlier builds are listed by drydock snapshot list, as long as
they are kept.`,
		Example: `  drydock env show shop            # which builds there were
  drydock snapshot list            # which snapshots are left of them
  drydock env rollback shop snp_...`,
		Args:              exactly("NAME", "SNAPSHOT"),
		ValidArgsFunction: a.completeRollback,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			env, err := c.RollbackEnvironment(ctx, args[0], core.SnapshotID(args[1]))
			if err != nil {
				return err
			}
			if a.json {
				return a.document(env)
			}
			return a.printf("%s now starts from %s, made %s\n", env.Name, env.Snapshot, a.made(freshness(env)))
		}),
	}
}

func (a *app) completeRollback(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeEnvironments(cmd, args, text)
	case 1:
		return a.completeSnapshots(cmd, nil, text)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
