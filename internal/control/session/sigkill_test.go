package session_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"drydock/internal/control/session"
	"drydock/internal/core"
)

// TestVictim is not a test of its own: it is the daemon that TestSIGKILL kills.
func TestVictim(t *testing.T) {
	file := os.Getenv("DRYDOCK_TEST_VICTIM")
	if file == "" {
		t.Skip("run by TestSIGKILL")
	}
	d := newDaemon(t, file, &stepper{world: &world{times: map[string]int{}}}, session.Options{MaxRunning: 4})
	d.start()
	for {
		s, _ := d.create(alice, "one")
		d.prompt(s.ID, bob, "two")
		go func() { // what a client was shown
			for e, err := range d.log.Follow(context.Background(), string(s.ID), 0) {
				if err == nil && e.Seq > 0 {
					fmt.Println("shown", s.ID, e.Seq, e.Kind)
				}
			}
		}()
		fmt.Println("acknowledged", s.ID)
	}
}

// A real process, really killed: what it acknowledged is run by the next life,
// what it showed is in the log.
func TestSIGKILL(t *testing.T) {
	file := path(t)
	func() {
		d := newDaemon(t, file, &engine{}, session.Options{})
		addEnvironment(t, d.db, "shop")
		d.kill()
	}()
	acknowledged, shown := map[core.SessionID]bool{}, map[core.SessionID]map[int64]core.EventKind{}
	total := 0
	for life := range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
		cmd.Env = append(os.Environ(), "DRYDOCK_TEST_VICTIM="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			switch f := strings.Fields(lines.Text()); {
			case len(f) == 2 && f[0] == "acknowledged":
				acknowledged[core.SessionID(f[1])] = true
			case len(f) == 4 && f[0] == "shown":
				id := core.SessionID(f[1])
				if shown[id] == nil {
					shown[id] = map[int64]core.EventKind{}
				}
				seq, err := strconv.ParseInt(f[2], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				shown[id][seq] = core.EventKind(f[3])
				total++
			}
			if n == 150+100*life {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
	}
	if len(acknowledged) < 5 || total < 50 {
		t.Fatalf("only %d sessions acknowledged, %d events shown", len(acknowledged), total)
	}
	last := newDaemon(t, file, &stepper{world: &world{times: map[string]int{}}}, session.Options{MaxRunning: 4, Poll: 20 * time.Millisecond})
	last.start()
	for id := range acknowledged {
		last.wait(id, core.SessionIdle)
		if got := strings.Join(last.states(id), ", "); got != "one done, two done" && got != "one done" { // killed between the two
			t.Errorf("%s: %s", id, got)
		}
	}
	for id, kinds := range shown {
		events := last.events(id)
		for seq, kind := range kinds {
			if seq > int64(len(events)) || events[seq-1].Kind != kind {
				t.Errorf("event %d of %s was shown as %s and is not in the log", seq, id, kind)
			}
		}
	}
}
