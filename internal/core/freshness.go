package core

import "time"

// EnvironmentState says how an environment stands. The server works it out; it
// is stored nowhere.
type EnvironmentState string

const (
	// EnvironmentFresh: a build has lately found the snapshot right, at the head
	// of the base branch.
	EnvironmentFresh EnvironmentState = "fresh"
	// EnvironmentStale: no build has for twice the interval, the branch has moved
	// on, or there is no snapshot yet.
	EnvironmentStale EnvironmentState = "stale"
	// EnvironmentFailing: the last build failed; the last good snapshot is in use.
	EnvironmentFailing EnvironmentState = "failing"
	// EnvironmentBuilding: a build is queued or running.
	EnvironmentBuilding EnvironmentState = "building"
	// EnvironmentPinned: somebody went back to an earlier snapshot.
	EnvironmentPinned EnvironmentState = "pinned"
)

// Freshness is how an environment stands, and what comes next.
type Freshness struct {
	State      EnvironmentState `json:"state"`
	Why        string           `json:"why,omitempty"`         // for people
	StaleSince time.Time        `json:"stale_since,omitzero"`  // also set while it is failing or building
	Made       time.Time        `json:"made,omitzero"`         // when the snapshot in use was made
	Checked    time.Time        `json:"checked,omitzero"`      // when a build last found it right, or made it
	Old        bool             `json:"old,omitempty"`         // the snapshot is older than max_age
	Commit     string           `json:"commit,omitempty"`      // of the snapshot in use
	Head       string           `json:"head,omitempty"`        // of the base branch, as last seen
	Build      BuildID          `json:"build,omitempty"`       // that is queued or running
	Failures   int              `json:"failures,omitempty"`    // in a row
	Failure    *Failure         `json:"failure,omitempty"`     // of the last one
	Next       time.Time        `json:"next_build,omitzero"`   // absent: none is planned
	NextWhy    string           `json:"next_reason,omitempty"` // interval, push, retry, interrupted, old
	Pinned     SnapshotID       `json:"pinned,omitempty"`
	PinnedBy   string           `json:"pinned_by,omitempty"`
	PinnedAt   time.Time        `json:"pinned_at,omitzero"`
	Refresh    time.Duration    `json:"refresh_ns"` // 0: never by itself
	MaxAge     time.Duration    `json:"max_age_ns"` // 0: any age is fine
}

// Platform is who does what nobody asked for by hand.
func Platform() Author {
	return Author{Handle: "platform", Name: "Drydock", Email: "drydock@localhost"}
}
