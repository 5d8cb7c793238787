package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table, and one object of the JSON list. What does not
// apply is null.
type row struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"` // the median
	Unit   string   `json:"unit"`
	Floor  *float64 `json:"floor"` // the median of the same without Drydock, in the same unit
	Ratio  *float64 `json:"ratio"` // of the costs: above 1 is dearer than the floor
	Target *string  `json:"target"`
	Met    *bool    `json:"met"`
	N      int      `json:"n,omitempty"`
	Spread float64  `json:"spread,omitempty"` // the middle half of all values, as a part of the median
	Noisy  bool     `json:"noisy,omitempty"`
	Note   string   `json:"note,omitempty"`
}

// noisySpread is where the middle half of the values lies so far apart that
// the median says little.
const noisySpread = 0.25

// series are repeated measurements of one thing.
type series []float64

func (s *series) took(d time.Duration) { *s = append(*s, float64(d.Microseconds())/1000) }

func (s series) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}

func (s series) median() float64 { return s.at(0.5) }

func (s series) spread() float64 {
	m := s.median()
	if m == 0 {
		return 0
	}
	return (s.at(0.75) - s.at(0.25)) / math.Abs(m)
}

// round keeps what a reader can use.
func round(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 3-math.Ceil(math.Log10(math.Abs(v))))
	if scale < 1 {
		return math.Round(v)
	}
	return math.Round(v*scale) / scale
}

// against makes a row of two series of costs that were measured in turn.
func against(name, unit string, ours, floor series, note string) row {
	value, below := round(ours.median()), round(floor.median())
	ratio := round(ours.median() / floor.median())
	spread := max(ours.spread(), floor.spread())
	return row{Name: name, Value: value, Unit: unit, Floor: &below, Ratio: &ratio, N: len(ours), Spread: round(spread), Noisy: spread > noisySpread, Note: note}
}

// rates is against for rates, where more is better: the ratio is still of the
// costs.
func rates(name, unit string, ours, floor series, note string) row {
	r := against(name, unit, ours, floor, note)
	ratio := round(floor.median() / ours.median())
	r.Ratio = &ratio
	return r
}

// difference is what ours costs above the floor, pair by pair.
func difference(name, unit string, ours, floor series, note string) row {
	var d series
	for i := range min(len(ours), len(floor)) {
		d = append(d, ours[i]-floor[i])
	}
	r := against(name, unit, ours, floor, note)
	r.Value = round(d.median())
	return r
}

// alone is a part of a sum: it has no floor of its own.
func alone(name, unit string, s series, note string) row {
	return row{Name: name, Value: round(s.median()), Unit: unit, N: len(s), Spread: round(s.spread()), Noisy: s.spread() > noisySpread, Note: note}
}

func (r row) below(limit float64, what string, value float64) row {
	met := value < limit
	target := fmt.Sprintf("%s < %g", what, limit)
	r.Target, r.Met = &target, &met
	return r
}

func table(rows []row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tVALUE\tUNIT\tFLOOR\tRATIO\tTARGET\tMET\t")
	number := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%g", *v)
	}
	for _, r := range rows {
		target, met := "-", "-"
		if r.Target != nil {
			target = *r.Target
		}
		if r.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*r.Met]
		}
		noisy := ""
		if r.Noisy {
			noisy = fmt.Sprintf("noisy: half of the values lie %.0f%% apart", 100*r.Spread)
		}
		fmt.Fprintf(w, "%s\t%g\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Value, r.Unit, number(r.Floor), number(r.Ratio), target, met, noisy)
	}
	_ = w.Flush()
	lines := strings.SplitAfter(b.String(), "\n")
	for i := range lines {
		if cut := strings.TrimRight(lines[i], " \n"); cut != "" {
			lines[i] = cut + "\n"
		}
	}
	return strings.Join(lines, "")
}
