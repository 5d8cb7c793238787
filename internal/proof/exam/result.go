package exam

import (
	"time"

	"drydock/internal/proof/check"
)

// Verdict of an exam. The engine sets it, never a model.
type Verdict string

const (
	HandedOver Verdict = "handed_over"
	Broken     Verdict = "broken"
	Unproven   Verdict = "unproven"
	Proven     Verdict = "proven"
)

// Result is everything an exam found. It is plain data.
type Result struct {
	Exam     Exam      `json:"exam"`
	BaseTree string    `json:"base_tree,omitempty"`
	HeadTree string    `json:"head_tree,omitempty"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`

	Verdict  Verdict  `json:"verdict"`
	Code     string   `json:"code"`           // which line of the table decided; see docs/proof.md
	Tier     string   `json:"tier,omitempty"` // of a fault, where nothing could be judged
	Reasons  []string `json:"reasons"`        // sentences, the deciding one first
	NotShown []string `json:"not_shown"`      // what this verdict does not say

	Files    []FileChange `json:"files"`
	Runs     []RunRecord  `json:"runs"`
	Checks   []CheckRow   `json:"checks"`
	Cases    []CaseRow    `json:"cases"`
	Guards   []Guard      `json:"guards,omitempty"`
	Findings []Finding    `json:"findings,omitempty"`
	Faults   []RoomFault  `json:"faults,omitempty"`
	Coverage *Coverage    `json:"coverage,omitempty"`
	Pictures []Comparison `json:"pictures,omitempty"`
	Notes    []string     `json:"notes,omitempty"`

	Acknowledged []Acknowledgement `json:"acknowledged,omitempty"`
}

// RunRecord is one check run in one room.
type RunRecord struct {
	Cell      Cell          `json:"cell"`
	Try       int           `json:"try"`
	Check     string        `json:"check"`
	Command   string        `json:"command"`
	Commit    string        `json:"commit"`
	Overlay   []string      `json:"overlay,omitempty"` // files from the other side; "-path" is deleted
	Setup     bool          `json:"setup,omitempty"`   // dependencies were installed again before
	Cached    bool          `json:"cached,omitempty"`  // taken from an earlier exam of the same base
	ExitCode  int           `json:"exit_code"`
	TimedOut  bool          `json:"timed_out,omitempty"`
	Died      string        `json:"died,omitempty"`
	Started   time.Time     `json:"started"`
	Duration  time.Duration `json:"duration_ns"`
	Format    string        `json:"format"`
	Counts    check.Counts  `json:"counts"`
	Faults    []string      `json:"faults,omitempty"` // of its report
	Guards    []string      `json:"guards,omitempty"` // reason codes
	Artifacts []Artifact    `json:"artifacts,omitempty"`
}

// CheckRow sums up one check.
type CheckRow struct {
	Name     string                `json:"name"`
	Optional bool                  `json:"optional,omitempty"`
	Cells    map[Cell]check.Counts `json:"cells"`
	Classes  map[Class]int         `json:"classes"`
}

// Class says what became of a case.
type Class string

const (
	ClassFixed    Class = "fixed"
	ClassKept     Class = "kept"
	ClassBroken   Class = "broken"
	ClassRedBoth  Class = "red_before_and_after"
	ClassNew      Class = "new"
	ClassGone     Class = "gone"
	ClassSkipped  Class = "newly_skipped"
	ClassSkipBoth Class = "skipped"
	ClassOldFlake Class = "flaky"
	ClassNewFlake Class = "new_flake"
	ClassChanged  Class = "changed_expectation"
)

// CaseRow is one case across the cells.
type CaseRow struct {
	ID      check.ID                `json:"id"`
	Class   Class                   `json:"class"`
	Cells   map[Cell][]check.Status `json:"cells"`             // every try; absent cells did not show it
	Weak    bool                    `json:"weak,omitempty"`    // red on the old code, but not by an assertion or a crash of the code
	Noticed bool                    `json:"noticed,omitempty"` // strongly red on the old code, green now, often enough
	Moved   string                  `json:"moved,omitempty"`   // name of the case it replaces
	Fault   check.Fault             `json:"fault,omitempty"`   // of the deciding red try
	Message string                  `json:"message,omitempty"` // of the deciding red try
	Note    string                  `json:"note,omitempty"`
}

