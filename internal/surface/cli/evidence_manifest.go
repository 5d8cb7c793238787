package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"drydock/internal/surface/cli/render"
)

// manifest is what the command line shows of a bundle's manifest. The proof
// owns its form; what is not known here is left out, nothing fails.
type manifest struct {
	raw       []byte
	artifacts []artifact

	Verdict  string   `json:"verdict"`
	Reasons  []string `json:"reasons"`
	NotShown []string `json:"not_shown"`
	Exam     struct {
		Base     string `json:"base"`
		Head     string `json:"head"`
		Snapshot string `json:"snapshot"`
	} `json:"exam"`
	Checks []struct {
		Name    string                    `json:"name"`
		Cells   map[string]map[string]any `json:"cells"`
		Classes map[string]int            `json:"classes"`
	} `json:"checks"`
	Cases []struct {
		ID struct {
			Check string `json:"check"`
			Suite string `json:"suite"`
			Class string `json:"class"`
			Name  string `json:"name"`
		} `json:"id"`
		Class   string              `json:"class"`
		Cells   map[string][]string `json:"cells"`
		Message string              `json:"message"`
	} `json:"cases"`
	Runs []struct {
		Cell     string        `json:"cell"`
		Try      int           `json:"try"`
		Check    string        `json:"check"`
		Command  string        `json:"command"`
		ExitCode int           `json:"exit_code"`
		Cached   bool          `json:"cached"`
		Duration time.Duration `json:"duration_ns"`
	} `json:"runs"`
	Findings []struct {
		Text     string `json:"text"`
		Path     string `json:"path"`
		Line     int    `json:"line"`
		Old      string `json:"old"`
		New      string `json:"new"`
		NeedsAck bool   `json:"needs_ack"`
	} `json:"findings"`
	Pictures []struct {
		Page    string  `json:"page"`
		Changed float64 `json:"changed"`
		Problem string  `json:"problem"`
	} `json:"pictures"`
}

type artifact struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// fileName keeps the last parts of a name and puts the digest behind it, so
// that no two artifacts meet.
func (f artifact) fileName() string {
	ext := path.Ext(f.Name)
	stem := strings.TrimSuffix(f.Name, ext)
	if ext != "" {
		ext = "." + render.FileName(ext)
	}
	return render.FileName(stem) + "-" + render.Short(f.Digest) + ext
}

func readManifest(raw json.RawMessage) manifest {
	m := manifest{raw: raw}
	_ = json.Unmarshal(raw, &m)
	if m.Verdict == "" { // the result may lie one level down
		var nested map[string]json.RawMessage
		_ = json.Unmarshal(raw, &nested)
		for _, key := range []string{"result", "predicate", "exam"} {
			if json.Unmarshal(nested[key], &m) == nil && m.Verdict != "" {
				break
			}
		}
	}
	var tree any
	_ = json.Unmarshal(raw, &tree)
	seen := map[string]bool{}
	m.collect(tree, seen)
	return m
}

// collect finds everything that has a name and a digest.
func (m *manifest) collect(v any, seen map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			m.collect(e, seen)
		}
	case map[string]any:
		name, _ := v["name"].(string)
		digest, _ := v["digest"].(string)
		if name != "" && strings.HasPrefix(digest, "sha256:") && !seen[digest] {
			seen[digest] = true
			size, _ := v["size"].(float64)
			kind, _ := v["media_type"].(string)
			m.artifacts = append(m.artifacts, artifact{Name: name, Digest: digest, MediaType: kind, Size: int64(size)})
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			m.collect(v[k], seen)
		}
	}
}

// text shows a manifest to a reviewer: first what decides.
func (m manifest) text(st render.Style, width int, id, digest string, all bool) string {
	var b strings.Builder
	b.WriteString(st.Bold("Verdict  ") + st.Bold(st.State(render.Words(m.Verdict))) + "\n")
	bullets(&b, st, width, m.Reasons)
	if len(m.NotShown) > 0 {
		b.WriteString("\n" + st.Yellow("Not shown") + "\n")
		bullets(&b, st, width, m.NotShown)
	}
	m.writeCases(&b, st, width, all)
	m.writeFindings(&b, st, width)
	m.writeRuns(&b, st, width)
	for _, p := range m.Pictures {
		what := fmt.Sprintf("%.2f %% of the pixels changed", p.Changed*100)
		if p.Problem != "" {
			what = render.Line(p.Problem)
		}
		b.WriteString("\n" + st.Bold("Page "+render.Line(p.Page)) + "  " + what + "\n")
	}
	if len(m.artifacts) > 0 {
		b.WriteString("\n" + st.Bold(render.Count(len(m.artifacts), "artifact")) + "\n")
		for _, f := range m.artifacts {
			b.WriteString("  " + render.Pad(render.Cut(render.Line(f.Name), 50), 50) + "  " + st.Dim(render.Pad(render.Bytes(f.Size), 9)+"  "+render.Short(f.Digest)) + "\n")
		}
	}
	b.WriteString("\n" + st.Dim(fmt.Sprintf("%s%smanifest %s", render.Line(id), st.Dot(), render.Short(digest))) + "\n")
	if m.Exam.Head != "" {
		b.WriteString(st.Dim(fmt.Sprintf("base %s%shead %s%ssnapshot %s", render.Short(m.Exam.Base), st.Dot(), render.Short(m.Exam.Head), st.Dot(), render.Line(m.Exam.Snapshot))) + "\n")
	}
	return b.String()
}

