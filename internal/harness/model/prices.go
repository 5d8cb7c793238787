package model

import (
	_ "embed"
	"math"
	"regexp"
	"strings"

	"drydock/internal/core"
	"drydock/internal/strictyaml"
)

//go:embed prices.yaml
var builtinPrices []byte

// Price is in US dollars per million tokens, which is the same number as
// millionths of a dollar per token.
type Price struct {
	Input      float64 `yaml:"input"`
	CacheRead  float64 `yaml:"cache_read"`
	CacheWrite float64 `yaml:"cache_write"`
	Output     float64 `yaml:"output"`
}

// Tier is the price of a request whose whole input is above so many tokens.
type Tier struct {
	Above int64 `yaml:"above"`
	Price Price `yaml:"price"`
}

// Row is what the table knows of one model. Without a price the cost of a call
// is unknown; without a window the agent assumes a small one.
type Row struct {
	Model    string   `yaml:"model"` // provider/model
	Aliases  []string `yaml:"aliases,omitempty"`
	Date     string   `yaml:"date"`   // the day the numbers were read
	Source   string   `yaml:"source"` // where
	Window   int      `yaml:"window,omitempty"`
	Output   int      `yaml:"output,omitempty"` // largest answer
	Adaptive bool     `yaml:"adaptive_thinking,omitempty"`
	Price    *Price   `yaml:"price,omitempty"`
	Long     *Tier    `yaml:"long,omitempty"`
}

// Cost of one call.
func (r Row) Cost(u core.Usage) core.Cost {
	if r.Price == nil {
		return core.Cost{Unknown: true}
	}
	p := *r.Price
	if r.Long != nil && u.Input+u.CacheRead+u.CacheWrite > r.Long.Above {
		p = r.Long.Price
	}
	sum := float64(u.Input)*p.Input + float64(u.CacheRead)*p.CacheRead +
		float64(u.CacheWrite)*p.CacheWrite + float64(u.Output)*p.Output
	return core.Cost{Known: core.Money(math.Round(sum))}
}

// Table finds rows by provider and model. It is read-only after loading.
type Table struct{ rows map[string]Row }

type priceFile struct {
	Prices []Row `yaml:"prices"`
}

var dateWord = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

// LoadPrices reads the table that comes with the program, then the override
// file (may be empty), whose rows replace those of the same name.
func LoadPrices(overrideName string, override []byte) (*Table, error) {
	t := &Table{rows: map[string]Row{}}
	if err := t.add("prices.yaml", builtinPrices); err != nil {
		return nil, err
	}
	if len(override) > 0 {
		if err := t.add(overrideName, override); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Table) add(file string, data []byte) error {
	const op = "model.prices"
	var f priceFile
	if err := strictyaml.Decode(file, data, &f); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, r := range f.Prices {
		if provider, name, ok := strings.Cut(r.Model, "/"); !ok || provider == "" || name == "" {
			return core.E(op, core.Invalid, nil, "%s: prices[%d]: model %q is not of the form provider/model", file, i, r.Model)
		}
		if !dateWord.MatchString(r.Date) || r.Source == "" {
			return core.E(op, core.Invalid, nil, "%s: %s needs a date (YYYY-MM-DD) and a source", file, r.Model)
		}
		if err := r.check(); err != "" {
			return core.E(op, core.Invalid, nil, "%s: %s: %s", file, r.Model, err)
		}
		provider, _, _ := strings.Cut(r.Model, "/")
		names := []string{r.Model}
		for _, a := range r.Aliases {
			names = append(names, provider+"/"+a)
		}
		for _, n := range names {
			if seen[n] {
				return core.E(op, core.Invalid, nil, "%s: %s is listed twice", file, n)
			}
			seen[n] = true
			t.rows[n] = r
		}
	}
	return nil
}

func (r Row) check() string {
	prices := []*Price{r.Price}
	if r.Long != nil {
		if r.Price == nil || r.Long.Above <= 0 {
			return "long needs above and a price of its own besides price"
		}
		prices = append(prices, &r.Long.Price)
	}
	for _, p := range prices {
		if p == nil {
			continue
		}
		for _, v := range []float64{p.Input, p.CacheRead, p.CacheWrite, p.Output} {
			if !(v >= 0 && v <= 1e6) {
				return "a price is not between 0 and 1000000"
			}
		}
	}
	if r.Window < 0 || r.Output < 0 {
		return "window and output cannot be negative"
	}
	return ""
}

// snapshotDate ends the names under which providers freeze a model.
var snapshotDate = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`)

// Find looks a model up by its full name, then without the date of a frozen
// snapshot.
func (t *Table) Find(provider, name string) (Row, bool) {
	if r, ok := t.rows[provider+"/"+name]; ok {
		return r, true
	}
	r, ok := t.rows[provider+"/"+snapshotDate.ReplaceAllString(name, "")]
	return r, ok
}

// Providers lists the providers that have a row for this model name.
func (t *Table) providersOf(name string) []string {
	var out []string
	bare := snapshotDate.ReplaceAllString(name, "")
	for full := range t.rows {
		provider, n, _ := strings.Cut(full, "/")
		if n == name || n == bare {
			out = append(out, provider)
		}
	}
	return out
}
