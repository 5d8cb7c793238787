package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"
	"golang.org/x/sync/semaphore"

	"drydock/internal/core"
)

//go:embed migrations
var migrations embed.FS

// Options say where the database is.
type Options struct {
	Path    string        // of the SQLite file; its directory must exist
	Readers int           // connections for reading; default 4
	Busy    time.Duration // how long to wait for another process; default 10 s
}

// DB is an open database. Close it.
type DB struct {
	Reader
	Writer

	d       dialect
	path    string
	busy    time.Duration
	writer  *sql.DB
	readers *sql.DB
	views   *sql.DB             // of View alone: what runs in one may read otherwise too, and must not wait for itself
	turn    *semaphore.Weighted // held from begin to the end of the commit hooks, in order of arrival
	writes  statements          // of writer, used by the holder of turn

	mu    sync.Mutex
	reads statements // of readers, guarded by mu
}

// Tx is one writing transaction. It sees its own writes.
type Tx struct {
	Reader
	Writer

	after []func()
}

// Open opens the database, creates it if it is not there, and brings its
// tables up to date.
func Open(ctx context.Context, opts Options) (*DB, error) {
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	if opts.Busy <= 0 {
		opts.Busy = 10 * time.Second
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil || opts.Path == "" {
		return nil, core.E("store.open", core.Invalid, err, "path of the database %q", opts.Path)
	}
	unlock, err := prepareFile(path)
	if err != nil {
		return nil, err
	}
	defer unlock()

	db := &DB{d: sqliteDialect(), path: path, busy: opts.Busy, turn: semaphore.NewWeighted(1)}
	if db.writer, err = sql.Open("sqlite", sqliteDSN(path, opts.Busy, false)); err != nil {
		return nil, core.E("store.open", core.Unavailable, err, "open the database %s", path)
	}
	db.writer.SetMaxOpenConns(1)
	if err := errors.Join(checkSQLite(ctx, db.writer), db.migrate(ctx)); err != nil {
		return nil, errors.Join(err, db.writer.Close())
	}
	if db.readers, err = sql.Open("sqlite", sqliteDSN(path, opts.Busy, true)); err != nil {
		return nil, errors.Join(core.E("store.open", core.Unavailable, err, "open the database %s", path), db.writer.Close())
	}
	if db.views, err = sql.Open("sqlite", sqliteDSN(path, opts.Busy, true)); err != nil {
		return nil, errors.Join(core.E("store.open", core.Unavailable, err, "open the database %s", path), db.readers.Close(), db.writer.Close())
	}
	for _, pool := range []*sql.DB{db.readers, db.views} {
		pool.SetMaxOpenConns(opts.Readers)
		pool.SetMaxIdleConns(opts.Readers)
	}
	db.Reader = Reader{conn{db.readers, db.d, db.preparedRead}}
	db.Writer = Writer{func(ctx context.Context, fn func(conn) error) error {
		return db.Tx(ctx, func(tx *Tx) error { return fn(tx.Reader.q) })
	}}
	return db, nil
}

// prepareFile makes the database readable to its owner alone, and holds a lock
// so that two processes do not migrate at once.
func prepareFile(path string) (unlock func(), err error) {
	// Never opened when it is there: closing a file drops every POSIX lock that
	// this process has on it, SQLite's among them.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, core.E("store.open", core.Unavailable, err, "open the database %s", path)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, core.E("store.open", core.Unavailable, err, "open the lock of the database %s", path)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(core.E("store.open", core.Unavailable, err, "lock the database %s", path), lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}

func (db *DB) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations/"+db.d.name)
	if err != nil {
		return core.E("store.migrate", core.Internal, err, "migrations of %s", db.d.name)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.writer, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return core.E("store.migrate", core.Internal, err, "read the migrations of %s", db.d.name)
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return core.E("store.migrate", core.Unavailable, err, "read the version of the database %s", db.path)
	}
	if current > target {
		return core.E("store.migrate", core.Conflict, nil, "database %s has version %d, this drydock knows up to %d", db.path, current, target).
			WithHint("use the newer drydock, or restore a backup made before the upgrade")
	}
	if _, err := provider.Up(ctx); err != nil {
		return core.E("store.migrate", core.Unavailable, err, "bring the database %s from version %d to %d", db.path, current, target)
	}
	return nil
}

// Close ends every connection. Transactions under way fail.
func (db *DB) Close() error {
	return errors.Join(db.views.Close(), db.readers.Close(), db.writer.Close())
}

// Path is the file of the database.
func (db *DB) Path() string { return db.path }

// Tx runs fn in one transaction: all of it is stored, or nothing when fn
// returns an error or panics. Transactions wait their turn in order.
func (db *DB) Tx(ctx context.Context, fn func(*Tx) error) error {
	if err := db.turn.Acquire(ctx, 1); err != nil {
		return core.E("store.tx", core.KindOf(err), err, "wait for the database")
	}
	defer db.turn.Release(1)
	sqlTx, err := db.writer.BeginTx(ctx, nil)
	if err != nil {
		return db.d.explain(ctx, "store.tx", err, "begin a transaction")
	}
	defer func() { _ = sqlTx.Rollback() }() // does nothing after Commit
	c := conn{sqlTx, db.d, func(ctx context.Context, query string) *sql.Stmt {
		if stmt := db.writes.find(query); stmt != nil {
			return sqlTx.StmtContext(ctx, stmt)
		}
		return nil
	}}
	tx := &Tx{
		Reader: Reader{c},
		Writer: Writer{func(_ context.Context, fn func(conn) error) error { return fn(c) }},
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := sqlTx.Commit(); err != nil {
		return db.d.explain(ctx, "store.tx", err, "commit a transaction")
	}
	for _, hook := range tx.after {
		hook()
	}
	db.writes.prepare(ctx, db.writer, db.d)
	return nil
}

// View runs fn on one state of the database: what it reads belongs together,
// whatever is written meanwhile. fn must not call View.
func (db *DB) View(ctx context.Context, fn func(Reader) error) error {
	tx, err := db.views.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return db.d.explain(ctx, "store.view", err, "begin to read")
	}
	defer func() { _ = tx.Rollback() }()
	return fn(Reader{conn{tx, db.d, func(context.Context, string) *sql.Stmt { return nil }}})
}

// OnCommit calls fn after the transaction is stored, and not at all if it is
// not. Hooks of all transactions run one after the other, in commit order;
// they must be quick and must not use the store.
func (tx *Tx) OnCommit(fn func()) { tx.after = append(tx.after, fn) }

// Backup writes a consistent copy of the database to a new file while work
// goes on.
func (db *DB) Backup(ctx context.Context, file string) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return core.E("store.backup", core.Conflict, err, "file %s exists already", file).WithHint("name a new file")
	}
	source, err := sql.Open("sqlite", sqliteDSN(db.path, db.busy, false))
	if err != nil {
		return core.E("store.backup", core.Unavailable, err, "open the database %s", db.path)
	}
	defer source.Close()
	partial := file + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.E("store.backup", core.Unavailable, err, "remove the unfinished backup %s", partial)
	}
	if _, err := source.ExecContext(ctx, `VACUUM INTO ?`, partial); err != nil {
		return errors.Join(db.d.explain(ctx, "store.backup", err, "backup "+file), removeIfThere(partial))
	}
	if err := errors.Join(os.Chmod(partial, 0o600), syncPath(partial)); err != nil {
		return core.E("store.backup", core.Unavailable, err, "write the backup %s", file)
	}
	if err := os.Rename(partial, file); err != nil {
		return core.E("store.backup", core.Unavailable, err, "write the backup %s", file)
	}
	if err := syncPath(filepath.Dir(file)); err != nil {
		return core.E("store.backup", core.Unavailable, err, "write the backup %s", file)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
