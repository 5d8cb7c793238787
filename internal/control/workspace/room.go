package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/proof/browser"
	"drydock/internal/proof/exam"
)

// Rooms opens clean rooms for one exam: sandboxes restored from the
// environment's snapshot in which nothing of the change has ever run.
type Rooms struct {
	Manager  *Manager
	Repo     *mirror.Mirror
	Recipe   recipe.Recipe // of the base
	Snapshot core.SnapshotID
	Owner    string // of the sandboxes: the run
	Scratch  string // directory for outputs, on the host
}

// Room is one clean room.
type Room struct {
	r        Rooms
	machine  *environment.Machine
	services bool
	known    []string // commits that are inside already
	at       string   // commit whose files are there
	moved    bool     // files are others than those the running services were started from
	scratch  string
}

// Open implements exam.Rooms.
func (r Rooms) Open(ctx context.Context, req exam.RoomRequest) (exam.Room, error) {
	manifest, err := r.Manager.d.Snapshots.Get(ctx, r.Snapshot)
	if err != nil {
		return nil, err
	}
	machine, err := r.Manager.d.Launcher.Launch(ctx, environment.LaunchRequest{
		Snapshot: r.Snapshot, Purpose: environment.PurposeProof, Owner: r.Owner, Policy: &r.Recipe.Network, Limits: r.Recipe.Limits, Recipe: &r.Recipe,
		FilesOnly: !req.Services, // a check that wants none must not meet them
	})
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(r.Scratch, "room-")
	if err != nil {
		_ = machine.Close(context.WithoutCancel(ctx))
		return nil, core.E("workspace.room", core.Unavailable, err, "no directory for the outputs of a room")
	}
	return &Room{r: r, machine: machine, services: req.Services, known: []string{manifest.Commit}, at: manifest.Commit, scratch: scratch}, nil
}

// Root implements exam.Room.
func (o *Room) Root() string { return o.r.Recipe.Workspace }

// Machine is the sandbox of the room.
func (o *Room) Machine() *environment.Machine { return o.machine }

// Start runs a program of the platform, such as a browser, until stop is
// called.
func (o *Room) Start(ctx context.Context, argv []string) (stop func(), output func() string, err error) {
	return Browser{o.machine}.Start(ctx, argv)
}

// ServicePorts implements browser.Services.
func (o *Room) ServicePorts() []int {
	if !o.services {
		return nil
	}
	return servicePorts(o.machine)
}

// Dial reaches a port on the loopback of the room.
func (o *Room) Dial(ctx context.Context, port int) (net.Conn, error) {
	return Browser{o.machine}.Dial(ctx, port)
}

// Checkout implements exam.Room.
func (o *Room) Checkout(ctx context.Context, commit string) error {
	if commit == o.at && !o.moved {
		_, ok, err := o.machine.Stand(ctx, environment.Standing{Commit: commit, Branch: roomBranch})
		if ok || err != nil {
			return err
		}
	}
	if commit != o.at {
		o.at, o.moved = commit, true
	}
	if slices.Contains(o.known, commit) {
		return o.machine.Reset(ctx, commit, roomBranch)
	}
	err := o.machine.CheckoutMirror(ctx, o.r.Repo, environment.Checkout{Commit: commit, Branch: roomBranch, Have: o.known, KeepNew: true})
	if err == nil {
		o.known = append(o.known, commit)
	}
	return err
}

const roomBranch = "drydock/room"

// Overlay implements exam.Room.
func (o *Room) Overlay(ctx context.Context, files []exam.OverlayFile) error {
	g := o.machine.Guest()
	o.moved = o.moved || len(files) > 0
	for _, f := range files {
		full := path.Join(o.Root(), f.Path)
		if !strings.HasPrefix(full, o.Root()+"/") {
			return core.E("workspace.room", core.Invalid, nil, "overlay file %q is outside the repository", f.Path)
		}
		var err error
		switch {
		case f.Delete:
			if err = g.Remove(ctx, full, false); core.Is(err, core.NotFound) {
				err = nil
			}
		case f.Mode&fs.ModeSymlink != 0:
			_ = g.Remove(ctx, full, false)
			err = g.Symlink(ctx, string(f.Data), full)
		default:
			err = g.WriteFile(ctx, full, f.Mode.Perm(), strings.NewReader(string(f.Data)))
		}
		if err != nil {
			return o.machine.Explain(ctx, err)
		}
	}
	return nil
}

// Ready implements exam.Room.
func (o *Room) Ready(ctx context.Context) error {
	if !o.services {
		return nil
	}
	_, err := o.machine.Reload(ctx, o.moved)
	o.moved = false
	return err
}

