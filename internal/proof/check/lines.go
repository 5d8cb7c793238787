package check

import (
	"bufio"
	"errors"
	"io"
)

// lineReader yields lines without their end. A line longer than maxLine is
// cut, and a report longer than maxBytes ends there.
type lineReader struct {
	r       *bufio.Reader
	read    int64
	long    bool  // the last line was cut
	clipped bool  // the report was longer than maxBytes
	err     error // anything but io.EOF
	closed  bool  // the last line ended with a line feed
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10)}
}

func (l *lineReader) next() ([]byte, bool) {
	var line []byte
	l.long = false
	if l.read >= maxBytes {
		l.clipped = true
		return nil, false
	}
	for {
		part, err := l.r.ReadSlice('\n')
		l.read += int64(len(part))
		if room := maxLine - len(line); len(part) > room {
			part, l.long = part[:room], true
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				l.err = err
			}
			l.closed = false
			return line, len(line) > 0
		}
		l.closed = true
		break
	}
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line, true
}

// tail keeps the head and the end of a text that grows.
type tail struct {
	head, end []byte
	lost      bool
}

// write returns how many bytes more are held afterwards.
func (t *tail) write(s string) int {
	before := len(t.head) + len(t.end)
	if room := maxKept/2 - len(t.head); room > 0 && !t.lost && len(t.end) == 0 {
		n := min(room, len(s))
		t.head = append(t.head, s[:n]...)
		s = s[n:]
	}
	if s != "" {
		t.end = append(t.end, s...)
		if len(t.end) > maxKept {
			t.lost = true
			t.end = append(t.end[:0], t.end[len(t.end)-maxKept/2:]...)
		}
	}
	return len(t.head) + len(t.end) - before
}

func (t *tail) String() string {
	if t == nil {
		return ""
	}
	if t.lost {
		return string(t.head) + "\n[...]\n" + string(t.end)
	}
	return string(t.head) + string(t.end)
}
