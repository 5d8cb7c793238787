package capacity

import (
	"fmt"
	"strconv"
	"time"
)

// What comes first when room is scarce.
const (
	rankRunning = iota // a session that runs, and its proof rooms
	rankSession        // a session that has not begun
	rankBuild
	rankWarm
)

func rank(p Purpose) int {
	switch p {
	case Build:
		return rankBuild
	case Warm:
		return rankWarm
	}
	return rankRunning // the sandbox of a session is started by its run
}

func noun(p Purpose) string {
	switch p {
	case Proof:
		return "proof room"
	case Warm:
		return "warm sandbox"
	}
	return p
}

// Shortage is what is missing; its zero value is nothing.
type Shortage struct {
	Kind string // "memory", "disk", "storage", "processors" or "threads"
	Text string
	want int64 // bytes of memory that would do

	passes bool // it gets in all the same, once what is warm was given back
}

// String is "" or what follows "waits for".
func (s Shortage) String() string {
	if s.Kind == "" {
		return ""
	}
	return s.Kind + ": " + s.Text
}

func (s Shortage) hint() string {
	switch s.Kind {
	case "memory":
		return "it goes on by itself when memory is free; `drydock capacity` shows what has it, capacity.memory_reserve in the configuration is kept back"
	case "disk":
		return "it goes on by itself when the disk has room: `drydock snapshot gc` removes what nothing needs, capacity.disk_reserve in the configuration is kept free"
	case "storage":
		return "it goes on by itself when snapshots take less: `drydock snapshot gc --verbose` tells what is kept and why; archive sessions, remove environments, or raise storage.max in the configuration"
	case "threads":
		return "it goes on by itself when sandboxes end; sysctl kernel.pid_max and kernel.threads-max bound the threads of the host"
	case "processors":
		return "it goes on by itself when sandboxes end; capacity.per_processor in the configuration bounds them"
	}
	return ""
}

// floor is what a sandbox is promised at least.
func (k *Keeper) floor(p Purpose, busy bool) int64 {
	if p == Warm || !busy {
		return k.opts.FloorIdle
	}
	return k.opts.FloorSession
}

// busy says whether a sandbox works: one of a session that does not run idles.
func (k *Keeper) busy(p Purpose, owner string) bool {
	return p != Warm && (p != Session || k.entered[owner] > 0)
}

// promised is what stands against the host, now and soon.
type promised struct {
	used        int64 // by living sandboxes, as measured
	outstanding int64 // promised beyond that
	warm        int64 // could be given back
	busy        int   // sandboxes that work, or will
	coming      int   // sandboxes that were let in and do not live yet
	spare       int   // sandboxes that could be given back
}

// promises adds up living sandboxes, those let in that do not live yet, and
// sessions that run without a sandbox so far.
func (k *Keeper) promises() promised {
	var p promised
	housed := map[string]bool{}
	seen := map[string]bool{}
	add := func(purpose Purpose, owner string, used, limit int64) {
		busy := k.busy(purpose, owner)
		floor := k.floor(purpose, busy)
		if limit > 0 {
			floor = min(floor, limit)
		}
		p.used += used
		p.outstanding += max(floor-used, 0)
		if purpose == Warm {
			p.warm += max(floor, used)
			p.spare++
		}
		if purpose == Session {
			housed[owner] = true
		}
		if busy {
			p.busy++
		}
	}
	for _, s := range k.seen.living {
		var limit int64
		if g := k.granted[s.ID]; g != nil {
			limit = g.Limits.Memory
		}
		seen[string(s.ID)] = true
		add(s.Purpose, s.Owner, s.Memory, limit)
	}
	for id, g := range k.granted {
		if !seen[string(id)] {
			p.coming++
			add(g.Purpose, g.Owner, 0, g.Limits.Memory)
		}
	}
	for owner := range k.entered {
		if !housed[owner] {
			p.coming++
			add(Session, owner, 0, 0)
		}
	}
	return p
}

// lives says whether a session has a sandbox already.
func (k *Keeper) lives(owner string) bool {
	for _, s := range k.seen.living {
		if s.Purpose == Session && s.Owner == owner {
			return true
		}
	}
	for _, g := range k.granted {
		if g.Purpose == Session && g.Owner == owner {
			return true
		}
	}
	return false
}

// reserves are what is kept back of this host.
func (k *Keeper) reserves() (memory, disk int64) {
	h := k.seen.host
	if memory = k.opts.MemoryReserve; memory <= 0 {
		memory = min(max(1<<30, h.Memory.Total/20), h.Memory.Total/4)
	}
	if disk = k.opts.DiskReserve; disk <= 0 {
		disk = min(max(2<<30, h.Disk.Total/20), h.Disk.Total/2)
	}
	return memory, disk
}

// free is the memory that may be given out.
func (k *Keeper) free(p promised) int64 {
	h := k.seen.host
	reserve, _ := k.reserves()
	free := h.Memory.Free
	if h.Own.Total > 0 {
		free = min(free, h.Own.Free-p.used)
	}
	return free - reserve - p.outstanding
}

// lacks says what is missing for one more of a rank that needs so much memory,
// if what is warm were given back.
func (k *Keeper) lacks(rank int, need int64) Shortage {
	p := k.promises()
	back := int64(0)
	if rank < rankWarm && k.reclaim != nil {
		back = p.warm
	}
	return k.lacking(p, rank, need, back)
}

