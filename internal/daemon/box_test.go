package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/testkit/machine"
	"drydock/internal/testkit/need"
)

type caughtUp struct{ m *environment.Machine }

func (c caughtUp) Machine() *environment.Machine { return c.m }
func (caughtUp) Ready(context.Context) error     { return nil }

// What the agent's tools write belongs to the user of the recipe, as what its
// commands write does; a file that was there keeps owner and mode.
func TestToolsWriteAsTheUser(t *testing.T) {
	need.Root(t)
	world, m := machine.Launch(t, environment.LaunchRequest{
		Purpose: environment.PurposeSession, Owner: "ses_test", Recipe: &recipe.Recipe{User: "4321:8765"},
	})
	b := &box{open: func(context.Context) (opened, error) { return caughtUp{m}, nil }}
	root := world.Root(m.ID())
	if err := os.WriteFile(filepath.Join(root, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(root, "there"), 11, 12); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/made/deep/new.txt", "/there"} {
		if err := b.Write(t.Context(), name, 0, []byte("text")); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"made": "4321:8765 755", "made/deep": "4321:8765 755", "made/deep/new.txt": "4321:8765 644", "there": "11:12 600"} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		if got := fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, info.Mode()&fs.ModePerm); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
