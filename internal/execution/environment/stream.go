package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// Stream runs a command to its end and writes what it prints to w as it comes.
// It returns how it ended, and the end of its output. The output survives
// broken connections; what the guest's ring could not keep is marked. When ctx
// ends the command is stopped. Standard error is left out unless cmd.Merge.
func (m *Machine) Stream(ctx context.Context, cmd guest.Command, w io.Writer) (guest.Process, string, error) {
	p, err := m.guest.Start(ctx, cmd)
	if err != nil {
		return p, "", err
	}
	end := &ending{w: w}
	err = m.Follow(ctx, p.ID, guest.Stdout, end)
	if err == nil {
		p, err = m.guest.Wait(ctx, p.ID)
	}
	if err != nil && ctx.Err() != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = m.guest.Stop(stop, p.ID, cmd.Grace)
	}
	return p, end.String(), err
}

// Follow copies an output, from its beginning, until the process has ended.
// Broken connections, and a sandbox that stands still for a snapshot, are got
// over; what the guest's ring could not keep is marked.
func (m *Machine) Follow(ctx context.Context, id guest.ProcessID, stream string, w io.Writer) error {
	const retries = 5
	var offset int64
	for failures := 0; ; {
		n, err := m.copyOutput(ctx, id, stream, offset, w)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n > offset {
			offset, failures = n, 0
		}
		if failures++; failures > retries || m.conns.isDead() || !errors.Is(err, io.ErrUnexpectedEOF) && !core.Is(err, core.Unavailable) {
			return err
		}
		timer := time.NewTimer(50 * time.Millisecond << failures)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (m *Machine) copyOutput(ctx context.Context, id guest.ProcessID, stream string, offset int64, w io.Writer) (int64, error) {
	r, err := m.guest.Output(ctx, id, stream, offset, true)
	if err != nil {
		return offset, err
	}
	defer func() { _ = r.Close() }()
	buf := make([]byte, 32<<10)
	var lost int64
	for {
		n, err := r.Read(buf)
		if r.Lost() > lost {
			if _, werr := fmt.Fprintf(w, "\n[%d bytes were overwritten before they could be read]\n", r.Lost()-lost); werr != nil {
				return r.Offset(), werr
			}
			lost = r.Lost()
		}
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return r.Offset(), werr
			}
		}
		if errors.Is(err, io.EOF) {
			return r.Offset(), nil
		}
		if err != nil {
			return r.Offset(), err
		}
	}
}

// ending passes output on and keeps the end of it.
type ending struct {
	w   io.Writer
	buf []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	if len(e.buf) > 4*outputTail {
		e.buf = append(e.buf[:0], e.buf[len(e.buf)-outputTail:]...)
	}
	return e.w.Write(p)
}

func (e *ending) String() string { return lastLines(e.buf, outputTail) }
