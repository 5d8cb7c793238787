package supervisor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

func (s *Supervisor) machineRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/health", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, s.health(), nil) })
	mux.HandleFunc("POST /v1/setup", call(s, s.applySetup))
	mux.HandleFunc("POST /v1/token", call(s, s.rotate))
	mux.HandleFunc("POST /v1/hold", call(s, s.hold))
	//nolint:contextcheck // services outlive the request that restarts them
	mux.HandleFunc("POST /v1/probe", call(s, func(ctx context.Context, _ empty) (guest.Probed, error) { return s.probe(ctx) }))
	mux.HandleFunc("POST /v1/sync", call(s, func(context.Context, empty) (empty, error) {
		unix.Sync()
		return empty{}, nil
	}))
	mux.HandleFunc("POST /v1/quiesce", call(s, func(ctx context.Context, _ empty) (empty, error) {
		s.services.stopAll(ctx)
		s.stopAll(ctx, stopAllGrace)
		s.endStrangers(ctx, stopAllGrace)
		unix.Sync()
		return empty{}, ctx.Err()
	}))
	//nolint:contextcheck // services outlive the request that declares them
	mux.HandleFunc("POST /v1/services", call(s, func(_ context.Context, in []guest.Service) ([]guest.ServiceStatus, error) {
		return s.services.declare(in)
	}))
	mux.HandleFunc("GET /v1/services", s.serviceStatus)
	//nolint:contextcheck // services outlive the request that restarts them
	mux.HandleFunc("POST /v1/services/restart", call(s, func(_ context.Context, in guest.NameRequest) (empty, error) {
		return empty{}, s.services.restart(in.Name)
	}))
	//nolint:contextcheck // services outlive the request that restarts them
	mux.HandleFunc("POST /v1/services/reload", call(s, func(_ context.Context, in guest.PathRequest) ([]string, error) {
		return s.services.reload(in.Path)
	}))
	mux.HandleFunc("POST /v1/services/stop", call(s, func(ctx context.Context, _ empty) (empty, error) {
		s.services.stopAll(ctx)
		return empty{}, ctx.Err()
	}))
	mux.HandleFunc("GET /v1/ports", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, listening(), nil) })
	mux.HandleFunc("GET /v1/reach", s.reach)
}

func (s *Supervisor) setToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = sha256.Sum256([]byte(token))
	s.instance = newInstance()
}

func (s *Supervisor) health() guest.Health {
	running, known, kept := s.reg.stats()
	h := guest.Health{
		Protocol: guest.Protocol, Version: s.opts.Version, Instance: s.instanceID(), Started: s.started,
		Now: time.Now().UTC(), Running: running, Known: known, RingBytes: kept,
	}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		h.Load = clip(strings.TrimSpace(string(raw)), 80)
	}
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			switch f[0] {
			case "MemTotal:":
				h.MemTotal = kib << 10
			case "MemAvailable:":
				h.MemFree = kib << 10
			}
		}
	}
	return h
}

const maxSetupFiles = 64

// applySetup gives the sandbox its identity. What fails although a driver may
// have done it already (the host name) is a warning.
func (s *Supervisor) applySetup(_ context.Context, in guest.Setup) (guest.SetupResult, error) {
	var res guest.SetupResult
	if err := checkSetup(in); err != nil {
		return res, err
	}
	if !in.Clock.IsZero() {
		res.Skew = time.Since(in.Clock)
	}
	warn := func(what string, err error) {
		if err != nil {
			res.Warnings = append(res.Warnings, clip(what+": "+err.Error(), 300))
		}
	}
	for _, f := range in.Files {
		if f.Sum != "" {
			if real, err := s.tree.path("guest.setup", f.Path); err != nil || !holdsSum(real, f.Mode, f.Sum) {
				res.Missing = append(res.Missing, f.Path)
			}
			continue
		}
		if err := s.writeWhole(f.Path, f.Mode, f.Data); err != nil {
			return res, err
		}
	}
	if in.Hostname != "" && s.tree.isSlash() {
		warn("host name", unix.Sethostname([]byte(in.Hostname)))
	}
	for _, f := range in.Etc() {
		warn(f.Path, s.writeWhole(f.Path, f.Mode, f.Data))
	}
	if in.Machine != "" {
		s.newSeeds(in.Machine, warn)
	}
	s.mu.Lock()
	s.setup = guest.Setup{Hostname: in.Hostname, Env: slices.Clone(in.Env)}
	s.mu.Unlock()
	return res, nil
}

