package check

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
)

type xmlKind uint8

const (
	xmlText xmlKind = iota
	xmlStart
	xmlEnd
)

type xmlToken struct {
	kind  xmlKind
	name  string // local name
	attrs map[string]string
	empty bool
	text  string
	raw   string // the tag as written, for those that are really text
}

// xmlScanner cuts bytes into tags and text. It knows no document type, no
// entity but the five of XML and numbers, and takes every damage as text.
type xmlScanner struct {
	r      *bufio.Reader
	err    error
	broken bool // the input ended inside a tag
	any    bool // something other than space was seen
}

const (
	maxTag  = 1 << 20 // bytes of one tag
	maxRun  = 64 << 10
	maxAttr = 64
)

func newXMLScanner(r io.Reader) *xmlScanner {
	return &xmlScanner{r: bufio.NewReaderSize(decodeXML(r), 64<<10)}
}

var declaredRE = regexp.MustCompile(`^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)

// decodeXML turns whatever encoding is marked or declared into UTF-8.
func decodeXML(r io.Reader) io.Reader {
	br := bufio.NewReaderSize(r, 4<<10)
	head, _ := br.Peek(512)
	var enc encoding.Encoding
	switch {
	case len(head) >= 2 && head[0] == 0xFE && head[1] == 0xFF,
		len(head) >= 2 && head[0] == 0xFF && head[1] == 0xFE:
		enc = unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	case len(head) >= 4 && head[0] == 0 && head[1] == '<':
		enc = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case len(head) >= 4 && head[0] == '<' && head[1] == 0:
		enc = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	default:
		if m := declaredRE.FindSubmatch(head); m != nil {
			enc = byName(string(m[1]))
		}
	}
	if enc == nil {
		return br
	}
	return enc.NewDecoder().Reader(br)
}

// byName gives nil for UTF-8 and for what cannot be true: a file whose first
// bytes were readable as ASCII is not UTF-16, whatever it says.
func byName(name string) encoding.Encoding {
	switch lower := strings.ToLower(name); {
	case lower == "utf-8" || lower == "utf8" || strings.HasPrefix(lower, "utf-16") || strings.HasPrefix(lower, "utf-32"):
		return nil
	case lower == "iso-8859-1" || lower == "latin1" || lower == "us-ascii":
		return charmap.Windows1252 // what such files hold in practice
	}
	enc, err := ianaindex.IANA.Encoding(name)
	if err != nil {
		return nil
	}
	return enc
}

func (x *xmlScanner) next() (xmlToken, bool) {
	for {
		c, err := x.r.ReadByte()
		if err != nil {
			x.fail(err)
			return xmlToken{}, false
		}
		if c != '<' {
			_ = x.r.UnreadByte()
			return x.text(), true
		}
		x.any = true
		t, skip, ok := x.tag()
		if !ok {
			return xmlToken{}, false
		}
		if !skip {
			return t, true
		}
	}
}

func (x *xmlScanner) fail(err error) {
	if err != nil && !errors.Is(err, io.EOF) && x.err == nil {
		x.err = err
	}
}

func (x *xmlScanner) text() xmlToken {
	var b strings.Builder
	for b.Len() < maxRun {
		c, err := x.r.ReadByte()
		if err != nil {
			x.fail(err)
			break
		}
		if c == '<' {
			_ = x.r.UnreadByte()
			break
		}
		if c > ' ' && c != 0xEF && c != 0xBB && c != 0xBF {
			x.any = true
		}
		b.WriteByte(c)
	}
	return xmlToken{kind: xmlText, text: unescape(b.String())}
}

// tag reads what follows "<".
func (x *xmlScanner) tag() (t xmlToken, skip, ok bool) {
	head, _ := x.r.Peek(8)
	switch {
	case strings.HasPrefix(string(head), "!--"):
		_, closed := x.until("-->")
		return t, true, closed
	case strings.HasPrefix(string(head), "![CDATA["):
		_, _ = x.r.Discard(8)
		text, closed := x.until("]]>")
		if !closed {
			x.broken = true
		}
		return xmlToken{kind: xmlText, text: sanitise(text)}, false, true
	case strings.HasPrefix(string(head), "?"):
		_, closed := x.until("?>")
		return t, true, closed
	case strings.HasPrefix(string(head), "!"):
		return t, true, x.doctype()
	case len(head) == 0:
		x.broken = true
		return t, false, false
	case !nameStart(head[0]) && head[0] != '/':
		return xmlToken{kind: xmlText, text: "<"}, false, true
	}
	raw, closed := x.rawTag()
	if !closed {
		x.broken = true
		return t, false, false
	}
	return parseTag(raw), false, true
}

// until consumes up to and with the mark; the first maxRun bytes are kept.
func (x *xmlScanner) until(mark string) (string, bool) {
	var b strings.Builder
	matched := 0
	for {
		c, err := x.r.ReadByte()
		if err != nil {
			x.fail(err)
			x.broken = true
			return b.String(), false
		}
		if b.Len() < maxRun {
			b.WriteByte(c)
		}
		switch {
		case c == mark[matched]:
			matched++
		case mark[0] == mark[1%len(mark)] && matched == len(mark)-1 && c == mark[0]:
			// "]]]>" and "--->": still one character from the end
		case c == mark[0]:
			matched = 1
		default:
			matched = 0
		}
		if matched == len(mark) {
			return strings.TrimSuffix(b.String(), mark), true
		}
	}
}

// doctype skips a declaration with its internal subset; nothing in it is
// looked at.
func (x *xmlScanner) doctype() bool {
	depth := 0
	for {
		c, err := x.r.ReadByte()
		if err != nil {
			x.fail(err)
			x.broken = true
			return false
		}
		switch c {
		case '[', '<':
			depth++
		case ']':
			depth--
		case '>':
			if depth <= 0 {
				return true
			}
			depth--
		}
	}
}

// rawTag reads to the ">" that closes the tag; one inside quotes does not.
func (x *xmlScanner) rawTag() (string, bool) {
	var b strings.Builder
	var quote byte
	prev := byte(0)
	for b.Len() < maxTag {
		c, err := x.r.ReadByte()
		if err != nil {
			x.fail(err)
			return b.String(), false
		}
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && prev == '=':
			quote = c
		case c == '>':
			return b.String(), true
		case c == '<':
			// The tag was text; what starts here may be a real one.
			_ = x.r.UnreadByte()
			return b.String() + "\x00", true
		}
		b.WriteByte(c)
		if c > ' ' {
			prev = c
		}
	}
	return b.String(), false
}

func nameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}

func parseTag(raw string) xmlToken {
	if text, ok := strings.CutSuffix(raw, "\x00"); ok {
		return xmlToken{kind: xmlText, text: "<" + sanitise(text)}
	}
	t := xmlToken{kind: xmlStart, raw: "<" + sanitise(raw) + ">"}
	body := raw
	if strings.HasPrefix(body, "/") {
		t.kind, body = xmlEnd, body[1:]
	} else if strings.HasSuffix(body, "/") {
		t.empty, body = true, body[:len(body)-1]
	}
	end := strings.IndexAny(body, " \t\r\n/")
	if end < 0 {
		end = len(body)
	}
	t.name = body[:end]
	if _, local, ok := strings.Cut(t.name, ":"); ok {
		t.name = local
	}
	if t.kind == xmlStart {
		t.attrs = parseAttrs(body[end:])
	}
	return t
}

func parseAttrs(s string) map[string]string {
	attrs := map[string]string{}
	for len(attrs) < maxAttr {
		s = strings.TrimLeft(s, " \t\r\n/")
		at := strings.IndexByte(s, '=')
		if at < 0 {
			break
		}
		name := strings.TrimSpace(s[:at])
		if i := strings.LastIndexAny(name, " \t\r\n"); i >= 0 {
			name = name[i+1:]
		}
		s = strings.TrimLeft(s[at+1:], " \t\r\n")
		if s == "" {
			break
		}
		var value string
		if s[0] == '"' || s[0] == '\'' {
			end := strings.IndexByte(s[1:], s[0])
			if end < 0 {
				value, s = s[1:], ""
			} else {
				value, s = s[1:end+1], s[end+2:]
			}
		} else {
			end := strings.IndexAny(s, " \t\r\n")
			if end < 0 {
				end = len(s)
			}
			value, s = s[:end], s[end:]
		}
		if _, local, ok := strings.Cut(name, ":"); ok {
			name = local
		}
		if _, twice := attrs[strings.ToLower(name)]; !twice {
			attrs[strings.ToLower(name)] = unescape(value)
		}
	}
	return attrs
}

// unescape resolves the entities of XML and numbers; others stay as written.
func unescape(s string) string {
	if !strings.Contains(s, "&") {
		return sanitise(s)
	}
	var b strings.Builder
	for {
		at := strings.IndexByte(s, '&')
		if at < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:at])
		s = s[at:]
		end := strings.IndexByte(s[:min(len(s), 12)], ';')
		r, ok := rune(0), false
		if end > 1 {
			r, ok = entity(s[1:end])
		}
		if !ok {
			b.WriteByte('&')
			s = s[1:]
			continue
		}
		b.WriteRune(r)
		s = s[end+1:]
	}
	return sanitise(b.String())
}

func entity(name string) (rune, bool) {
	switch name {
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "amp":
		return '&', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	case "nbsp":
		return ' ', true
	}
	digits, ok := strings.CutPrefix(name, "#")
	if !ok {
		return 0, false
	}
	base := 10
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || n > utf8.MaxRune {
		return 0, false
	}
	return rune(n), true
}

// sanitise drops what may not be in XML and makes the rest valid UTF-8.
func sanitise(s string) string {
	ok := utf8.ValidString(s)
	for i := 0; ok && i < len(s); i++ {
		ok = s[i] >= ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r'
	}
	if ok {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
		case r < ' ' || r == 0xFFFE || r == 0xFFFF || r == 0x7F:
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
