// Package session is the life of sessions: their prompts in a queue, one
// runner for each, stops, budgets, and going on after the daemon was killed.
//
// It does not do the work: an Executor does (the blueprint engine). It starts
// no sandbox, calls no model and writes no code.
//
// Invariants. What Create or Prompt acknowledged is stored and will be run
// once for each claim, in the order of the queue. A session has at most one
// running prompt (an index of the store sees to it) and at most one runner
// that may write (the fence of its lease sees to it). Every change of state is
// one transaction with the event that tells of it. A stop, a pause and an
// archive are changes of state: they need no living runner.
//
// Ends of a run:
//
//	Execute returns an ending     the run is done, handed over, failed or stopped
//	budget spent                  the run waits; RaiseBudget lets it go on
//	Stop                          the run is stopped, later prompts are held
//	shutdown, kill -9, lost lease nothing is written; the run is claimed again
//	                              and executed with Resumed set
//
// A Service is used by many goroutines and several Services may share one
// store. Run owns every goroutine and waits for them.
//
//	service, err := session.New(session.Deps{Store: db, Log: log, Executor: engine}, session.Options{Instance: id})
//	go service.Run(ctx)
//	s, prompt, err := service.Create(ctx, core.NewSession{Environment: "shop", Prompt: core.NewPrompt{Author: alice, Text: "fix it"}})
package session
