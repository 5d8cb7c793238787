package workspace

import (
	"context"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/proof/exam"
	"drydock/internal/testkit/machine"
)

// launch starts a sandbox of the fake driver.
func launch(t *testing.T) (*fake.World, *environment.Machine) {
	t.Helper()
	return machine.Launch(t, environment.LaunchRequest{Purpose: environment.PurposeProof, Owner: "run_test"})
}

// A command whose room dies ends with the cause, also where the guest falls
// silent long before the driver knows.
func TestRoomDies(t *testing.T) {
	world, m := launch(t)
	room := &Room{r: Rooms{Recipe: recipe.Recipe{Workspace: "/workspace"}}, machine: m, scratch: t.TempDir()}
	ok, err := room.Run(t.Context(), exam.Command{Shell: "echo fine; exit 3"})
	if err != nil || ok.ExitCode != 3 || ok.Died != "" {
		t.Fatalf("a command ends as %+v, error %v", ok, err)
	}

	gate := make(chan struct{})
	world.Faults.Set(fake.Notice, fake.Fault{Hang: true, Until: gate, Times: 1})
	died := make(chan struct{})
	go func() {
		defer close(died)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for ctx.Err() == nil {
			if list, err := m.Guest().Processes(ctx); err == nil && len(list) > 1 {
				break
			}
		}
		timer := time.AfterFunc(time.Second, func() { close(gate) })
		defer timer.Stop()
		world.OutOfMemory(m.ID())
	}()
	// It outlives the order to end, so that the connection breaks under it.
	out, err := room.Run(t.Context(), exam.Command{Shell: "trap '' TERM; while :; do sleep 1; done"})
	<-died
	if err != nil || out.Died != "out_of_memory" || out.Detail == "" {
		t.Errorf("a command whose room died ends as %+v, error %v", out, err)
	}
	if _, err := room.Run(t.Context(), exam.Command{Shell: "true"}); err != nil {
		t.Errorf("a command in a dead room: %v", err)
	}
	if _, err := room.Files(t.Context(), []string{"*.xml"}, 1); !core.Is(err, core.Exhausted) {
		t.Errorf("files of a dead room: %v", err)
	}
}
