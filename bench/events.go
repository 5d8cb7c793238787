package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // driver

	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/store"
)

const readers = 10

// payload is an event as a running tool makes them.
func payload() core.Event {
	return core.NewEvent(core.EventToolFinished, core.ToolData{
		Call: "call_01", Tool: "run", Title: "go test ./...", Output: strings.Repeat("ok  example.com/shop/cart 0.412s\n", 12), Duration: time.Second,
	})
}

// benchEvents writes into and reads from a log on disk. The floors write the
// same rows with the same driver and settings, in plain statements.
func benchEvents(ctx context.Context, b *bench) error {
	n, count := b.times(5, 2), 4000
	if b.opts.quick {
		count = 500
	}
	type measured struct{ ours, floor series }
	var one, many, out, again measured
	for i := range n {
		dir := filepath.Join(b.dir, fmt.Sprintf("events-%d", i))
		for _, m := range []struct {
			*measured
			ours, floor func(context.Context, string, int) (float64, error)
		}{
			{&one, logged(1), plain(1)},
			{&many, logged(16), plain(16)},
			{&out, followed, fanned},
			{&again, caughtUp, selected},
		} {
			ours, floor, err := bothRates(ctx, dir, count, i%2 == 1, m.ours, m.floor)
			if err != nil {
				return err
			}
			m.measured.ours, m.measured.floor = append(m.measured.ours, ours), append(m.measured.floor, floor)
		}
	}
	b.add(rates("events: in, 1 writer", "events/s", one.ours, one.floor, "the floor is one INSERT in one transaction each"))
	b.add(rates("events: in, 16 writers", "events/s", many.ours, many.floor, "the floor is 16 INSERTs in one transaction"))
	b.add(rates("events: in by 16 and out to 10 readers", "events/s", out.ours, out.floor, "the floor is 16 INSERTs in one transaction, then a send on each of 10 channels"))
	b.add(rates("events: out to 10 readers from the start", "events/s", again.ours, again.floor, "the floor is one SELECT of everything by each of 10 readers; counted once for all readers"))
	return nil
}

func bothRates(ctx context.Context, dir string, count int, swap bool, ours, floor func(context.Context, string, int) (float64, error)) (a, b float64, err error) {
	do := []func() error{
		func() (err error) { a, err = ours(ctx, dir+"-a", count); return err },
		func() (err error) { b, err = floor(ctx, dir+"-b", count); return err },
	}
	if swap {
		do[0], do[1] = do[1], do[0]
	}
	return a, b, errors.Join(do[0](), do[1]())
}

var files atomic.Int64

func fresh(dir string) string { return fmt.Sprintf("%s-%d.db", dir, files.Add(1)) }

func openLog(ctx context.Context, dir string) (*event.Log, func() error, error) {
	db, err := store.Open(ctx, store.Options{Path: fresh(dir)})
	if err != nil {
		return nil, nil, err
	}
	log := event.New(db, event.Options{})
	return log, func() error { log.Close(); return db.Close() }, nil
}

const subject = "ses_bench"

// write appends count events from several writers.
func write(ctx context.Context, log *event.Log, writers, count int) error {
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := w; i < count && errs[w] == nil; i += writers {
				_, errs[w] = log.Append(ctx, subject, payload())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// follow starts readers that end when they have seen count events.
func follow(ctx context.Context, log *event.Log, count int) (wait func() error) {
	var wg sync.WaitGroup
	errs := make([]error, readers)
	for r := range readers {
		wg.Go(func() {
			seen := int64(0)
			for e, err := range log.Follow(ctx, subject, 0) {
				if err != nil || e.Seq != seen+1 {
					errs[r] = fmt.Errorf("event %d after %d: %w", e.Seq, seen, err)
					return
				}
				if seen = e.Seq; seen == int64(count) {
					return
				}
			}
		})
	}
	return func() error { wg.Wait(); return errors.Join(errs...) }
}

func perSecond(count int, start time.Time) float64 {
	return float64(count) / time.Since(start).Seconds()
}

func logged(writers int) func(context.Context, string, int) (float64, error) {
	return func(ctx context.Context, dir string, count int) (float64, error) {
		log, closeLog, err := openLog(ctx, dir)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		err = write(ctx, log, writers, count)
		rate := perSecond(count, start)
		return rate, errors.Join(err, closeLog())
	}
}

func followed(ctx context.Context, dir string, count int) (float64, error) {
	log, closeLog, err := openLog(ctx, dir)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	wait := follow(ctx, log, count)
	err = errors.Join(write(ctx, log, 16, count), wait())
	rate := perSecond(count, start)
	return rate, errors.Join(err, closeLog())
}

func caughtUp(ctx context.Context, dir string, count int) (float64, error) {
	log, closeLog, err := openLog(ctx, dir)
	if err != nil {
		return 0, err
	}
	err = write(ctx, log, 64, count)
	start := time.Now()
	err = errors.Join(err, follow(ctx, log, count)())
	rate := perSecond(count, start)
	return rate, errors.Join(err, closeLog())
}

const insertRow = `INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

func openPlain(ctx context.Context, dir string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+fresh(dir)+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=temp_store(MEMORY)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE events (subject TEXT NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, kind TEXT NOT NULL,
		run TEXT NOT NULL, node TEXT NOT NULL, attempt TEXT NOT NULL, actor TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (subject, seq))`)
	return db, err
}