// lacking is lacks with so much memory that could be given back.
func (k *Keeper) lacking(p promised, rank int, need, back int64) Shortage {
	if s := k.diskLacks(rank); s.Kind != "" {
		return s
	}
	processors := k.seen.host.Processors
	if most := k.opts.PerProcessor * processors; most > 0 && p.busy >= most && (rank == rankSession || rank == rankBuild) {
		return Shortage{Kind: "processors", Text: fmt.Sprintf("%d sandboxes work on %d of them (limit %d)", p.busy, processors, most)}
	}
	if s := k.threadsLack(p, rank, back > 0); s.Kind != "" {
		return s
	}
	if k.seen.host.Memory.Total <= 0 {
		return Shortage{} // not known
	}
	free := k.free(p)
	room := free + back
	if rank == rankWarm {
		room -= k.opts.FloorSession // the next session finds room without giving one back
	}
	if room < need {
		return Shortage{Kind: "memory", Text: fmt.Sprintf("needs %s, %s are free", Bytes(need), Bytes(max(room, 0))), want: need - free}
	}
	if rank > rankSession && time.Since(k.refused) < refusal {
		return Shortage{Kind: "memory", Text: "a session waits for it, and comes first"}
	}
	return Shortage{}
}

// refusal is how long a session that was turned away keeps less important work
// out: it asks again sooner than that.
const refusal = 5 * time.Second

// diskLacks: new work stops at the reserve. What runs may go on into it, for it
// is kept for that, but not to its end: the database needs some.
func (k *Keeper) diskLacks(rank int) Shortage {
	if s := k.seen.host.Stored; s.Total > 0 && s.Free < 0 && rank != rankRunning {
		return Shortage{Kind: "storage", Text: fmt.Sprintf("snapshots take %s of the disk, storage.max is %s", Bytes(s.Total-s.Free), Bytes(s.Total))}
	}
	disk := k.seen.host.Disk
	if disk.Total <= 0 {
		return Shortage{} // not known
	}
	_, reserve := k.reserves()
	if rank == rankRunning {
		reserve /= 4
	}
	if disk.Free >= reserve {
		return Shortage{}
	}
	return Shortage{Kind: "disk", Text: fmt.Sprintf("the disk of the state directory has only %s left (reserve %s)", Bytes(disk.Free), Bytes(reserve))}
}

// threadsEach is what a sandbox takes of the host's threads: gVisor's own and the
// host processes in which it runs what is inside.
const threadsEach = 128

// threadsLack: without this, a host with much memory starts sandboxes until
// nothing can start a thread any more, the daemon and its sandboxes included.
func (k *Keeper) threadsLack(p promised, rank int, givenBack bool) Shortage {
	t := k.seen.host.Threads
	if t.Total <= 0 {
		return Shortage{} // not known
	}
	reserve := t.Total / 16
	if rank == rankRunning {
		reserve /= 4
	}
	room := t.Free - reserve - int64(p.coming)*threadsEach
	if rank == rankWarm {
		room -= threadsEach // for the next session
	}
	if givenBack {
		room += int64(p.spare) * threadsEach
	}
	if room >= threadsEach {
		return Shortage{}
	}
	return Shortage{
		Kind: "threads", Text: fmt.Sprintf("only %d of the %d that the host's kernel allows are free (reserve %d)", t.Free, t.Total, reserve),
		want: 1, // of what is warm, any
	}
}

// mayEnter decides for one who waits; the zero Shortage is yes.
func (k *Keeper) mayEnter(w *waiter) Shortage {
	p := k.promises()
	need := k.floor(w.Purpose, true)
	if w.Limits.Memory > 0 {
		need = min(need, w.Limits.Memory)
	}
	if w.Purpose == Session && k.entered[w.Owner] > 0 && !k.lives(w.Owner) {
		p.outstanding -= min(need, p.outstanding) // kept for it already
		p.coming--
	}
	s := k.lacking(p, w.rank, need, 0) // what could be given back must be given back first
	switch {
	case w.Purpose == Proof && k.firstProof(w.Owner):
		s.passes = s.Kind == "memory" || s.Kind == "threads"
		return s
	case s.Kind != "":
		return s
	}
	for _, o := range k.waiting {
		if o == w {
			break
		}
		if o.lack.Kind != "" {
			return Shortage{Kind: o.lack.Kind, Text: "a " + noun(o.Purpose) + " that waits for it comes first"}
		}
	}
	return Shortage{}
}

// firstProof says whether no other proof has had rooms for longer: rooms of the
// oldest one always get in, so that one can end, and then the next.
func (k *Keeper) firstProof(owner string) bool {
	oldest, first := int64(0), ""
	for _, g := range k.granted {
		if g.Purpose == Proof && (first == "" || g.number < oldest) {
			oldest, first = g.number, g.Owner
		}
	}
	return first == "" || first == owner
}

// state is what new work misses.
func (k *Keeper) state() Shortage { return k.lacks(rankSession, k.opts.FloorSession) }

// Bytes is a number of bytes for people.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.95 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	text := strconv.FormatFloat(v, 'f', 1, 64)
	if v >= 100 || text[len(text)-1] == '0' {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	return text + " " + units[unit:unit+1] + "iB"
}
