package strictyaml

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"drydock/internal/core"
)

// Bounds of Parse: the YAML library takes quadratic time for documents that
// nest or run on without end.
const (
	maxNesting = 200
	maxLine    = 16 << 10
)

// NodeKind says what a Node holds.
type NodeKind string

const (
	Null   NodeKind = "nothing"
	Bool   NodeKind = "true or false"
	Number NodeKind = "a number"
	String NodeKind = "text"
	Map    NodeKind = "a mapping"
	List   NodeKind = "a list"
)

// Node is a value with its place in the source, for readers that want to name
// every fault of a file and not only the first.
type Node struct {
	Kind   NodeKind
	Line   int
	Column int
	Text   string // of a scalar, as written
	Pairs  []Pair // of a mapping, in order, keys distinct
	Items  []*Node
}

// Pair is one entry of a mapping.
type Pair struct {
	Key   string
	At    *Node // the key's place
	Value *Node
}

// Get finds the value of a key, nil when there is none.
func (n *Node) Get(key string) *Node {
	for _, p := range n.Pairs {
		if p.Key == key {
			return p.Value
		}
	}
	return nil
}

// Parse reads one YAML document without judging its content. Anchors, aliases,
// tags and merge keys are refused: what a file says should stand where it is
// said. An empty document is a Null node.
func Parse(file string, data []byte) (*Node, error) {
	if len(data) > MaxBytes {
		return nil, core.E("yaml.parse", core.Invalid, nil, "%s is larger than %d bytes", file, MaxBytes)
	}
	faults := NewFaults(file, data)
	if bad := guard(data); bad != nil {
		faults.Add(bad, "%s", bad.Text)
		return nil, faults.Err()
	}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, core.E("yaml.parse", core.Invalid, nil, "%s: %s", file, err)
	}
	var root ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			return nil, core.E("yaml.parse", core.Invalid, nil, "%s holds more than one YAML document", file)
		}
		root = doc.Body
	}
	if root == nil {
		return &Node{Kind: Null, Line: 1, Column: 1}, nil
	}
	n := convert(faults, root)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return n, nil
}

// guard refuses what would keep the parser busy; the result's Text says why.
func guard(data []byte) *Node {
	if !utf8.Valid(data) {
		return &Node{Line: 1, Column: 1, Text: "the file is not UTF-8"}
	}
	depth, line := 0, 0
	for text := range bytes.Lines(data) {
		line++
		if len(text) > maxLine {
			return &Node{Line: line, Column: 1, Text: fmt.Sprintf("this line is longer than %d bytes", maxLine)}
		}
		marks := 0
		for i, c := range text {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			case '-', '?', '&', '!', '*':
				marks++
			case ' ', '\t':
			default:
				if marks > maxNesting { // a run of indicators and nothing else
					return &Node{Line: line, Column: 1, Text: "this line nests too deeply"}
				}
				marks = 0
			}
			if depth > maxNesting {
				return &Node{Line: line, Column: i + 1, Text: "the file nests too deeply"}
			}
		}
		if marks > maxNesting && bytes.Count(text, []byte(" ")) > maxNesting/2 {
			return &Node{Line: line, Column: 1, Text: "this line nests too deeply"}
		}
	}
	return nil
}

func convert(faults *Faults, n ast.Node) *Node {
	out := &Node{Kind: Null}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		out.Line, out.Column = tk.Position.Line, tk.Position.Column
	}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.Kind, out.Text = Bool, v.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.Kind, out.Text = Number, n.GetToken().Value
	case *ast.StringNode:
		out.Kind, out.Text = String, v.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = String, v.Value.Value
	case *ast.SequenceNode:
		out.Kind = List
		for _, item := range v.Values {
			out.Items = append(out.Items, convert(faults, item))
		}
	case *ast.MappingNode:
		out.Kind = Map
		for _, pair := range v.Values {
			out.addPair(faults, pair)
		}
		if len(out.Pairs) > 0 && !v.IsFlowStyle {
			out.Line, out.Column = out.Pairs[0].At.Line, out.Pairs[0].At.Column
		}
	case *ast.MappingValueNode:
		out.Kind = Map
		out.addPair(faults, v)
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		faults.Add(out, "anchors and aliases are not supported here; write the value out")
	case *ast.TagNode:
		faults.Add(out, "tags (!) are not supported here; put text that begins with ! into quotes")
	default:
		faults.Add(out, "this form of YAML is not supported here")
	}
	return out
}

func (n *Node) addPair(faults *Faults, pair *ast.MappingValueNode) {
	at := &Node{}
	if tk := pair.Key.GetToken(); tk != nil && tk.Position != nil {
		at.Line, at.Column = tk.Position.Line, tk.Position.Column
	}
	switch key := pair.Key.(type) {
	case *ast.StringNode:
		at.Kind, at.Text = String, key.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		at.Kind, at.Text = String, key.GetToken().Value
	case *ast.MergeKeyNode:
		faults.Add(at, "merge keys (<<) are not supported here; write the values out")
		return
	default:
		faults.Add(at, "a key must be plain text")
		return
	}
	if n.Get(at.Text) != nil {
		faults.Add(at, "key %q is there twice", at.Text)
		return
	}
	value := convert(faults, pair.Value)
	if value.Kind == Null && value.Line == 0 {
		value.Line, value.Column = at.Line, at.Column
	}
	n.Pairs = append(n.Pairs, Pair{Key: at.Text, At: at, Value: value})
}
