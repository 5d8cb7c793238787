package model_test

import (
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

func table(t *testing.T, override string) *model.Table {
	t.Helper()
	tab, err := model.LoadPrices("own.yaml", []byte(override))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestPrices(t *testing.T) {
	tab := table(t, "")
	row, ok := tab.Find("anthropic", "claude-opus-4-5-20251101")
	if !ok || row.Price.Input != 5 || row.Window != 200000 || row.Date == "" || row.Source == "" {
		t.Fatalf("got %+v, %v", row, ok)
	}
	if _, ok := tab.Find("openai", "claude-opus-4-5"); ok {
		t.Fatal("a price belongs to a provider")
	}
	if _, ok := tab.Find("anthropic", "claude-opus-9"); ok {
		t.Fatal("no price is invented for a model that is not there")
	}
	// Above the threshold the whole request is dearer, output too.
	haiku, _ := tab.Find("anthropic", "claude-haiku-5-5")
	short := haiku.Cost(core.Usage{Input: 50_000, CacheRead: 50_000, Output: 1000})
	long := haiku.Cost(core.Usage{Input: 50_000, CacheRead: 50_001, Output: 1000})
	if short.Known != 6000 || long.Known != 30000 {
		t.Fatalf("short %s, long %s", short, long)
	}
}

func TestPriceOverride(t *testing.T) {
	tab := table(t, `
prices:
  - {model: anthropic/claude-opus-5, date: "2026-11-01", source: contract, window: 500000, output: 1000, price: {input: 1, cache_read: 0, cache_write: 1, output: 2}}
  - {model: local/qwen, aliases: [qwen-coder], date: "2026-11-01", source: own machine, window: 65536, output: 8192}
`)
	if row, _ := tab.Find("anthropic", "claude-opus-5"); row.Price.Input != 1 || row.Window != 500000 {
		t.Fatalf("got %+v", row)
	}
	row, ok := tab.Find("local", "qwen-coder")
	if !ok || row.Window != 65536 {
		t.Fatalf("got %+v", row)
	}
	if c := row.Cost(core.Usage{Input: 5}); !c.Unknown {
		t.Fatal("limits without a price leave the cost unknown")
	}
}

func TestPriceMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`prices: [{model: qwen, date: "2026-11-01", source: x}]`: "provider/model",
		`prices: [{model: a/b, source: x}]`:                      "date",
		`prices: [{model: a/b, date: "2026-11-01"}]`:             "source",
		`prices: [{model: a/b, date: "2026-11-01", source: x, price: {input: -1, cache_read: 0, cache_write: 0, output: 0}}]`:   "price",
		`prices: [{model: a/b, date: "2026-11-01", source: x, price: {inptu: 1}}]`:                                              "inptu",
		`prices: [{model: a/b, date: "2026-11-01", source: x}, {model: a/b, date: "2026-11-01", source: x}]`:                    "twice",
		`prices: [{model: a/b, date: "2026-11-01", source: x, long: {above: 5, price: {input: 1}}}]`:                            "long",
		`prices: [{model: a/b, date: "2026-11-01", source: x, price: {input: .nan, cache_read: 0, cache_write: 0, output: 0}}]`: "price",
	} {
		if _, err := model.LoadPrices("own.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "own.yaml") {
			t.Errorf("%s: got %v, want a word about %q", text, err, want)
		}
	}
}

func FuzzLoadPrices(f *testing.F) {
	f.Add([]byte(`prices: [{model: a/b, date: "2026-11-01", source: x, price: {input: 1, cache_read: 0, cache_write: 0, output: 0}}]`))
	f.Add([]byte("prices:\n  - &a {model: a/b}\n  - *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tab, err := model.LoadPrices("f.yaml", data)
		if err != nil {
			return
		}
		row, ok := tab.Find("a", "b")
		if ok && row.Cost(core.Usage{Input: 10, Output: 10}).Known < 0 {
			t.Fatal("a negative cost")
		}
	})
}
