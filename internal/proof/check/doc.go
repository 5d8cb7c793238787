// Package check knows what a test case is, and reads the reports that test
// programs write: go test -json, JUnit XML, TAP, or a bare exit code.
//
// It runs nothing and decides nothing. Reports come from a place nobody
// trusts: every reader is bounded, none returns an error, and what could be
// read of a broken report is kept and marked partial, with the reason among
// its faults.
//
// Invariants: an identity occurs once in a report (several tries of one case
// are one case); of several tries the worst status stays; a case that started
// and never ended is never green.
//
// All functions are pure and may be called from any goroutine.
//
//	src, err := check.ParseSource("junit:reports/*.xml")
//	report := check.Read(src.Format, file, check.Options{Check: "test", Root: "/workspace"})
//	fmt.Println(report.Count().Failed, report.Partial)
package check
