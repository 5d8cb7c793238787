// Package blueprint runs declared state machines: nodes that are fixed steps
// or agent work, edges that are named results, caps that the engine enforces
// and no prompt can lift.
//
// A machine is a YAML file (docs/formats/blueprint.md), parsed strictly and
// checked before anything runs: every result of every node has an edge, every
// edge leads somewhere, every loop goes through a node with a cap, and an end
// can be reached from everywhere.
//
// The engine is journaled: position is a column of the run's row, and moving
// is one transaction that closes the attempt, hands on the data and writes the
// event. Resuming after a kill is reading that row. The attempt that was under
// way keeps its identifier, so that a step can find what it had started.
//
// The package knows no step by heart: Steps are handed in (package codechange
// has those of the default machine). It starts no goroutines; one Engine may
// execute many runs at once.
//
//	m, err := blueprint.Parse("code-change.yaml", data)
//	eng, err := blueprint.New(blueprint.Deps{Journal: j, Steps: steps}, []blueprint.Machine{m})
//	end, err := eng.Execute(ctx, job)
package blueprint
