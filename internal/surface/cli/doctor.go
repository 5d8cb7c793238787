package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
)

func (a *app) newDoctor() *cobra.Command {
	var o DoctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this host lacks and how to get it",
		Long: `Look at everything the daemon needs of this host: kernel features, programs,
disk, rights. For each lack it says what to do. It changes nothing.
It ends with 1 when something necessary is missing.`,
		Example: `  drydock doctor
  drydock doctor --json | jq '.checks[] | select(.status != "ok")'`,
		Args: noArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error { return a.doctor(ctx, o) }),
	}
	cmd.Flags().StringVar(&o.ConfigFile, "config", "", "configuration file")
	return cmd
}

func (a *app) doctor(ctx context.Context, o DoctorOptions) error {
	if a.env.Doctor == nil {
		return a.without("a doctor")
	}
	o.State = a.stateDir()
	checks, err := a.env.Doctor(ctx, o)
	if err != nil {
		return err
	}
	failed, warned := 0, 0
	for _, c := range checks {
		switch c.Status {
		case "failed":
			failed++
		case "warning":
			warned++
		}
	}
	if a.json {
		err = a.document(map[string]any{"ok": failed == 0, "checks": checks})
	} else {
		err = a.doctorText(checks, failed, warned)
	}
	if err == nil && failed > 0 {
		err = exit{core.ExitFailed}
	}
	return err
}

func (a *app) doctorText(checks []DoctorCheck, failed, warned int) error {
	st, width := a.style(a.env.Stdout), a.width(a.env.Stdout)
	n := 0
	for _, c := range checks {
		n = max(n, render.Width(render.Line(c.Name)))
	}
	n = min(n, 30)
	var b strings.Builder
	for _, c := range checks {
		mark := st.Good()
		switch c.Status {
		case "failed":
			mark = st.Bad()
		case "warning":
			mark = st.Warn()
		}
		indent := strings.Repeat(" ", n+5)
		for i, line := range render.Wrap(render.Line(c.Detail), width-n-5) {
			if i == 0 {
				b.WriteString(" " + mark + " " + render.Pad(render.Line(c.Name), n) + "  " + line + "\n")
				continue
			}
			b.WriteString(indent + line + "\n")
		}
		if c.Status != "ok" && c.Fix != "" {
			for _, line := range render.Wrap(render.Clean(c.Fix), width-n-8) {
				b.WriteString(indent + st.Yellow(st.Arrow()+" "+line) + "\n")
			}
		}
	}
	switch {
	case failed > 0:
		b.WriteString("\n" + st.Red(render.Count(failed, "thing")+" missing.") + " The daemon would not work here yet.\n")
	case warned > 0:
		b.WriteString("\nThis host will do; " + render.Count(warned, "remark") + " above.\n")
	default:
		b.WriteString("\nThis host has everything. Start with: drydock serve\n")
	}
	_, err := io.WriteString(a.env.Stdout, b.String())
	return written(err)
}
