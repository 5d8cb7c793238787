// Package evidence turns the result of an exam into a bundle that can be taken
// away, checked and run again without Drydock's server.
//
// A bundle is a directory, or a tar file of it:
//
//	manifest.json           the whole result, and what artifacts belong to it
//	artifacts/sha256/<hex>  logs, reports, pictures, named by what they are
//	evidence.intoto.jsonl   signed statements, one DSSE envelope a line
//
// docs/formats/evidence.md describes every part. The package decides nothing
// about a change; it keeps, signs, verifies, compares and prints.
//
// Invariants: logs are redacted and cut before they are hashed; one statement
// lists the digest of every other statement and of every artifact, so that
// nothing can be altered, removed or added unseen; Verify never trusts a size
// or a name that a bundle tells.
//
// Functions may be called from any goroutine; two writers must not share a
// directory.
//
//	keeper := evidence.Keeper{Blobs: blobs}                  // exam.Deps.Artifacts
//	summary, err := evidence.Write(ctx, dir, evidence.Input{Result: result, Blobs: blobs, Key: key})
//	report, err := evidence.Verify(ctx, dir, []evidence.PublicKey{key.Public()})
package evidence
