package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

func (a *app) newApproval() *cobra.Command {
	return group("approval", "Approvals: questions that runs ask people",
		`  drydock approval list
  drydock approval approve apr_... --note "fine on staging"`,
		a.newApprovalList(), a.newApprovalAnswer("approve", "Say yes to a question", true), a.newApprovalAnswer("deny", "Say no to a question", false))
}

func (a *app) newApprovalList() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List questions that wait for an answer",
		Example: `  drydock approval list
  drydock approval list --all`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			state := string(core.ApprovalPending)
			if all {
				state = ""
			}
			items, err := client.Collect(0, func(p client.Page) (api.List[api.Approval], error) { return c.Approvals(ctx, state, "", p) })
			if err != nil {
				return err
			}
			return list(a, items, "Nothing waits for an answer.",
				a.table([]string{"APPROVAL", "STATE", "QUESTION", "SESSION", "ASKED", "UNTIL"}, 2),
				func(q api.Approval) []string {
					return []string{string(q.ID), string(q.State), q.Question, string(q.Session), a.ago(q.Created), a.ago(q.Deadline)}
				})
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also answered ones")
	return cmd
}

func (a *app) newApprovalAnswer(verb, short string, yes bool) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: verb + " APPROVAL", Short: short,
		Example: "  drydock approval " + verb + " apr_...",
		Args:    exactly("APPROVAL"), ValidArgsFunction: a.completeApprovals,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			q, err := c.AnswerApproval(ctx, core.ApprovalID(args[0]), yes, note)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(q)
			}
			return a.told(string(q.ID), string(q.State), nil)
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the log")
	return cmd
}
