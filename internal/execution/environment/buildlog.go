package environment

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
)

// buildLog keeps everything a build says: all of it in a file, and the lines
// as events, gathered so that a chatty command does not become a flood.
type buildLog struct {
	ctx     context.Context //nolint:containedctx // lives as long as the build
	events  Log
	subject string
	file    *os.File

	mu      sync.Mutex
	current string
	pending strings.Builder
	flushed time.Time
	bytes   int64
}

const (
	maxLogFile   = 256 << 20
	maxLogEvents = 8 << 20 // the rest is in the file only
	flushBytes   = 8 << 10
	flushEvery   = 250 * time.Millisecond
	tailBytes    = 4000
)

func newBuildLog(ctx context.Context, events Log, id core.BuildID, file string) (*buildLog, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, core.E("environment.log", core.Unavailable, err, "directory of build logs")
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, core.E("environment.log", core.Unavailable, err, "log of build %s", id)
	}
	return &buildLog{ctx: context.WithoutCancel(ctx), events: events, subject: string(id), file: f, flushed: time.Now()}, nil
}

func (l *buildLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	_ = l.file.Close()
}

func (l *buildLog) phase(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	l.current = name
	_, _ = l.file.WriteString("== " + name + "\n")
}

// line adds one line.
func (l *buildLog) line(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(s + "\n")
}

func (l *buildLog) add(s string) {
	if l.bytes < maxLogFile {
		_, _ = l.file.WriteString(s)
	}
	l.bytes += int64(len(s))
	if l.bytes > maxLogEvents {
		return
	}
	l.pending.WriteString(s)
	if l.pending.Len() >= flushBytes || time.Since(l.flushed) > flushEvery {
		l.flush()
	}
}

func (l *buildLog) flush() {
	if l.pending.Len() == 0 {
		return
	}
	text := strings.ToValidUTF8(l.pending.String(), "?")
	l.pending.Reset()
	l.flushed = time.Now()
	// A lost line is in the file; a build does not fail for it.
	_, _ = l.events.Append(l.ctx, l.subject, core.NewEvent(core.EventLog, core.LogData{Phase: l.current, Text: text}))
}

func (l *buildLog) event(e core.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	_, _ = l.events.Append(l.ctx, l.subject, e)
}

// copy passes output on until it ends and returns its last bytes.
func (l *buildLog) copy(r io.Reader) (tail string) {
	buf := make([]byte, 16<<10)
	var last []byte
	for {
		n, err := r.Read(buf)
		if n > 0 {
			l.mu.Lock()
			l.add(string(buf[:n]))
			l.mu.Unlock()
			last = append(last, buf[:n]...)
			if len(last) > tailBytes {
				last = append([]byte(nil), last[len(last)-tailBytes:]...)
			}
		}
		if err != nil {
			return strings.ToValidUTF8(string(last), "?")
		}
	}
}
