// Package store keeps every record of Drydock in one SQL database: SQLite in
// WAL mode, one writer and a pool of readers. It knows rows and nothing of
// what they mean, except three things it alone can promise: a state moves only
// along an edge of its core table, one session never has two running prompts,
// and an event's number follows its predecessor's without a gap.
//
// Reads are methods of Reader, writes of Writer; both DB and Tx have both. A
// write called on DB is a transaction of its own. Several writes that belong
// together go through DB.Tx:
//
//	err := db.Tx(ctx, func(tx *store.Tx) error {
//		session, err := tx.UpdateSession(ctx, id, func(s *core.Session) error {
//			s.State, s.Reason = core.SessionIdle, "done"
//			return nil
//		})
//		...
//	})
//
// Inside the function only the Tx may write: a write on DB from there would
// wait for itself. Functions given to Update see the row as it is in the
// transaction, so nothing that another writer did is overwritten.
//
// Errors are *core.Error: NotFound with the object's name, Conflict for a
// unique violation or a state that does not allow the change, Unavailable for
// a busy or full database.
//
// Lists are paged by an opaque cursor and are stable while rows are added:
// identifiers sort by the time they were made, newest first.
//
// A DB is used by many goroutines and by several processes at once; a Tx
// belongs to one goroutine.
package store