// insert writes count rows, so many in one transaction, and hands each
// transaction's rows to sent after it.
func insert(ctx context.Context, db *sql.DB, each, count int, sent func(core.Event)) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stmt, err := conn.PrepareContext(ctx, insertRow)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for at := 0; at < count; at += each {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		in := tx.StmtContext(ctx, stmt) //nolint:sqlclosecheck // ends with its transaction
		batch := make([]core.Event, 0, each)
		for i := at; i < min(at+each, count); i++ {
			e := payload()
			e.Seq = int64(i + 1)
			if _, err := in.ExecContext(ctx, subject, e.Seq, time.Now().UnixNano(), string(e.Kind), "", "", "", "", string(e.Data)); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			batch = append(batch, e)
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		for _, e := range batch {
			sent(e)
		}
	}
	return nil
}

func plain(each int) func(context.Context, string, int) (float64, error) {
	return func(ctx context.Context, dir string, count int) (float64, error) {
		db, err := openPlain(ctx, dir)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		err = insert(ctx, db, each, count, func(core.Event) {})
		rate := perSecond(count, start)
		return rate, errors.Join(err, db.Close())
	}
}

func fanned(ctx context.Context, dir string, count int) (float64, error) {
	db, err := openPlain(ctx, dir)
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var chans [readers]chan core.Event
	for i := range chans {
		chans[i] = make(chan core.Event, 64)
		wg.Go(func() {
			for range chans[i] { //nolint:revive // receiving is all
			}
		})
	}
	start := time.Now()
	err = insert(ctx, db, 16, count, func(e core.Event) {
		for _, c := range chans {
			c <- e
		}
	})
	for _, c := range chans {
		close(c)
	}
	wg.Wait()
	rate := perSecond(count, start)
	return rate, errors.Join(err, db.Close())
}

func selected(ctx context.Context, dir string, count int) (float64, error) {
	db, err := openPlain(ctx, dir)
	if err != nil {
		return 0, err
	}
	err = insert(ctx, db, 64, count, func(core.Event) {})
	start := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, readers)
	for r := range readers {
		wg.Go(func() { errs[r] = readAll(ctx, db, count) })
	}
	wg.Wait()
	rate := perSecond(count, start)
	return rate, errors.Join(err, errors.Join(errs...), db.Close())
}

func readAll(ctx context.Context, db *sql.DB, count int) error {
	rows, err := db.QueryContext(ctx, `SELECT subject, seq, at, kind, run, node, attempt, actor, data FROM events WHERE subject = ? ORDER BY seq`, subject)
	if err != nil {
		return err
	}
	defer rows.Close()
	seen := 0
	var e core.Event // the work of a reader is to have it whole
	for rows.Next() {
		var at int64
		var data string
		if err := rows.Scan(&e.Subject, &e.Seq, &at, &e.Kind, &e.Run, &e.Node, &e.Attempt, &e.Actor, &data); err != nil {
			return err
		}
		e.Time, e.Data = time.Unix(0, at), json.RawMessage(data)
		seen++
	}
	if seen != count || count > 0 && (e.Time.IsZero() || len(e.Data) == 0) {
		return fmt.Errorf("%d rows of %d were read, the last is %s", seen, count, e.Kind)
	}
	return rows.Err()
}
