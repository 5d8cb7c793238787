package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

type usageOptions struct {
	by    string
	since string
}

func (a *app) newUsage() *cobra.Command {
	var o usageOptions
	cmd := &cobra.Command{
		Use: "usage", Short: "Show costs and outcomes",
		Example: `  drydock usage
  drydock usage --by model --since 7d
  drydock usage --by session --since 2026-11-01 --json`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			since, err := parseSince(o.since, a.env.Now())
			if err != nil {
				return err
			}
			u, err := c.Usage(ctx, o.by, since)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(u)
			}
			return a.usage(u)
		}),
	}
	cmd.Flags().StringVar(&o.by, "by", "environment", "sum by session, environment or model")
	cmd.Flags().StringVar(&o.since, "since", "", "only since a date (2026-11-01) or for a span (12h, 7d)")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"session", "environment", "model"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, now.Location()); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, core.E("cli.since", core.Invalid, nil, "--since %q is neither a date nor a span", s).WithHint("like 2026-11-01, 12h or 7d")
}

func (a *app) usage(u api.UsageReport) error {
	t := a.table([]string{"", "SESSIONS", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"}, 0)
	row := func(r api.UsageRow, name string) {
		t.Row(name, strconv.FormatInt(r.Sessions, 10), render.Thousands(r.Usage.Calls),
			render.Thousands(r.Usage.Input+r.Usage.CacheWrite), render.Thousands(r.Usage.CacheRead), render.Thousands(r.Usage.Output), render.Cost(r.Cost))
	}
	for _, r := range u.Rows {
		row(r, first(r.Title, r.Key))
	}
	row(u.Total, "all")
	if err := t.Write(a.env.Stdout); err != nil {
		return written(err)
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.pairs([2]string{"verdicts", counts(u.Verdicts)}, [2]string{"outcomes", counts(u.Outcomes)})
}

func counts(m map[string]int64) string {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, strconv.FormatInt(m[k], 10)+" "+render.Words(k))
	}
	return strings.Join(parts, ", ")
}