func bullets(b *strings.Builder, st render.Style, width int, texts []string) {
	for _, t := range texts {
		mark := "* "
		if st.Unicode {
			mark = "• "
		}
		for _, l := range render.Wrap(render.Clean(t), width-4) {
			b.WriteString("  " + mark + l + "\n")
			mark = "  "
		}
	}
}

// writeCases lists what is not plain green, unless all are asked for.
func (m manifest) writeCases(b *strings.Builder, st render.Style, width int, all bool) {
	classes := map[string]int{}
	for _, c := range m.Cases {
		classes[c.Class]++
	}
	if len(classes) == 0 {
		return
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(classes)) {
		parts = append(parts, fmt.Sprintf("%d %s", classes[k], render.Words(k)))
	}
	b.WriteString("\n" + st.Bold("Cases") + "  " + strings.Join(parts, ", ") + "\n")
	shown := 0
	for _, c := range m.Cases {
		if !all && (c.Class == "kept" || c.Class == "skipped") {
			continue
		}
		if shown++; !all && shown > 40 {
			b.WriteString(st.Dim("  more with --all") + "\n")
			break
		}
		name := c.ID.Name
		if c.ID.Suite != "" {
			name = c.ID.Suite + " " + name
		}
		b.WriteString("  " + render.Pad(paintClass(st, c.Class), 0) + "  " + render.Cut(render.Line(name), width-40) + st.Dim("  "+cellsText(c.Cells)) + "\n")
		if c.Message != "" && c.Class != "kept" {
			b.WriteString(st.Dim("      "+render.Cut(render.Line(c.Message), width-6)) + "\n")
		}
	}
}

func paintClass(st render.Style, class string) string {
	word := render.Pad(render.Words(class), 20)
	switch class {
	case "fixed", "new", "kept":
		return st.Green(word)
	case "broken", "gone", "new_flake":
		return st.Red(word)
	}
	return st.Yellow(word)
}

// cellsText is "base fail, branch pass": the last try of each cell.
func cellsText(cells map[string][]string) string {
	names := map[string]string{"A": "base", "B": "branch", "C": "old tests", "D": "old code"}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(cells)) {
		if tries := cells[k]; len(tries) > 0 {
			name := names[k]
			if name == "" {
				name = render.Line(k)
			}
			parts = append(parts, name+" "+render.Line(tries[len(tries)-1]))
		}
	}
	return strings.Join(parts, ", ")
}

func (m manifest) writeFindings(b *strings.Builder, st render.Style, width int) {
	if len(m.Findings) == 0 {
		return
	}
	b.WriteString("\n" + st.Bold("To look at") + "\n")
	for _, f := range m.Findings {
		text := f.Text
		if f.Path != "" && !strings.Contains(text, f.Path) {
			text = f.Path + ": " + text
		}
		if f.NeedsAck {
			text += " (a person must acknowledge it)"
		}
		bullets(b, st, width, []string{text})
		if f.Old != "" || f.New != "" {
			b.WriteString("      " + st.Red("- "+render.Cut(render.Line(f.Old), width-8)) + "\n      " + st.Green("+ "+render.Cut(render.Line(f.New), width-8)) + "\n")
		}
	}
}

func (m manifest) writeRuns(b *strings.Builder, st render.Style, width int) {
	if len(m.Runs) == 0 {
		return
	}
	b.WriteString("\n" + st.Bold("What was run") + "\n")
	names := map[string]string{"A": "base", "B": "branch", "C": "branch, old tests", "D": "base, new tests"}
	for _, r := range m.Runs {
		took := render.Duration(r.Duration)
		if r.Cached {
			took = "cached"
		}
		cell := names[r.Cell]
		if cell == "" {
			cell = render.Line(r.Cell)
		}
		if r.Try > 1 {
			cell += fmt.Sprintf(" (%d)", r.Try)
		}
		b.WriteString("  " + render.Pad(cell, 21) + "  " + render.Pad(render.Line(r.Check), 10) + "  " +
			render.Pad(fmt.Sprintf("exit %d", r.ExitCode), 8) + "  " + render.Pad(took, 9) + "  " + st.Dim(render.Cut(render.Line(r.Command), max(20, width-58))) + "\n")
	}
}
