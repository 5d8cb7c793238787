package core

// DiffRange says what is compared: base, head, seen (what the asking person
// last looked at), or a commit. Empty is base and head.
type DiffRange struct{ From, To string }

// ChangeDiff is what differs between two states of a change, in the order in which
// people should read it.
type ChangeDiff struct {
	From      string      `json:"from"` // commit
	To        string      `json:"to"`   // commit
	Base      string      `json:"base"` // where To left its base
	Digest    string      `json:"digest"`
	Interdiff bool        `json:"interdiff,omitempty"` // From stood on another base: what the base brought is left out
	Count     int         `json:"count"`
	Added     int         `json:"added"`
	Removed   int         `json:"removed"`
	Items     []DiffFile  `json:"items" nullable:"false"`
	Groups    []DiffGroup `json:"groups" nullable:"false"`
	More      int         `json:"more,omitempty"` // files that are counted and not listed
}

// DiffFile is one changed file. Path is for people: bytes that are not UTF-8
// are replaced; then Raw has all of them.
type DiffFile struct {
	N                  int           `json:"n"` // from 1, in reading order
	Path               string        `json:"path"`
	OldPath            string        `json:"old_path,omitempty"`
	Raw                []byte        `json:"raw,omitempty"`
	OldRaw             []byte        `json:"old_raw,omitempty"`
	Status             string        `json:"status" enum:"added,modified,deleted,renamed,copied,type,mode"`
	ModeOld            string        `json:"mode_old,omitempty"`
	ModeNew            string        `json:"mode_new,omitempty"`
	Kind               string        `json:"kind" enum:"text,binary,symlink,submodule,large"`
	Added              int           `json:"added"`
	Removed            int           `json:"removed"`
	OldBlob            string        `json:"old_blob,omitempty"` // of a submodule its commit
	NewBlob            string        `json:"new_blob,omitempty"`
	Size               int64         `json:"size"` // bytes of the new side, of the old one when it is deleted
	Role               string        `json:"role" enum:"source,test,ci,lock,rules,protected,generated,vendor,docs"`
	Group              int           `json:"group"` // place in groups, from 0
	Why                string        `json:"why,omitempty"`
	Coverage           *LineCoverage `json:"coverage,omitempty"`
	Viewed             bool          `json:"viewed"`
	ChangedSinceViewed bool          `json:"changed_since_viewed,omitempty"`
	BaseMoved          bool          `json:"base_moved,omitempty"` // of an interdiff: it also shows what the base brought
}

// LineCoverage counts changed lines that tests run.
type LineCoverage struct {
	Hit int `json:"hit"`
	Of  int `json:"of"`
}

// DiffGroup is files that are read together.
type DiffGroup struct {
	Name  string `json:"name"`
	Why   string `json:"why"`
	Mode  string `json:"mode" enum:"first,read,skim"`
	Files []int  `json:"files" nullable:"false"`
}

// FilePatch is what differs in one file: hunks, each beginning with @@, without
// a header. Raw has all bytes where Patch cannot.
type FilePatch struct {
	N     int    `json:"n,omitempty"`
	Patch string `json:"patch"`
	Raw   []byte `json:"raw,omitempty"`
	Cut   bool   `json:"cut,omitempty"` // it ends after a whole line, and there is more
	Bytes int64  `json:"bytes"`         // of all of it
}

// PatchRequest asks for patches of some files of a ChangeDiff.
type PatchRequest struct {
	DiffRange
	Files   string // "1,2,5-9"; empty is all
	Context int    // lines around a change; negative none, 0 three
	Whole   bool   // of one file: not cut at the usual bound
	Digest  string // of the ChangeDiff that numbers come from; a Conflict if it is another by now
}

// Patches is one answer; Next are the numbers to ask for next.
type Patches struct {
	Files []FilePatch
	Next  string
}

// DiffHit is one line of a patch in which a text was found.
type DiffHit struct {
	N    int    `json:"n"`
	Side string `json:"side" enum:"old,new"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// DiffHits is what a search found. Total counts on when Items is full; Capped
// says that not everything was searched or listed.
type DiffHits struct {
	Items  []DiffHit `json:"items" nullable:"false"`
	Total  int       `json:"total"`
	Capped bool      `json:"capped,omitempty"`
}
