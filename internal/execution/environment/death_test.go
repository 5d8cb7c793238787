package environment_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/fake"
)

// silent kills a sandbox whose death the driver does not notice before notice
// is called, and returns the error of a guest that does not answer.
func (w *world) silent(m *environment.Machine) (notice func(), silence error) {
	w.t.Helper()
	gate := make(chan struct{})
	w.host.Faults.Set(fake.Notice, fake.Fault{Hang: true, Until: gate, Times: 1})
	died := make(chan struct{})
	go func() {
		w.host.OutOfMemory(m.ID())
		close(died)
	}()
	notice = func() { close(gate) }
	w.t.Cleanup(func() { <-died })
	ctx, cancel := context.WithTimeout(w.t.Context(), w.patience)
	defer cancel()
	for {
		if _, err := m.Guest().Health(ctx); err != nil {
			return notice, err
		}
	}
}

func TestDeathIsNoticedLate(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\n"})
	w.build(environment.BuildRequest{})
	m := w.launch(environment.LaunchRequest{})

	refused := core.E("test", core.NotFound, nil, "no such file")
	if err := m.Explain(t.Context(), refused); !errors.Is(err, refused) {
		t.Errorf("an answer of the guest became %v", err)
	}
	notice, silence := w.silent(m)
	if !guest.Silent(silence) || guest.Silent(refused) {
		t.Errorf("silent: %v", silence)
	}
	// Nobody knows of a death yet: the error stays what it is.
	start := time.Now()
	err := m.Explain(t.Context(), silence)
	if _, dead := errors.AsType[*environment.DeadError](err); dead || !errors.Is(err, silence) {
		t.Errorf("an unnoticed death is %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the driver was waited for %s", took)
	}
	// The driver may take longer than a moment.
	timer := time.AfterFunc(time.Second, notice)
	defer timer.Stop()
	err = m.Explain(t.Context(), silence)
	dead, ok := errors.AsType[*environment.DeadError](err)
	if !ok || dead.Status.Cause != sandbox.CauseMemory || !core.Is(err, core.Exhausted) || !strings.Contains(core.HintOf(err), "limits.memory") {
		t.Fatalf("death by memory is %v", err)
	}
	if again := m.Explain(t.Context(), err); !errors.Is(again, err) {
		t.Errorf("explained twice: %v", again)
	}
	if err := m.StopServices(t.Context()); !errors.As(err, &dead) {
		t.Errorf("stopping services of a dead sandbox: %v", err)
	}
}

// A build whose sandbox dies says why, however late the driver knows.
func TestBuildDeathIsNoticedLate(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nsetup: sleep 1000\n"})
	gate := make(chan struct{})
	w.host.Faults.Set(fake.Notice, fake.Fault{Hang: true, Until: gate, Times: 1})
	b, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo})
	if err != nil {
		t.Fatal(err)
	}
	w.until(b.ID, func(b core.Build) bool {
		return len(b.Phases) > 0 && b.Phases[len(b.Phases)-1].Name == environment.PhaseCheckout
	})
	ids, err := w.driver.List(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	timer := time.AfterFunc(time.Second, func() { close(gate) })
	defer timer.Stop()
	w.host.OutOfMemory(ids[0])
	if b = w.wait(b.ID); b.State != core.BuildFailed || b.Failure.Code != "out_of_memory" {
		t.Errorf("build ended as %+v, failure %+v", b, b.Failure)
	}
	w.leftovers()
}
