// Package obs is how Drydock tells what it does: one logger that leaves secrets
// out, the names of log keys, and metrics with few, fixed labels.
//
// It keeps no global logger and no default registry; both are made once in the
// daemon and handed on. Values of labels are fixed words of the program, never
// identifiers or names from outside.
//
// Everything here is safe for concurrent use.
//
//	red := obs.NewRedactor(cfg.SecretValues(config.OS)...)
//	log := obs.NewLogger(os.Stderr, red, obs.LogOptions{Level: "info", Format: "json"})
//	log.Info("sandbox started", obs.Sandbox, id)
package obs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Keys of log attributes.
const (
	Session     = "session"
	Prompt      = "prompt"
	Run         = "run"
	Node        = "node"
	Attempt     = "attempt"
	Sandbox     = "sandbox"
	Snapshot    = "snapshot"
	Environment = "environment"
	Build       = "build"
	Change      = "change"
	Author      = "author"
	Provider    = "provider"
	Model       = "model"
	Duration    = "duration"
	Error       = "error"
	Count       = "count"
	Host        = "host"
	Request     = "request"
)

// Redactor replaces known secret values in text.
type Redactor struct {
	mu     sync.RWMutex
	values []string
	swap   *strings.Replacer
}

// Redacted stands where a secret stood.
const Redacted = "[secret]"

// shortest is the length below which a value is no secret: replacing it would
// tear up ordinary text.
const shortest = 6

// NewRedactor makes one that knows some values.
func NewRedactor(values ...string) *Redactor {
	r := &Redactor{}
	r.Add(values...)
	return r
}

// Add makes more values known, also in the form they take inside JSON.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		forms := []string{v}
		if quoted, err := json.Marshal(v); err == nil {
			forms = append(forms, string(quoted[1:len(quoted)-1]))
		}
		for _, f := range forms {
			if len(v) >= shortest && !slices.Contains(r.values, f) {
				r.values = append(r.values, f)
			}
		}
	}
	// Longest first: a secret may hold another one.
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, v := range r.values {
		pairs = append(pairs, v, Redacted)
	}
	r.swap = strings.NewReplacer(pairs...)
}

// String is s without the known secrets.
func (r *Redactor) String(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.swap.Replace(s)
}

// writer redacts what a log handler writes; a handler writes one whole record
// at a time.
type writer struct {
	w io.Writer
	r *Redactor
}

func (w writer) Write(p []byte) (int, error) {
	clean := w.r.String(string(p))
	if _, err := io.WriteString(w.w, clean); err != nil {
		return 0, err
	}
	return len(p), nil
}

// LogOptions of NewLogger.
type LogOptions struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// NewLogger makes the daemon's logger. An unknown level is info.
func NewLogger(w io.Writer, r *Redactor, opts LogOptions) *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(opts.Level)) != nil {
		level = slog.LevelInfo
	}
	h := &slog.HandlerOptions{Level: level}
	out := writer{w: w, r: r}
	if opts.Format == "json" {
		return slog.New(slog.NewJSONHandler(out, h))
	}
	return slog.New(slog.NewTextHandler(out, h))
}

// Lines makes a writer that logs each line it gets, for programs that are run.
// Close logs what is left.
func Lines(log *slog.Logger, level slog.Level, message string, attrs ...any) io.WriteCloser {
	return &lines{log: log.With(attrs...), level: level, message: message}
}

type lines struct {
	log     *slog.Logger
	level   slog.Level
	message string
	mu      sync.Mutex
	rest    []byte
}

const maxLine = 4 << 10

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 || i > maxLine {
			i = maxLine
			l.emit(l.rest[:i])
			l.rest = l.rest[i:]
			continue
		}
		l.emit(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

func (l *lines) emit(line []byte) {
	if text := strings.TrimRight(string(line), "\r"); text != "" {
		l.log.Log(context.Background(), l.level, l.message, "line", text)
	}
}

func (l *lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emit(l.rest)
	l.rest = nil
	return nil
}