// maxRoomOutput bounds what is kept of one stream on the host.
const maxRoomOutput = 256 << 20

// Run implements exam.Room.
func (o *Room) Run(ctx context.Context, cmd exam.Command) (exam.Outcome, error) {
	g := o.machine.Guest()
	started := time.Now()
	out := exam.Outcome{Started: started}
	p, err := g.Start(ctx, guest.Command{
		Argv: []string{"/bin/sh", "-c", cmd.Shell}, Dir: path.Join(o.Root(), cmd.Dir), Env: cmd.Env, User: o.machine.User(), Timeout: cmd.Timeout,
	})
	if err == nil {
		var wg sync.WaitGroup
		wg.Go(func() { out.Stdout = o.keep(ctx, p.ID, guest.Stdout) })
		wg.Go(func() { out.Stderr = o.keep(ctx, p.ID, guest.Stderr) })
		p, err = g.Wait(ctx, p.ID)
		wg.Wait()
	}
	out.Duration = time.Since(started)
	if err == nil {
		err = o.machine.Dying(ctx, p)
	}
	if err == nil {
		out.ExitCode, out.TimedOut = p.ExitCode, p.TimedOut
		return out, nil
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	var status sandbox.Status
	if dead, ok := errors.AsType[*environment.DeadError](o.machine.Explain(ctx, err)); ok {
		status = dead.Status
	} else if now, statusErr := o.machine.Status(ctx); statusErr == nil && now.State != core.SandboxRunning {
		status = now // whatever the guest answered last
	} else {
		return out, err
	}
	out.Died, out.Detail = string(status.Cause), status.Detail
	if out.Died == "" {
		out.Died = string(sandbox.CauseKilled)
	}
	return out, nil
}

// keep streams an output to a file of the host while the command runs.
func (o *Room) keep(ctx context.Context, id guest.ProcessID, stream string) exam.Output {
	f, err := os.CreateTemp(o.scratch, stream+"-")
	if err != nil {
		return exam.Output{Truncated: true}
	}
	defer f.Close()
	out := exam.Output{Open: func() (io.ReadCloser, error) { return os.Open(f.Name()) }}
	to := &bounded{w: f, left: maxRoomOutput}
	err = o.machine.Follow(ctx, id, stream, to)
	out.Size, out.Truncated = maxRoomOutput-to.left, err != nil || to.left == 0
	return out
}

// bounded writes so much and no more.
type bounded struct {
	w    io.Writer
	left int64
}

var errBound = errors.New("more output than is kept")

func (b *bounded) Write(p []byte) (int, error) {
	n, err := b.w.Write(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err == nil && n < len(p) {
		err = errBound
	}
	return n, err
}

// Files implements exam.Room.
func (o *Room) Files(ctx context.Context, globs []string, limit int64) ([]exam.RoomFile, error) {
	var out []exam.RoomFile
	seen := map[string]bool{}
	for _, g := range globs {
		found, err := o.machine.Glob(ctx, o.Root(), g)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if seen[f.Path] || limit <= 0 {
				continue
			}
			seen[f.Path] = true
			n := min(f.Size, limit, guest.MaxRead)
			data, info, err := o.machine.Guest().ReadFile(ctx, f.Path, 0, n)
			if core.Is(err, core.NotFound) {
				continue
			}
			if err != nil {
				return nil, o.machine.Explain(ctx, err)
			}
			limit -= int64(len(data))
			out = append(out, exam.RoomFile{
				Path: strings.TrimPrefix(f.Path, o.Root()+"/"), ModTime: info.ModTime, Data: data, Cut: int64(len(data)) < info.Size,
			})
		}
	}
	return out, nil
}

// Remove implements exam.Room.
func (o *Room) Remove(ctx context.Context, globs []string) error {
	for _, g := range globs {
		found, err := o.machine.Glob(ctx, o.Root(), g)
		if err != nil {
			return err
		}
		for _, f := range found {
			if err := o.machine.Guest().Remove(ctx, f.Path, false); err != nil && !core.Is(err, core.NotFound) {
				return o.machine.Explain(ctx, err)
			}
		}
	}
	return nil
}

// Close implements exam.Room.
func (o *Room) Close(ctx context.Context) error {
	err := o.machine.Close(ctx)
	if rmErr := os.RemoveAll(o.scratch); rmErr != nil && err == nil {
		err = fmt.Errorf("outputs of a room: %w", rmErr)
	}
	return err
}

var (
	_ exam.Rooms      = Rooms{}
	_ exam.Room       = (*Room)(nil)
	_ browser.Machine = (*Room)(nil)
)
