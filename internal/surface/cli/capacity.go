package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newCapacity() *cobra.Command {
	return &cobra.Command{
		Use: "capacity", Short: "Show what the host has room for, and who waits",
		Long: `Show memory, disk and processors of the host: what is used, promised to
sandboxes, kept in reserve and free for new ones; what runs, and how many wait.

The state is open, or full with what is short: then nothing new starts until
there is room again, and what runs goes on.`,
		Example: `  drydock capacity
  drydock capacity --json | jq -r .state`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			v, err := c.Capacity(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(v)
			}
			return a.capacity(v)
		}),
	}
}

func (a *app) capacity(v api.Capacity) error {
	state := v.State
	if v.Reason != "" {
		state += " (" + v.Reason + ")"
	}
	var sandboxes []string
	for _, purpose := range slices.Sorted(maps.Keys(v.Sandboxes)) {
		sandboxes = append(sandboxes, strconv.Itoa(v.Sandboxes[purpose])+" "+purpose)
	}
	err := a.pairs(
		[2]string{"state", state}, [2]string{"hint", v.Hint},
		[2]string{"sessions", of(v.Running, v.RunningLimit) + " run, " + strconv.Itoa(v.Queued) + " queued"},
		[2]string{"sandboxes", first(strings.Join(sandboxes, ", "), "none")},
		[2]string{"busy", of(v.Busy, v.BusyLimit) + " on " + render.Count(v.Processors, "processor")},
	)
	if err != nil {
		return err
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	t := a.table([]string{"", "TOTAL", "USED", "BY SANDBOXES", "PROMISED", "RESERVE", "FREE"}, 0)
	t.Row("memory", render.Bytes(v.Memory.Total), render.Bytes(v.Memory.Used), render.Bytes(v.Memory.Sandboxes), render.Bytes(v.Memory.Promised),
		render.Bytes(v.Memory.Reserve), render.Bytes(v.Memory.Free))
	t.Row("disk", render.Bytes(v.Disk.Total), render.Bytes(v.Disk.Used), "", "", render.Bytes(v.Disk.Reserve), render.Bytes(v.Disk.Free))
	if err := t.Write(a.env.Stdout); err != nil || len(v.Waiting) == 0 {
		return written(err)
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	w := a.table([]string{"WAITS", "FOR", "OWNER", "SINCE"}, 1)
	for _, s := range v.Waiting {
		w.Row(s.Purpose, s.For, s.Owner, a.ago(s.Since))
	}
	return written(w.Write(a.env.Stdout))
}

func of(n, limit int) string {
	if limit <= 0 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + " of " + strconv.Itoa(limit)
}
