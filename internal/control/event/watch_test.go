package event_test

import (
	"path/filepath"
	"slices"
	"testing"

	"drydock/internal/core"
)

func TestAWatchTellsWhichSessionsGotEvents(t *testing.T) {
	log, _ := open(t, filepath.Join(t.TempDir(), "drydock.db"))
	w, other := log.Watch(), log.Watch()
	defer other.Close()
	add := func(subject string) {
		t.Helper()
		if _, err := log.Append(t.Context(), subject, core.NewEvent(core.EventLog, core.LogData{Text: "x"})); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 { // nobody looks, and nobody waits
		add("ses_a")
		add("ses_b")
	}
	add("bld_a")
	<-w.Wake()
	got := w.Take()
	if slices.Sort(got); !slices.Equal(got, []string{"ses_a", "ses_b"}) {
		t.Errorf("got events: %v", got)
	}
	if got := w.Take(); len(got) != 0 {
		t.Errorf("told twice: %v", got)
	}
	add("ses_c")
	<-w.Wake()
	if got := w.Take(); !slices.Equal(got, []string{"ses_c"}) {
		t.Errorf("got events: %v", got)
	}
	w.Close()
	add("ses_d")
	if got := w.Take(); len(got) != 0 {
		t.Errorf("a closed watch is told of %v", got)
	}
	if got := other.Take(); len(got) != 4 {
		t.Errorf("the other one was told of %v", got)
	}
}
