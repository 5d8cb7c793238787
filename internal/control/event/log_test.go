package event_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, path string) (*event.Log, *store.DB) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	log := event.New(db, event.Options{})
	t.Cleanup(func() {
		log.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return log, db
}

func fresh(t testing.TB) (*event.Log, *store.DB) {
	return open(t, filepath.Join(t.TempDir(), "db"))
}

func note(format string, args ...any) core.Event {
	return core.NewEvent(core.EventLog, core.LogData{Text: fmt.Sprintf(format, args...)})
}

func mustAppend(t testing.TB, log *event.Log, subject string, events ...core.Event) []core.Event {
	t.Helper()
	stored, err := log.Append(t.Context(), subject, events...)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// follow collects stored events up to a number and reports gaps and doubles.
func follow(ctx context.Context, log *event.Log, subject string, after, until int64) error {
	next := after + 1
	for e, err := range log.Follow(ctx, subject, after) {
		if err != nil {
			return err
		}
		if e.Kind == core.EventDelta {
			continue
		}
		if e.Seq != next || e.Subject != subject {
			return fmt.Errorf("got event %d of %s, want %d of %s", e.Seq, e.Subject, next, subject)
		}
		if e.Seq == until {
			return nil
		}
		next++
	}
	return fmt.Errorf("ended at %d, want %d: %w", next-1, until, context.Cause(ctx))
}

func TestAppendNumbersWithoutAGap(t *testing.T) {
	log, _ := fresh(t)
	mustAppend(t, log, "ses_a", note("1"), note("2"))
	stored := mustAppend(t, log, "ses_a", note("3"))
	mustAppend(t, log, "ses_b", note("other"))
	if stored[0].Seq != 3 || stored[0].Subject != "ses_a" || stored[0].Time.IsZero() {
		t.Errorf("stored %+v", stored[0])
	}
	events, err := log.Read(t.Context(), "ses_a", 1, 10)
	if err != nil || len(events) != 2 || events[0].Seq != 2 {
		t.Errorf("read after 1: %+v %v", events, err)
	}
}

func TestAppendRefuses(t *testing.T) {
	log, _ := fresh(t)
	for name, e := range map[string]core.Event{
		"no kind": {Data: []byte("{}")},
		"delta":   core.NewEvent(core.EventDelta, core.TextData{}),
		"no data": {Kind: core.EventLog},
		"large":   note("%s", strings.Repeat("x", event.MaxData)),
	} {
		if _, err := log.Append(t.Context(), "ses_a", note("good"), e); !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if events, err := log.Read(t.Context(), "ses_a", 0, 10); err != nil || len(events) != 0 {
		t.Errorf("a refused append stored %d events (%v)", len(events), err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := log.Append(gone, "ses_a", note("x")); !core.Is(err, core.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestFencedAppendOfALostLease(t *testing.T) {
	log, db := fresh(t)
	old, err := db.Claim(t.Context(), "l", "one", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.AppendFenced(t.Context(), old, "ses_a", note("mine")); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Seize(t.Context(), "l", "two", time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 { // refused entries share a transaction with good ones
		wg.Go(func() {
			if _, err := log.AppendFenced(t.Context(), old, "ses_a", note("late")); !errors.Is(err, store.ErrLeaseLost) {
				t.Errorf("late append: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := log.Append(t.Context(), "ses_a", note("good")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if last, err := db.LastEvent(t.Context(), "ses_a"); err != nil || last != 9 {
		t.Errorf("last event %d (%v), want 9", last, err)
	}
}

func TestAppendTxIsSeenAfterTheCommitOnly(t *testing.T) {
	log, db := fresh(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- follow(ctx, log, "ses_a", 0, 1) }()
	boom := errors.New("boom")
	err := db.Tx(ctx, func(tx *store.Tx) error {
		if _, err := log.AppendTx(ctx, tx, "ses_a", note("never")); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if events, err := log.Read(ctx, "ses_a", 0, 10); err != nil || len(events) != 0 {
		t.Fatalf("%d events of a transaction that failed (%v)", len(events), err)
	}
	err = db.Tx(ctx, func(tx *store.Tx) error {
		_, err := log.AppendTx(ctx, tx, "ses_a", note("now"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Followers that come at any time, quick and slow, in this process and in
// another one, see every event once and in order while many write.
func TestFollowersMissNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	log, _ := open(t, path)
	other, _ := open(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	const writers, each = 6, 200
	const total = writers * each
	var wg sync.WaitGroup
	for w := range writers {
		l := log
		if w == 0 {
			l = other
		}
		wg.Go(func() {
			for i := range each {
				if _, err := l.Append(ctx, "ses_a", note("%d %d", w, i)); err != nil {
					t.Error(err)
				}
				log.Delta("ses_a", "x")
			}
		})
	}
	for i := range 10 {
		l := log
		if i%5 == 4 {
			l = other
		}
		wg.Go(func() {
			if err := follow(ctx, l, "ses_a", int64(i), total); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() { // comes back again and again
		for after := int64(0); after < total; {
			upTo := min(after+37, total)
			if err := follow(ctx, log, "ses_a", after, upTo); err != nil {
				t.Error(err)
				return
			}
			after = upTo
		}
	})
	wg.Wait()
}

func TestFollowEndsWithItsContext(t *testing.T) {
	log, _ := fresh(t)
	mustAppend(t, log, "ses_a", note("1"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range log.Follow(ctx, "ses_a", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestFollowTellsOfABrokenStore(t *testing.T) {
	log, db := fresh(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range log.Follow(t.Context(), "ses_a", 0) {
		last = err
	}
	if last == nil {
		t.Error("a closed store went unnoticed")
	}
}

// Deltas are joined, come at most every 100 ms, keep their place among stored
// events, and are not stored.
func TestDeltas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(context.Background(), store.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		log := event.New(db, event.Options{})
		log.Delta("ses_a", "nobody hears this")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		type seen struct {
			at   time.Duration
			text string
		}
		var got []seen
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			for e, err := range log.Follow(ctx, "ses_a", 0) {
				if err != nil {
					t.Error(err)
				}
				got = append(got, seen{time.Since(start).Truncate(time.Millisecond), string(e.Data)})
			}
		})
		time.Sleep(time.Millisecond)
		for i := range 20 { // 10 ms apart: 200 ms of text
			log.Delta("ses_a", fmt.Sprintf("%x", i%16))
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := log.Append(context.Background(), "ses_a", note("end")); err != nil {
			t.Error(err)
		}
		log.Delta("ses_a", "after")
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		log.Close()
		all, ends := "", 0
		for i, s := range got {
			text := s.text
			if strings.Contains(text, "end") {
				ends++
				all += "|"
				continue
			}
			all += strings.TrimSuffix(strings.TrimPrefix(text, `{"text":"`), `"}`)
			if i > 1 && i < len(got)-2 && s.at-got[i-1].at < 90*time.Millisecond {
				t.Errorf("deltas at %v and %v", got[i-1].at, s.at)
			}
		}
		if all != "0123456789abcdef0123|after" || ends != 1 {
			t.Errorf("got %q", all)
		}
		if len(got) > 7 {
			t.Errorf("%d pieces for 200 ms of text", len(got))
		}
		events, err := log.Read(context.Background(), "ses_a", 0, 10)
		if err != nil || len(events) != 1 {
			t.Errorf("%d stored events, %v", len(events), err)
		}
	})
}

func TestDeltasOfASlowFollowerAreBounded(t *testing.T) {
	log, _ := fresh(t)
	mustAppend(t, log, "ses_a", note("1"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	total := 0
	for e, err := range log.Follow(ctx, "ses_a", 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case core.EventDelta:
			total += len(e.Data)
			if strings.Contains(string(e.Data), "last") {
				cancel()
			}
		default: // while it dawdles, a megabyte is generated
			for i := range 1024 {
				log.Delta("ses_a", strings.Repeat("x", 1024))
				if i%100 == 0 {
					mustAppend(t, log, "ses_b", note("unrelated"))
				}
			}
			log.Delta("ses_a", "last")
		}
	}
	if total > 256<<10 {
		t.Errorf("%d bytes were kept", total)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			log, _ := fresh(b)
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := log.Append(context.Background(), "ses_a", note("some text of a tool that ran")); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkFollow10(b *testing.B) {
	log, _ := fresh(b)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := follow(ctx, log, "ses_a", 0, int64(b.N)); err != nil {
				b.Error(err)
			}
		})
	}
	b.ResetTimer()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := w; i < b.N; i += 8 {
				if _, err := log.Append(ctx, "ses_a", note("some text of a tool that ran")); err != nil {
					b.Error(err)
				}
			}
		})
	}
	writers.Wait()
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "delivered/s")
}
