package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli"
)

const docsFile = "../../../docs/cli.md"

// TestGoldenDocs keeps docs/cli.md what the commands say; make generate
// writes it.
func TestGoldenDocs(t *testing.T) {
	got := docs(cli.Root(cli.Env{Version: "dev"}))
	if *update {
		if err := os.WriteFile(docsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/cli.md is not what the commands say; refresh it with make generate (-file +commands):\n%s", diff)
	}
}

// TestEveryCommandShowsHow holds the promise that --help has examples.
func TestEveryCommandShowsHow(t *testing.T) {
	walk(cli.Root(cli.Env{}), func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		for line := range strings.Lines(c.Example) {
			if !strings.Contains(line, "drydock") {
				t.Errorf("%s: example %q does not show the command", c.CommandPath(), line)
			}
		}
		for line := range strings.Lines(c.Long) {
			if len(line) > 84 {
				t.Errorf("%s: line of the help is %d long: %q", c.CommandPath(), len(line), line)
			}
		}
	})
}

func walk(c *cobra.Command, f func(*cobra.Command)) {
	if c.Name() == "help" || c.Name() == "completion" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		walk(sub, f)
	}
}

func docs(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# The command line\n\nGenerated from the commands themselves (`make generate`).\n\n")
	b.WriteString(root.Long + "\n\n```\n" + root.Example + "\n```\n\n")
	b.WriteString("Every command takes:\n\n```\n" + root.PersistentFlags().FlagUsages() + "```\n\n")
	b.WriteString("With `--json` an error is one object on standard error: `code`, `message`, `hint`.\n\n| exit | when |\n| --- | --- |\n")
	var byExit [7][]string
	for k := core.Internal; k <= core.Canceled; k++ {
		byExit[k.ExitCode()] = append(byExit[k.ExitCode()], "`"+k.String()+"`")
	}
	byExit[0] = []string{"done"}
	for code, kinds := range byExit {
		fmt.Fprintf(&b, "| %d | %s |\n", code, strings.Join(kinds, ", "))
	}
	b.WriteString("\n`session exec` ends with the exit code of its command. Completion: `drydock completion bash|zsh|fish`.\n")
	walk(root, func(c *cobra.Command) {
		if c == root {
			return
		}
		level := strings.Repeat("#", min(4, 1+len(strings.Fields(c.CommandPath()))-1))
		fmt.Fprintf(&b, "\n%s %s\n\n%s.\n", level, c.CommandPath(), strings.TrimSuffix(c.Short, "."))
		if _, more, ok := strings.Cut(c.Long, "\n\n"); c.HasSubCommands() && ok {
			b.WriteString("\n" + more + "\n")
		} else if c.Long != "" && !c.HasSubCommands() {
			b.WriteString("\n" + c.Long + "\n")
		}
		b.WriteString("\n```\n")
		if !c.HasSubCommands() {
			b.WriteString(c.UseLine() + "\n")
		}
		if flags := c.LocalNonPersistentFlags().FlagUsages(); flags != "" {
			b.WriteString("\n" + flags)
		}
		if !strings.HasSuffix(b.String(), "```\n") {
			b.WriteString("\n")
		}
		b.WriteString(c.Example + "\n```\n")
	})
	return b.String()
}