// Guard is a rule that says a report cannot be believed.
type Guard struct {
	Code  string `json:"code"`
	Check string `json:"check"`
	Cell  Cell   `json:"cell"`
	Text  string `json:"text"`
	Base  bool   `json:"base,omitempty"` // the base shows the same
}

// Codes of guards. docs/proof.md explains each.
const (
	GuardExit      = "exit_contradicts"
	GuardZero      = "zero_cases"
	GuardStale     = "report_stale"
	GuardPartial   = "report_partial"
	GuardMissing   = "report_missing"
	GuardInventory = "inventory_shrank"
	GuardSkips     = "skips_grew"
	GuardCoverage  = "coverage_empty"
	GuardCell      = "cell_lost"
	GuardPurge     = "purge_failed"
)

// Finding is something about the change itself that a person should see.
type Finding struct {
	ID       string    `json:"id"` // stable within one head: what an acknowledgement names
	Code     string    `json:"code"`
	Text     string    `json:"text"`
	Path     string    `json:"path,omitempty"`
	Line     int       `json:"line,omitempty"`
	Case     *check.ID `json:"case,omitempty"`
	Old      string    `json:"old,omitempty"` // the assertion before
	New      string    `json:"new,omitempty"` // the assertion now
	NeedsAck bool      `json:"needs_ack,omitempty"`
}

// Codes of findings.
const (
	FindExpectation = "changed_expectation"
	FindGone        = "case_gone"
	FindSkipped     = "case_newly_skipped"
	FindHarness     = "harness_edited"
	FindRecipe      = "recipe_edited"
	FindScript      = "check_script_edited"
	FindFewer       = "fewer_assertions"
	FindKnowsTests  = "code_knows_tests"
	FindFast        = "much_faster"
	FindCI          = "ci_edited"
	FindVendor      = "vendored_code_edited"
	FindSkipMark    = "skip_mark_added"
)

// RoomFault is a failure of the surroundings, not of the change.
type RoomFault struct {
	Cell  Cell   `json:"cell"`
	Try   int    `json:"try"`
	Check string `json:"check,omitempty"`
	Tier  string `json:"tier"`
	Text  string `json:"text"`
}

// Tiers of faults.
const (
	TierNothing     = "nothing_to_prove"
	TierPlatform    = "platform"    // the room could not be opened
	TierEnvironment = "environment" // checkout, services, or the base itself does not work
	TierSetup       = "setup"       // dependencies could not be installed
	TierServices    = "services"    // services did not become ready
	TierResources   = "resources"   // memory, disk, lifetime
	TierCheck       = "check"       // the check's command does not start or does not end
)

// Coverage tells which changed lines the tests ran.
type Coverage struct {
	Measured bool     `json:"measured"`
	Why      string   `json:"why,omitempty"`     // it was not measured
	Changed  int      `json:"changed"`           // changed lines with code in files of the profile
	Covered  int      `json:"covered"`           // of those
	Unrun    []string `json:"unrun,omitempty"`   // "file.go:10-14"
	NoData   []string `json:"no_data,omitempty"` // changed code files the profile does not mention
	Empty    bool     `json:"empty,omitempty"`   // the profile shows nothing run although cases passed
	// Files counts the same for each file.
	Files []FileCoverage `json:"files,omitempty"`
}

// FileCoverage is the part of one file.
type FileCoverage struct {
	Path    string `json:"path"`
	Changed int    `json:"changed"`
	Covered int    `json:"covered"`
}

// Acknowledgement is a named person's word that findings are meant.
type Acknowledgement struct {
	By       string    `json:"by"`
	Head     string    `json:"head"`
	Findings []string  `json:"findings"`
	Note     string    `json:"note,omitempty"`
	At       time.Time `json:"at"`
}
