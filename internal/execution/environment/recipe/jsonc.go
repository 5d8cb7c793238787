package recipe

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"drydock/internal/strictyaml"
)

// maxJSONDepth bounds nesting.
const maxJSONDepth = 64

// parseJSONC reads JSON with // and /* */ comments and trailing commas into
// nodes with their places. Faults go into the list; the result is nil after a
// fault of form.
func parseJSONC(data []byte, faults *strictyaml.Faults) *strictyaml.Node {
	p := &jsonc{data: strings.TrimPrefix(string(data), "\ufeff"), line: 1, column: 1, faults: faults}
	if !utf8.ValidString(p.data) {
		p.fail("the file is not UTF-8")
		return nil
	}
	p.space()
	n := p.value(0)
	p.space()
	if !p.failed && p.pos < len(p.data) {
		p.fail("there is something after the end of the value")
	}
	if p.failed {
		return nil
	}
	return n
}

type jsonc struct {
	data         string
	pos          int
	line, column int
	faults       *strictyaml.Faults
	failed       bool
}

func (p *jsonc) fail(why string) {
	if !p.failed {
		p.faults.Add(&strictyaml.Node{Line: p.line, Column: p.column}, "%s", why)
	}
	p.failed = true
	p.pos = len(p.data) // ends every loop
}

func (p *jsonc) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

// advance moves over n bytes, counting lines, and columns in characters.
func (p *jsonc) advance(n int) {
	for _, r := range p.data[p.pos : p.pos+n] {
		if r == '\n' {
			p.line++
			p.column = 1
		} else {
			p.column++
		}
	}
	p.pos += n
}

// space skips blanks and comments.
func (p *jsonc) space() {
	for p.pos < len(p.data) {
		rest := p.data[p.pos:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			p.advance(1)
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			p.advance(end)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				p.fail("a comment is not closed")
				return
			}
			p.advance(end + 4)
		default:
			return
		}
	}
}

func (p *jsonc) value(depth int) *strictyaml.Node {
	n := &strictyaml.Node{Kind: strictyaml.Null, Line: p.line, Column: p.column}
	if depth > maxJSONDepth {
		p.fail("the file nests too deeply")
		return n
	}
	switch c := p.peek(); {
	case c == '{':
		p.object(n, depth)
	case c == '[':
		p.array(n, depth)
	case c == '"':
		n.Kind, n.Text = strictyaml.String, p.string()
	case c == '-' || c >= '0' && c <= '9':
		p.number(n)
	case c == 0 && p.pos >= len(p.data):
		p.fail("a value is missing")
	default:
		p.word(n)
	}
	return n
}

func (p *jsonc) object(n *strictyaml.Node, depth int) {
	n.Kind = strictyaml.Map
	seen := map[string]bool{}
	p.advance(1)
	for {
		p.space()
		if p.peek() == '}' {
			p.advance(1)
			return
		}
		at := &strictyaml.Node{Kind: strictyaml.String, Line: p.line, Column: p.column}
		if p.peek() != '"' {
			p.fail("a key in double quotes or } must stand here")
			return
		}
		at.Text = p.string()
		p.space()
		if p.peek() != ':' {
			p.fail("a colon must stand here")
			return
		}
		p.advance(1)
		p.space()
		v := p.value(depth + 1)
		if p.failed {
			return
		}
		if seen[at.Text] {
			p.faults.Add(at, "key %q is there twice", clip(at.Text))
		}
		seen[at.Text] = true
		n.Pairs = append(n.Pairs, strictyaml.Pair{Key: at.Text, At: at, Value: v})
		if !p.comma('}') {
			return
		}
	}
}

func (p *jsonc) array(n *strictyaml.Node, depth int) {
	n.Kind = strictyaml.List
	p.advance(1)
	for {
		p.space()
		if p.peek() == ']' {
			p.advance(1)
			return
		}
		v := p.value(depth + 1)
		if p.failed {
			return
		}
		n.Items = append(n.Items, v)
		if !p.comma(']') {
			return
		}
	}
}

// comma passes over a comma; without one, only the closing character may
// follow.
func (p *jsonc) comma(closing byte) bool {
	p.space()
	if p.failed {
		return false
	}
	if p.peek() == ',' {
		p.advance(1)
		return true
	}
	if p.peek() != closing {
		p.fail("a comma or " + string(closing) + " must stand here")
		return false
	}
	return true
}

// string reads a quoted string; the quotes are at the position.
func (p *jsonc) string() string {
	end := p.pos + 1
	for end < len(p.data) && p.data[end] != '"' {
		if p.data[end] == '\\' {
			end++
		}
		if end < len(p.data) && p.data[end] < ' ' {
			p.fail("a string holds a line break or control character")
			return ""
		}
		end++
	}
	if end >= len(p.data) {
		p.fail("a string is not closed")
		return ""
	}
	raw := p.data[p.pos : end+1]
	s, ok := unquote(raw[1 : len(raw)-1])
	if !ok {
		p.fail("a string holds an unknown escape")
		return ""
	}
	p.advance(len(raw))
	return s
}

// unquote resolves JSON's escapes.
func unquote(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i >= len(s) {
			return "", false
		}
		switch s[i] {
		case '"', '\\', '/':
			b.WriteByte(s[i])
		case 'b', 'f', 'n', 'r', 't':
			b.WriteByte(map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[s[i]])
		case 'u':
			r, ok := hex4(s, i+1)
			if !ok {
				return "", false
			}
			i += 4
			if r >= 0xd800 && r < 0xdc00 && strings.HasPrefix(s[i+1:], `\u`) {
				if low, ok := hex4(s, i+3); ok && low >= 0xdc00 && low < 0xe000 {
					r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
					i += 6
				}
			}
			b.WriteRune(r) // a lone surrogate becomes U+FFFD
		default:
			return "", false
		}
	}
	return b.String(), true
}

func hex4(s string, at int) (rune, bool) {
	if at+4 > len(s) {
		return 0, false
	}
	n, err := strconv.ParseUint(s[at:at+4], 16, 32)
	return rune(n), err == nil
}

func (p *jsonc) number(n *strictyaml.Node) {
	end := p.pos
	for end < len(p.data) && strings.IndexByte("+-.eE0123456789", p.data[end]) >= 0 {
		end++
	}
	text := p.data[p.pos:end]
	if _, err := strconv.ParseFloat(text, 64); err != nil || len(text) > 64 {
		p.fail("a number is malformed")
		return
	}
	n.Kind, n.Text = strictyaml.Number, text
	p.advance(len(text))
}

func (p *jsonc) word(n *strictyaml.Node) {
	for word, kind := range map[string]strictyaml.NodeKind{"true": strictyaml.Bool, "false": strictyaml.Bool, "null": strictyaml.Null} {
		if strings.HasPrefix(p.data[p.pos:], word) {
			n.Kind, n.Text = kind, word
			p.advance(len(word))
			return
		}
	}
	p.fail("this is not a JSON value")
}
