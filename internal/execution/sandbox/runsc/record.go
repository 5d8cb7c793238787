package runsc

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
)

// record is what the driver must remember about one sandbox across a restart.
type record struct {
	Version  int                 `json:"version"`
	Instance string              `json:"instance"`
	Handle   sandbox.Handle      `json:"handle"`
	State    core.SandboxState   `json:"state"`
	Cause    sandbox.Cause       `json:"cause,omitempty"` // set before the kill that it explains
	Detail   string              `json:"detail,omitempty"`
	Limits   core.Limits         `json:"limits"`
	Policy   *core.NetworkPolicy `json:"policy,omitempty"`
	Process  process             `json:"process"`
	Freeze   *freezeIntent       `json:"freeze,omitempty"`
	Resumed  *freezeIntent       `json:"resumed,omitempty"` // the last freeze from which it went on

	// Of the specification, for starting it again.
	Written  int64    `json:"written,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	Env      []string `json:"env,omitempty"`
	Init     string   `json:"init,omitempty"` // digest of the drydock-init that is mounted

	Woke string `json:"woke,omitempty"` // token that it demanded when it was restored
	Shut bool   `json:"shut,omitempty"` // its network is shut until Open
}

// freezeIntent is written before the first step of a freeze.
type freezeIntent struct {
	Into   string         `json:"into"`
	Memory bool           `json:"memory,omitempty"`
	Resume bool           `json:"resume,omitempty"`
	Token  string         `json:"token,omitempty"` // what the guest has been told to demand
	Plan   *sandbox.Image `json:"plan,omitempty"`  // what the image will be; its directory is there once it is complete
	Image  *sandbox.Image `json:"image,omitempty"` // once it is complete
	Lost   string         `json:"lost,omitempty"`
}

func (f *freezeIntent) frozen() sandbox.Frozen {
	return sandbox.Frozen{Upper: filepath.Join(f.Into, "upper"), Image: f.Image, Lost: f.Lost}
}

const recordVersion = 1

// paths of one sandbox.
type paths struct{ dir string }

func (d *Driver) paths(id core.SandboxID) paths {
	return paths{filepath.Join(d.sandboxesDir(), string(id))}
}

func (d *Driver) sandboxesDir() string { return filepath.Join(d.opts.StateDir, "sandboxes") }

func (p paths) record() string  { return filepath.Join(p.dir, "sandbox.json") }
func (p paths) upper() string   { return filepath.Join(p.dir, "upper") }
func (p paths) work() string    { return filepath.Join(p.dir, "work") }
func (p paths) root() string    { return filepath.Join(p.dir, "root") }
func (p paths) bundle() string  { return filepath.Join(p.dir, "bundle") }
func (p paths) pidFile() string { return filepath.Join(p.bundle(), "pid") }
func (p paths) output() string  { return filepath.Join(p.bundle(), "init.log") }
func (p paths) log() string     { return filepath.Join(p.bundle(), "runsc.log") }

// save replaces the record. With durable it is on disk before save returns,
// also across a loss of power; without, only the death of the daemon is
// survived, which is enough while the sandbox itself would not outlive more.
func (p paths) save(r record, durable bool) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	tmp := p.record() + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, p.record()); err != nil {
		return err
	}
	if durable {
		return syncDir(p.dir)
	}
	return nil
}

func (p paths) load() (record, error) {
	var r record
	data, err := os.ReadFile(p.record())
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, core.E("runsc.record", core.Internal, err, "sandbox record %s is damaged", p.record())
	}
	if r.Version != recordVersion {
		return r, core.E("runsc.record", core.Internal, nil, "sandbox record %s has version %d, this build reads %d",
			p.record(), r.Version, recordVersion)
	}
	return r, nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// tail reads the end of a file for an error message.
func tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > limit {
		_, _ = f.Seek(st.Size()-limit, 0)
	}
	buf := make([]byte, limit)
	n, _ := f.Read(buf)
	return strings.TrimSpace(strings.ToValidUTF8(string(buf[:n]), "\uFFFD"))
}
