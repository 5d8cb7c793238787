package config

import (
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
)

// Secret is a reference to a secret: "env:NAME", "file:/path" or "".
type Secret string

const maxSecret = 64 << 10

func (s Secret) check() error {
	how, what, ok := strings.Cut(string(s), ":")
	switch {
	case s == "":
	case ok && how == "env" && envName.MatchString(what):
	case ok && how == "file" && filepath.IsAbs(what):
	default:
		// The text is not shown: it may be the secret itself.
		return core.E("config.secret", core.Invalid, nil, "a secret is not written here; give a reference: env:NAME or file:/absolute/path")
	}
	return nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Read gets the secret. An empty reference is an empty secret.
func (s Secret) Read(env Env) (string, error) {
	if err := s.check(); err != nil || s == "" {
		return "", err
	}
	how, what, _ := strings.Cut(string(s), ":")
	if how == "env" {
		v, ok := env(what)
		if !ok || v == "" {
			return "", core.E("config.secret", core.NotFound, nil, "environment variable %s is not set", what)
		}
		return v, nil
	}
	f, err := os.Open(what)
	if err != nil {
		return "", core.E("config.secret", core.NotFound, err, "secret file %s", what)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil || len(data) > maxSecret {
		return "", core.E("config.secret", core.Invalid, err, "secret file %s cannot be read or is larger than %d bytes", what, maxSecret)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// Size is a number of bytes, written with a unit ("4GiB").
type Size int64

var (
	sizeForm = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,6})?) ?(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)$`)
	units    = map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
)

func parseSize(text string) (Size, error) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size; write a number and a unit, like 512MiB or 4GiB", clip(text))
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if v := n * units[m[2]]; err == nil && v < math.MaxInt64/2 {
		return Size(v), nil
	}
	return 0, fmt.Errorf("%q is too large", clip(text))
}

func (s Size) String() string {
	for _, u := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n := int64(units[u]); s != 0 && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + u
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Duration is written like "90s", "30m" or "8h"; "0" is allowed.
type Duration time.Duration

func parseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration; write it like 90s, 30m or 8h", clip(text))
	}
	return Duration(d), nil
}

func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Prefix is an IPv4 range.
type Prefix netip.Prefix

func parsePrefix(text string) (Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p != p.Masked() {
		return Prefix{}, fmt.Errorf("%q is not an IPv4 range like 10.20.0.0/16", clip(text))
	}
	if p.Bits() > 20 {
		return Prefix{}, fmt.Errorf("%q is too small; a range has at most 20 bits", clip(text))
	}
	return Prefix(p), nil
}

func (p Prefix) String() string { return netip.Prefix(p).String() }

// MarshalText implements encoding.TextMarshaler.
func (p Prefix) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
