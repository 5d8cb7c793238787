package core

import (
	"fmt"
	"time"
)

// Money is an amount in millionths of a US dollar.
type Money int64

func (m Money) String() string { return fmt.Sprintf("$%.4f", float64(m)/1e6) }

// Cost is what model calls cost. Unknown means that at least one call was made
// with a model whose price is not in the table: Known is then only a lower
// bound, and no view may show it as the whole.
type Cost struct {
	Known   Money `json:"known_microusd"`
	Unknown bool  `json:"unknown,omitempty"`
}

func (c Cost) Add(o Cost) Cost {
	return Cost{Known: c.Known + o.Known, Unknown: c.Unknown || o.Unknown}
}

func (c Cost) String() string {
	switch {
	case c.Unknown && c.Known == 0:
		return "unknown"
	case c.Unknown:
		return "at least " + c.Known.String()
	}
	return c.Known.String()
}

// Usage counts tokens by price class.
type Usage struct {
	Input      int64 `json:"input"`       // not from a cache
	CacheRead  int64 `json:"cache_read"`  // read from the provider's cache
	CacheWrite int64 `json:"cache_write"` // written to it
	Output     int64 `json:"output"`
	Calls      int64 `json:"calls"`
}

func (u Usage) Add(o Usage) Usage {
	return Usage{u.Input + o.Input, u.CacheRead + o.CacheRead, u.CacheWrite + o.CacheWrite, u.Output + o.Output, u.Calls + o.Calls}
}

// Budget bounds a session. Zero means no bound.
type Budget struct {
	WallClock time.Duration `json:"wall_clock_ns,omitempty"`
	Money     Money         `json:"microusd,omitempty"`
}

// Limits bound one sandbox. Zero means the default of the configuration.
type Limits struct {
	CPU      float64       `json:"cpu,omitempty"`         // cores
	Memory   int64         `json:"memory,omitempty"`      // bytes
	Pids     int           `json:"pids,omitempty"`        // tasks
	Disk     int64         `json:"disk,omitempty"`        // bytes written above the snapshot
	Lifetime time.Duration `json:"lifetime_ns,omitempty"` // then it is destroyed
}
