package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
)

// app is what all commands share: the world, and the flags before them.
type app struct {
	env    Env
	json   bool
	server string
	token  string
	state  string
}

func newApp(env Env) *app {
	if env.Now == nil {
		env.Now = time.Now
	}
	if env.Getenv == nil {
		env.Getenv = func(string) string { return "" }
	}
	if env.Terminal == nil {
		env.Terminal = func(any) (bool, int) { return false, 0 }
	}
	if env.Version == "" {
		env.Version = "dev"
	}
	return &app{env: env}
}

// connect finds the daemon: --server or DRYDOCK_URL, else what the daemon
// left in its state directory.
func (a *app) connect() (*client.Client, error) {
	url := first(a.server, a.env.Getenv("DRYDOCK_URL"))
	token := first(a.token, a.env.Getenv("DRYDOCK_TOKEN"))
	dir := a.stateDir()
	if url == "" {
		raw, err := os.ReadFile(filepath.Join(dir, "api.addr"))
		if err != nil {
			return nil, a.noDaemon(dir, err)
		}
		url = strings.TrimSpace(string(raw))
	}
	// The token of this machine's daemon is not for whoever listens elsewhere.
	local := first(a.server, a.env.Getenv("DRYDOCK_URL")) == "" || a.state != ""
	if token == "" && local {
		raw, err := os.ReadFile(filepath.Join(dir, "token"))
		if err != nil {
			return nil, core.E("cli.token", core.Unauthorized, err, "no token for the daemon at %s", url).
				WithHint("run as the user of the daemon, or set DRYDOCK_TOKEN (drydock token create makes one)")
		}
		token = strings.TrimSpace(string(raw))
	}
	if token == "" {
		return nil, core.E("cli.token", core.Unauthorized, nil, "no token for the daemon at %s", url).
			WithHint("set DRYDOCK_TOKEN or give --token (drydock token create, on its machine, makes one)")
	}
	return client.New(client.Options{URL: url, Token: token})
}

func (a *app) stateDir() string {
	return first(a.state, a.env.Getenv("DRYDOCK_STATE"), DefaultState)
}

func (a *app) noDaemon(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return core.E("cli.connect", core.Denied, err, "state directory %s", dir).
			WithHint("run as the user of the daemon, or set DRYDOCK_URL and DRYDOCK_TOKEN")
	}
	return core.E("cli.connect", core.Unavailable, nil, "no daemon runs with the state directory %s", dir).
		WithHint("start it with: drydock serve (as root), or name another with --state, or --server and DRYDOCK_TOKEN")
}

func first(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

// run adapts a plain function to cobra.
func (a *app) run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage = true
		if err := f(cmd.Context(), args); err != nil {
			if _, ok := errors.AsType[exit](err); ok {
				return err
			}
			return failure{err}
		}
		return nil
	}
}

// withClient is run for commands that speak to the daemon.
func (a *app) withClient(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.run(func(ctx context.Context, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(ctx, c, args)
	})
}

// document prints v as one JSON document.
func (a *app) document(v any) error {
	enc := json.NewEncoder(a.env.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return written(enc.Encode(v))
}

// line prints v as one line of JSON, for streams.
func (a *app) line(v any) error {
	enc := json.NewEncoder(a.env.Stdout)
	enc.SetEscapeHTML(false)
	return written(enc.Encode(v))
}

// printf prints to standard output. The caller makes outside text clean.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.env.Stdout, format, args...)
	return written(err)
}

// note prints to standard error, unless the output is for programs.
func (a *app) note(format string, args ...any) {
	if !a.json {
		_, _ = fmt.Fprintf(a.env.Stderr, format, args...)
	}
}

func written(err error) error {
	if err == nil {
		return nil
	}
	return core.E("cli.write", core.Internal, err, "write to standard output")
}

func (a *app) terminal(stream any) bool {
	is, _ := a.env.Terminal(stream)
	return is
}

// width is where text breaks; a file gets a width that reads well.
func (a *app) width(stream any) int {
	if n, err := strconv.Atoi(a.env.Getenv("COLUMNS")); err == nil && n >= 20 {
		return n
	}
	if _, w := a.env.Terminal(stream); w > 0 {
		return max(w, 40)
	}
	return 100
}

func (a *app) style(stream any) render.Style {
	return render.Style{
		Color:   a.terminal(stream) && a.env.Getenv("NO_COLOR") == "" && a.env.Getenv("TERM") != "dumb",
		Unicode: unicodeLocale(a.env.Getenv),
	}
}

func (a *app) table(head []string, flex int) *render.Table {
	t := &render.Table{Head: head, Flex: flex, Style: a.style(a.env.Stdout)}
	if a.terminal(a.env.Stdout) || a.env.Getenv("COLUMNS") != "" {
		t.Width = a.width(a.env.Stdout)
	}
	return t
}

func (a *app) pairs(pairs ...[2]string) error {
	return written(render.Pairs(a.env.Stdout, a.style(a.env.Stdout), a.width(a.env.Stdout), pairs...))
}

func (a *app) ago(t time.Time) string { return render.Ago(t, a.env.Now()) }

// list prints a list: a document with items, or a table, or a sentence when
// there is nothing.
func list[T any](a *app, items []T, empty string, t *render.Table, row func(T) []string) error {
	if a.json {
		return a.document(map[string]any{"items": items})
	}
	if len(items) == 0 {
		return a.printf("%s\n", empty)
	}
	for _, v := range items {
		t.Row(row(v)...)
	}
	return written(t.Write(a.env.Stdout))
}

// copyTo writes a download to a file that appears whole or not at all.
func copyTo(path string, mode fs.FileMode, f func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".drydock-*")
	if err != nil {
		return core.E("cli.file", core.Invalid, err, "write %s", path)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if err := f(tmp); err != nil {
		_ = tmp.Close()
		return err
	}
	if err := errors.Join(tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return core.E("cli.file", core.Internal, err, "write %s", path)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return core.E("cli.file", core.Invalid, err, "write %s", path)
	}
	return nil
}