func checkSetup(in guest.Setup) error {
	const op = "guest.setup"
	if len(in.Files) > maxSetupFiles {
		return core.E(op, core.Invalid, nil, "%d files, the limit is %d", len(in.Files), maxSetupFiles)
	}
	if len(in.Hostname) > 64 || strings.Trim(in.Hostname, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
		return core.E(op, core.Invalid, nil, "host name %q", clip(in.Hostname, 80))
	}
	if in.Machine != "" && (len(in.Machine) != 32 || strings.Trim(in.Machine, "0123456789abcdef") != "") {
		return core.E(op, core.Invalid, nil, "machine id %q", clip(in.Machine, 80))
	}
	for name, addr := range in.Hosts {
		if _, err := netip.ParseAddr(addr); err != nil || strings.ContainsAny(name, " \t\r\n#") || name == "" {
			return core.E(op, core.Invalid, err, "hosts entry %q at %q", clip(name, 80), clip(addr, 80))
		}
	}
	for _, kv := range in.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" || strings.IndexByte(kv, 0) >= 0 {
			return core.E(op, core.Invalid, nil, "environment entry %q", clip(kv, 40))
		}
	}
	return nil
}

// writeWhole writes one small file atomically, with its parents. A file that
// is a mount of its own cannot be replaced and is written in place.
func (s *Supervisor) writeWhole(path string, mode fs.FileMode, data []byte) error {
	const op = "guest.write"
	real, err := s.tree.path(op, path)
	if err != nil {
		return err
	}
	if holds(real, mode, data) {
		return nil
	}
	if err := s.makeParents(filepath.Dir(real)); err != nil {
		return fileErr(op, err, path)
	}
	_, err = s.replaceFile(nil, real, mode, strings.NewReader(string(data)))
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV) {
		err = os.WriteFile(real, data, 0o644)
	}
	if err != nil {
		return fileErr(op, err, path)
	}
	return nil
}

// holds says whether a regular file has this mode and content already. What a
// snapshot brought along need not be written again at every start: looking
// costs a quarter of replacing.
func holds(real string, mode fs.FileMode, data []byte) bool {
	file, size := openAs(real, mode)
	if file == nil {
		return false
	}
	defer file.Close()
	if size != int64(len(data)) {
		return false
	}
	got := make([]byte, len(data))
	_, err := io.ReadFull(file, got)
	return err == nil && bytes.Equal(got, data)
}

// holdsSum is holds for who knows only the sum of the content.
func holdsSum(real string, mode fs.FileMode, sum string) bool {
	file, size := openAs(real, mode)
	if file == nil {
		return false
	}
	defer file.Close()
	if size > guest.MaxJSON {
		return false // nobody could have sent it
	}
	h := sha256.New()
	_, err := io.Copy(h, file)
	return err == nil && hex.EncodeToString(h.Sum(nil)) == sum
}

// openAs opens a regular file of this mode (0: of any), or returns nil.
func openAs(real string, mode fs.FileMode) (*os.File, int64) {
	file, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || mode != 0 && info.Mode() != mode {
		_ = file.Close()
		return nil, 0
	}
	return file, info.Size()
}

func (s *Supervisor) resize(_ context.Context, in guest.ResizeRequest) (empty, error) {
	const op = "guest.resize"
	p, err := s.reg.find(in.ProcessRef)
	if err != nil {
		return empty{}, err
	}
	if p.master == nil {
		return empty{}, core.E(op, core.Conflict, nil, "process %s has no terminal", p.info.ID)
	}
	if err := pty.Setsize(p.master, &pty.Winsize{Rows: in.Size.Rows, Cols: in.Size.Cols}); err != nil {
		return empty{}, core.E(op, core.Conflict, err, "process %s", p.info.ID)
	}
	return empty{}, nil
}

func signalByName(name string) (syscall.Signal, error) {
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if sig == 0 {
		return 0, core.E("guest.signal", core.Invalid, nil, "signal %q does not exist", clip(name, 40))
	}
	return sig, nil
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
