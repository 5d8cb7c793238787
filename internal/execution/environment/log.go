package environment

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"time"
)

// buildLog takes everything that a build prints: all of it into a file, up to a
// bound, and whole lines into events, up to a smaller one, a few times a
// second.
type buildLog struct {
	emit func(phase, text string)

	mu        sync.Mutex
	file      *os.File
	fileLeft  int64
	eventLeft int64
	name      string // of the phase
	pending   []byte // not yet in an event
	timer     *time.Timer
	closed    bool

	emitting sync.Mutex // keeps events in order
}

const (
	flushEvery = 200 * time.Millisecond
	flushBytes = 16 << 10
)

func openBuildLog(path string, fileLimit, eventLimit int64, emit func(phase, text string)) (*buildLog, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &buildLog{emit: emit, file: f, fileLeft: fileLimit, eventLeft: eventLimit}, nil
}

// phase begins a new part.
func (l *buildLog) phase(name string) {
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name = name
	l.toFile([]byte("== " + name + "\n"))
}

func (l *buildLog) line(s string) { l.text(strings.TrimRight(s, "\n") + "\n") }

func (l *buildLog) text(s string) { _, _ = l.Write([]byte(s)) }

// Write implements io.Writer. It never fails: a build does not end because its
// output cannot be kept.
func (l *buildLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return len(p), nil
	}
	l.toFile(p)
	l.pending = append(l.pending, p...)
	full := len(l.pending) >= flushBytes
	if !full && l.timer == nil {
		l.timer = time.AfterFunc(flushEvery, func() { l.send(false) })
	}
	l.mu.Unlock()
	if full {
		l.send(false)
	}
	return len(p), nil
}

func (l *buildLog) toFile(p []byte) {
	if l.fileLeft <= 0 || l.file == nil {
		return
	}
	if int64(len(p)) > l.fileLeft {
		p = append(bytes.Clone(p[:l.fileLeft]), "\n[the log is full]\n"...)
	}
	n, err := l.file.Write(p)
	if l.fileLeft -= int64(n); err != nil {
		l.fileLeft = 0
	}
}

// flush sends everything, also an unfinished line.
func (l *buildLog) flush() { l.send(true) }

func (l *buildLog) send(all bool) {
	l.emitting.Lock()
	defer l.emitting.Unlock()
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	end := len(l.pending)
	if !all && end < flushBytes {
		end = bytes.LastIndexByte(l.pending, '\n') + 1
	}
	text := string(l.pending[:end])
	l.pending = append(l.pending[:0], l.pending[end:]...)
	if len(l.pending) > 0 {
		l.timer = time.AfterFunc(flushEvery, func() { l.send(true) })
	}
	if int64(len(text)) > l.eventLeft {
		text = text[:max(l.eventLeft, 0)]
		if l.eventLeft > 0 {
			text += "\n[more output is in the log file of the build]\n"
		}
		l.eventLeft = 0
	} else {
		l.eventLeft -= int64(len(text))
	}
	name := l.name
	l.mu.Unlock()
	if text != "" {
		l.emit(name, strings.ToValidUTF8(text, "\uFFFD"))
	}
}

// close sends the rest. What is written later is dropped.
func (l *buildLog) close() {
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// lastLines is the end of an output, cut at a line where possible.
func lastLines(b []byte, limit int) string {
	if len(b) > limit {
		b = b[len(b)-limit:]
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i < len(b)-1 {
			b = b[i+1:]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
}
