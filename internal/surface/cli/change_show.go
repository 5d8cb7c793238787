package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

func (a *app) newChangeShow() *cobra.Command {
	return &cobra.Command{
		Use: "show CHANGE", Short: "Show a change: what, why, who, how proven",
		Example: `  drydock change show shop#1
  drydock change show shop#1 --json | jq .change.verdict`,
		Args: exactly("CHANGE"), ValidArgsFunction: a.completeChanges,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.Change(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.document(d)
			}
			return a.changeShow(d, changeRef(d.Change, a.environmentNames(ctx, c)))
		}),
	}
}

func (a *app) changeShow(d api.ChangeDetail, ref string) error {
	ch, st, width := d.Change, a.style(a.env.Stdout), a.width(a.env.Stdout)
	var b strings.Builder
	head := fmt.Sprintf("#%d  %s", ch.Number, render.Line(ch.Title))
	b.WriteString(st.Bold(head) + "\n")
	facts := []string{st.State(string(ch.State))}
	if ch.Verdict != "" {
		facts = append(facts, st.State(ch.Verdict))
	}
	facts = append(facts, fmt.Sprintf("%s into %s", render.Line(ch.Branch), render.Line(ch.Base)), "by "+render.Line(authors(ch.Authors)), a.ago(ch.Updated))
	b.WriteString(strings.Join(facts, st.Dot()) + "\n")
	if ch.Merge != "" {
		b.WriteString("merged as " + render.Short(ch.Merge) + "\n")
	}
	if ch.Body != "" {
		b.WriteString("\n" + strings.Join(render.Markdown(st, render.Clean(ch.Body), width), "\n") + "\n")
	}
	b.WriteString("\n" + st.Bold(render.Count(len(d.Commits), "commit")) + "\n")
	for _, cm := range d.Commits {
		b.WriteString("  " + st.Yellow(render.Short(cm.ID)) + " " + render.Cut(render.Line(cm.Subject), width-40) + st.Dim(st.Dot()+render.Line(cm.Author)+st.Dot()+a.ago(cm.Time)) + "\n")
	}
	for _, ap := range d.Approvals {
		stale := ""
		if ap.Head != ch.Head {
			stale = st.Yellow(" (an earlier state)")
		}
		b.WriteString("\n" + st.Good() + " approved by " + render.Person(ap.By) + " at " + render.Short(ap.Head) + stale + note(ap.Note) + "\n")
	}
	a.comments(&b, d.Comments, st, width)
	if ch.State == core.ChangeOpen {
		b.WriteString("\n" + render.Commands(st, []render.Command{
			{Do: "read", Line: "drydock change diff " + ref},
			{Do: "proof", Line: "drydock change evidence " + ref},
			{Do: "approve", Line: "drydock change approve " + ref},
			{Do: "merge", Line: "drydock change merge " + ref},
		}))
	}
	return a.printf("%s", b.String())
}

func (a *app) comments(b *strings.Builder, comments []core.Comment, st render.Style, width int) {
	for _, cm := range comments {
		where := ""
		if cm.Path != "" {
			where = fmt.Sprintf(" on %s:%d", render.Line(cm.Path), cm.Line)
		}
		fmt.Fprintf(b, "\n%s%s%s\n", st.Bold(render.Line(cm.Author.Handle)), where, st.Dim(st.Dot()+a.ago(cm.Created)))
		for _, line := range render.Markdown(st, render.Clean(cm.Body), width-2) {
			b.WriteString("  " + line + "\n")
		}
	}
}

func note(s string) string {
	if s == "" {
		return ""
	}
	return ": " + render.Line(s)
}
