package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newSnapshot() *cobra.Command {
	return group("snapshot", "Snapshots: files that sandboxes start from",
		`  drydock snapshot list
  drydock snapshot push shop registry.example.com/team/shop:ready
  drydock snapshot gc --dry-run`,
		a.newSnapshotList(), a.newSnapshotShow(), a.newSnapshotPush(), a.newSnapshotPull(), a.newSnapshotGC(), a.newSnapshotRm())
}

func (a *app) newSnapshotList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List snapshots, newest first",
		Example: `  drydock snapshot list`,
		Args:    noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			items, err := client.Collect(0, func(p client.Page) (api.List[core.Snapshot], error) { return c.Snapshots(ctx, p) })
			if err != nil {
				return err
			}
			names := a.environmentNames(ctx, c)
			return list(a, items, "No snapshots yet: drydock env build makes the first.",
				a.table([]string{"SNAPSHOT", "STATE", "OF", "PARENT", "SIZE", "MEMORY", "CREATED"}, 2),
				func(s core.Snapshot) []string {
					memory := "no"
					if s.Memory {
						memory = "yes"
					}
					of := string(s.Session)
					if of == "" && s.Environment != "" {
						of = names(s.Environment)
					}
					return []string{string(s.ID), string(s.State), of, string(s.Parent), render.Bytes(s.Bytes), memory, a.ago(s.Created)}
				})
		}),
	}
}

func (a *app) newSnapshotShow() *cobra.Command {
	return &cobra.Command{
		Use: "show SNAPSHOT", Short: "Show one snapshot",
		Example: `  drydock snapshot show snp_...`,
		Args:    exactly("SNAPSHOT"), ValidArgsFunction: a.completeSnapshots,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Snapshot(ctx, core.SnapshotID(args[0]))
			if err != nil {
				return err
			}
			if a.json {
				return a.document(s)
			}
			memory := "no"
			if s.Memory {
				memory = "yes"
			}
			return a.pairs([2]string{"snapshot", string(s.ID)}, [2]string{"state", string(s.State)},
				[2]string{"parent", string(s.Parent)}, [2]string{"environment", string(s.Environment)},
				[2]string{"session", string(s.Session)}, [2]string{"build", string(s.Build)},
				[2]string{"commit", s.Commit}, [2]string{"own size", render.Bytes(s.Bytes)},
				[2]string{"memory image", memory}, [2]string{"created", a.ago(s.Created)})
		}),
	}
}

func (a *app) newSnapshotGC() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove snapshots that nothing needs",
		Example: `  drydock snapshot gc --dry-run
  drydock snapshot gc`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.CollectSnapshots(ctx, dry)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(got)
			}
			for _, id := range got.Removed {
				if err := a.printf("%s\n", id); err != nil {
					return err
				}
			}
			verb := "removed"
			if dry {
				verb = "would be removed"
			}
			a.note("%s %s, %s\n", render.Count(len(got.Removed), "snapshot"), verb, render.Bytes(got.Bytes))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only tell")
	return cmd
}

func (a *app) newSnapshotRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm SNAPSHOT...", Aliases: []string{"remove"}, Short: "Remove snapshots that nothing needs",
		Example: `  drydock snapshot rm snp_...`,
		Args:    between(1, -1, "SNAPSHOT"), ValidArgsFunction: a.completeSnapshots,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.each(args, "removed", func(id string) (string, error) {
				return id, c.RemoveSnapshot(ctx, core.SnapshotID(id))
			})
		}),
	}
}
