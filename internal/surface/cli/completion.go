package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

// complete asks the daemon, briefly; where it does not answer there is
// nothing to offer.
func (a *app) complete(cmd *cobra.Command, args []string, f func(ctx context.Context, c *client.Client) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := a.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	out, err := f(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out = slices.DeleteFunc(out, func(s cobra.Completion) bool {
		word, _, _ := strings.Cut(s, "\t")
		return slices.Contains(args, word)
	})
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// firstOnly offers nothing after the first argument of commands that take one.
func firstOnly(cmd *cobra.Command, args []string) bool {
	return len(args) > 0 && cmd.Args(cmd, append(slices.Clone(args), "x")) != nil
}

func (a *app) completeEnvironments(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		l, err := c.Environments(ctx, client.Page{Limit: core.MaxPage})
		out := make([]cobra.Completion, 0, len(l.Items))
		for _, e := range l.Items {
			out = append(out, cobra.CompletionWithDesc(e.Name, e.Source))
		}
		return out, err
	})
}

func (a *app) completeSessions(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if firstOnly(cmd, args) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		l, err := c.Sessions(ctx, client.SessionQuery{}, client.Page{Limit: 100})
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "the newest session")}
		for _, s := range l.Items {
			out = append(out, cobra.CompletionWithDesc(string(s.ID), word(s)+" "+cleanTitle(s.Title)))
		}
		return out, err
	})
}

func (a *app) completeChanges(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if firstOnly(cmd, args) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		l, err := c.Changes(ctx, client.ChangeQuery{}, client.Page{Limit: 100})
		names := a.environmentNames(ctx, c)
		out := make([]cobra.Completion, 0, len(l.Items))
		for _, ch := range l.Items {
			out = append(out, cobra.CompletionWithDesc(changeRef(ch, names), string(ch.State)+" "+cleanTitle(ch.Title)))
		}
		return out, err
	})
}

func (a *app) completeSnapshots(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		l, err := c.Snapshots(ctx, client.Page{Limit: core.MaxPage})
		out := make([]cobra.Completion, 0, len(l.Items))
		for _, s := range l.Items {
			out = append(out, string(s.ID))
		}
		return out, err
	})
}

func (a *app) completeApprovals(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		l, err := c.Approvals(ctx, string(core.ApprovalPending), "", client.Page{Limit: 100})
		out := make([]cobra.Completion, 0, len(l.Items))
		for _, q := range l.Items {
			out = append(out, cobra.CompletionWithDesc(string(q.ID), cleanTitle(q.Question)))
		}
		return out, err
	})
}
