package supervisor

import (
	"os"
	"sync"
)

// ring keeps the newest bytes of one output. The first headBytes stay in
// memory for good; a stream that outgrows them moves to a file used as a ring,
// so that short commands cost no file at all. Offsets are absolute: they count
// every byte ever written.
type ring struct {
	open func() (*os.File, error) // makes the backing file; called at most once

	mu     sync.Mutex
	size   int64 // capacity
	head   []byte
	file   *os.File
	mem    []byte // stands in for the file when it cannot be written
	floor  int64  // nothing before it can be read outside the head
	end    int64
	closed bool
	wake   chan struct{} // closed at the next change
}

const (
	headBytes   = 32 << 10
	rescueBytes = 256 << 10 // capacity when the disk fails
)

func newRing(size int64, open func() (*os.File, error)) *ring {
	return &ring{open: open, size: max(size, headBytes), wake: make(chan struct{})}
}

// Write never fails: an output must not stall a process because a disk is full.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	if r.closed || n == 0 {
		return n, nil
	}
	if r.file == nil && r.mem == nil && r.end+int64(n) > headBytes {
		r.spill()
	}
	if room := headBytes - len(r.head); room > 0 {
		r.head = append(r.head, p[:min(room, n)]...)
	}
	switch {
	case r.file != nil:
		if err := r.put(r.file.WriteAt, p, r.end); err != nil {
			r.rescue()
			_ = r.put(r.writeMem, p, r.end)
		}
	case r.mem != nil:
		_ = r.put(r.writeMem, p, r.end)
	}
	r.end += int64(n)
	r.signal()
	return n, nil
}

// spill moves what there is into the backing file.
func (r *ring) spill() {
	file, err := r.open()
	if err == nil {
		r.file = file
		if _, err = file.WriteAt(r.head, 0); err == nil {
			return
		}
	}
	r.rescue()
	_ = r.put(r.writeMem, r.head, 0)
	r.floor = 0
}

// rescue goes on in memory; what was in the file is given up.
func (r *ring) rescue() {
	r.dropFile()
	r.size = min(r.size, rescueBytes)
	r.mem = make([]byte, r.size)
	r.floor = r.end
}

func (r *ring) writeMem(p []byte, off int64) (int, error) { return copy(r.mem[off:], p), nil }

// put writes p at the absolute offset, wrapping around.
func (r *ring) put(write func([]byte, int64) (int, error), p []byte, off int64) error {
	if extra := int64(len(p)) - r.size; extra > 0 {
		p, off = p[extra:], off+extra
	}
	for len(p) > 0 {
		at := off % r.size
		n := min(int64(len(p)), r.size-at)
		if _, err := write(p[:n], at); err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// first is the oldest offset from which everything to the end can be read.
func (r *ring) first() int64 {
	if r.end <= int64(len(r.head)) {
		return 0
	}
	return max(r.floor, r.end-r.size, 0)
}

// ReadAt fills p from the first readable byte at or after off, and says where
// that was. n is 0 when there is nothing yet.
func (r *ring) ReadAt(p []byte, off int64) (n int, at int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.first()
	at = max(off, first)
	if at >= r.end {
		return 0, at, nil
	}
	p = p[:min(int64(len(p)), r.end-at)]
	if r.end <= int64(len(r.head)) {
		return copy(p, r.head[at:]), at, nil
	}
	for n < len(p) {
		pos := (at + int64(n)) % r.size
		part := p[n:min(int64(len(p)), int64(n)+r.size-pos)]
		if r.mem != nil {
			n += copy(part, r.mem[pos:])
			continue
		}
		if r.file == nil {
			return n, at, os.ErrClosed
		}
		k, err := r.file.ReadAt(part, pos)
		n += k
		if err != nil {
			return n, at, err
		}
	}
	return n, at, nil
}

// Head is the beginning of the stream, also when the ring has passed it.
func (r *ring) Head(limit int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]byte(nil), r.head[:min(limit, len(r.head))]...)
}

// Bounds are the readable offsets, and whether more can come.
func (r *ring) Bounds() (first, end int64, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first(), r.end, !r.closed
}

// Changed is closed at the next change after the call.
func (r *ring) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wake
}

func (r *ring) signal() {
	close(r.wake)
	r.wake = make(chan struct{})
}

// CloseWrite says that nothing more will come; reading goes on.
func (r *ring) CloseWrite() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.signal()
	}
}

// Discard gives up what is kept.
func (r *ring) Discard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.dropFile()
	r.head, r.mem, r.floor = nil, nil, r.end
	r.signal()
}

func (r *ring) dropFile() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// Kept is what the ring occupies.
func (r *ring) Kept() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		return min(r.end, r.size) + int64(len(r.head))
	}
	return int64(len(r.head) + len(r.mem))
}
