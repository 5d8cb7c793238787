// Package proving ties the exam of package proof to sessions: it turns a
// recipe into an exam, opens clean rooms, keeps the evidence, and says what
// the verdict means for the run that asked.
//
// It judges nothing; package exam does. It may be used by many goroutines: one
// exam at a time for each session, bounded rooms in all.
package proving
