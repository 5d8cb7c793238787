package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
		a.newSnapshotList(), a.newSnapshotShow(), a.newSnapshotVerify(), a.newSnapshotPush(), a.newSnapshotPull(), a.newSnapshotGC(), a.newSnapshotRm())
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
			if s.Image != nil {
				memory = render.Bytes(s.Image.Bytes) + ", of runtime " + render.Short(s.Image.Runtime)
				if len(s.Image.Services) > 0 {
					memory += ", with " + strings.Join(s.Image.Services, ", ")
				}
			}
			if err := a.pairs([2]string{"snapshot", string(s.ID)}, [2]string{"state", string(s.State)},
				[2]string{"parent", string(s.Parent)}, [2]string{"environment", string(s.Environment)},
				[2]string{"session", string(s.Session)}, [2]string{"build", string(s.Build)},
				[2]string{"commit", s.Commit}, [2]string{"own size", render.Bytes(s.Bytes)},
				[2]string{"memory image", memory}, [2]string{"needed by", strings.Join(s.Users, ", ")},
				[2]string{"created", a.ago(s.Created)}); err != nil {
				return err
			}
			t := a.table([]string{"LAYER", "SIZE", "FILES"}, 0)
			for _, l := range s.Layers {
				name, size, files := string(l.Snapshot), render.Bytes(l.Bytes), strconv.Itoa(l.Files)
				switch {
				case l.Snapshot == "":
					name, size, files = "base image "+render.Short(l.Base), "", ""
				case l.Live:
					name += ", its running state"
				case l.Merged > 0:
					name += fmt.Sprintf(", merged from %d", l.Merged)
				}
				t.Row(name, size, files)
			}
			return written(t.Write(a.env.Stdout))
		}),
	}
}

func (a *app) newSnapshotVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify SNAPSHOT", Short: "Read everything of a snapshot and say what is damaged",
		Example: `  drydock snapshot verify snp_...`,
		Args:    exactly("SNAPSHOT"), ValidArgsFunction: a.completeSnapshots,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			v, err := c.VerifySnapshot(ctx, core.SnapshotID(args[0]))
			if err != nil {
				return err
			}
			damaged := 0
			for _, p := range v.Parts {
				if p.Damage != "" {
					damaged++
				}
			}
			if a.json {
				err = a.document(v)
			} else {
				t := a.table([]string{"PART", "SIZE", "FOUND"}, 0)
				for _, p := range v.Parts {
					found := "good"
					if p.Damage != "" {
						found = p.Damage
					}
					t.Row(p.Name, render.Bytes(p.Bytes), found)
				}
				err = written(t.Write(a.env.Stdout))
			}
			if err != nil || damaged == 0 {
				return err
			}
			return core.E("snapshot.verify", core.Unavailable, nil, "%d of %s of snapshot %s %s damaged", damaged, render.Count(len(v.Parts), "part"), v.Snapshot, map[bool]string{true: "is", false: "are"}[damaged == 1]).
				WithHint("nothing starts from damaged files; build the environment again")
		}),
	}
}

func (a *app) newSnapshotGC() *cobra.Command {
	var dry, verbose bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove snapshots and memory images that nothing needs",
		Long: `Removes snapshots, memory images, base images and stored files that nothing
needs any more. The daemon does the same by itself every now and then; the
configuration (retention) says how much it keeps for those who may come back.`,
		Example: `  drydock snapshot gc --dry-run --verbose
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
			for _, id := range got.Images {
				if err := a.printf("%s: its memory image\n", id); err != nil {
					return err
				}
			}
			for _, name := range slices.Sorted(maps.Keys(got.Other)) {
				if err := a.printf("%s: %s\n", name, render.Bytes(got.Other[name])); err != nil {
					return err
				}
			}
			if verbose {
				t := a.table([]string{"KEPT", "SIZE", "NEEDED BY", "MEMORY NEEDED BY"}, 0)
				for _, k := range got.Kept {
					t.Row(string(k.ID), render.Bytes(k.Bytes), strings.Join(k.By, ", "), strings.Join(k.Memory, ", "))
				}
				if err := written(t.Write(a.env.Stdout)); err != nil {
					return err
				}
			}
			verb := "removed"
			if dry {
				verb = "would be removed"
			}
			a.note("%s and %s %s, %s\n", render.Count(len(got.Removed), "snapshot"), render.Count(len(got.Images), "memory image"), verb, render.Bytes(got.Bytes))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only tell")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "tell what stays, and why")
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
