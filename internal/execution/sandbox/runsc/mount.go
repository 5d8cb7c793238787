package runsc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// overlay options that every mount has. redirect_dir: without it, renaming a
// directory of a lower layer fails with EXDEV, which breaks package managers.
// metacopy and index stay off: a layer must be usable by itself, and again
// under another upper directory.
var overlayOptions = [...][2]string{{"redirect_dir", "on"}, {"metacopy", "off"}, {"index", "off"}}

// maxLegacyOptions is one page less the final zero byte.
const maxLegacyOptions = 4095

// mountOverlay mounts layers (topmost first) under upper at target.
func mountOverlay(layers []string, upper, work, target string) error {
	err := mountOverlayNew(layers, upper, work, target)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, errNoLayerByLayer) {
		return mountOverlayLegacy(layers, upper, work, target)
	}
	return err
}

// errNoLayerByLayer: the kernel has the mount API but overlayfs does not take
// layers one by one (before Linux 6.5).
var errNoLayerByLayer = errors.New("overlayfs takes no single layers")

func mountOverlayNew(layers []string, upper, work, target string) error {
	fsfd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen overlay: %w", err)
	}
	defer func() { _ = unix.Close(fsfd) }()
	short := newShortener()
	defer short.close()
	for i, layer := range layers {
		path, err := short.path(layer)
		if err != nil {
			return err
		}
		if err := unix.FsconfigSetString(fsfd, "lowerdir+", path); err != nil {
			if i == 0 && errors.Is(err, unix.EINVAL) {
				return errNoLayerByLayer
			}
			return fsError(fsfd, fmt.Sprintf("overlay layer %s", layer), err)
		}
	}
	for _, o := range [][2]string{{"upperdir", upper}, {"workdir", work}} {
		path, err := short.path(o[1])
		if err != nil {
			return err
		}
		if err := unix.FsconfigSetString(fsfd, o[0], path); err != nil {
			return fsError(fsfd, fmt.Sprintf("overlay %s %s", o[0], o[1]), err)
		}
	}
	for _, o := range overlayOptions {
		if err := unix.FsconfigSetString(fsfd, o[0], o[1]); err != nil {
			return fsError(fsfd, fmt.Sprintf("overlay option %s=%s", o[0], o[1]), err)
		}
	}
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return fsError(fsfd, "overlay mount", err)
	}
	// Devices and set-uid files in the root mean something inside gVisor only.
	mfd, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return fsError(fsfd, "overlay mount", err)
	}
	defer func() { _ = unix.Close(mfd) }()
	if err := unix.MoveMount(mfd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount overlay on %s: %w", target, err)
	}
	return nil
}

func mountOverlayLegacy(layers []string, upper, work, target string) error {
	// Descriptors instead of paths: nothing to escape, and many layers fit.
	short := newShortener()
	defer short.close()
	lower := make([]string, len(layers))
	for i, layer := range layers {
		path, err := short.fd(layer)
		if err != nil {
			return err
		}
		lower[i] = path
	}
	upperPath, err := short.fd(upper)
	if err != nil {
		return err
	}
	workPath, err := short.fd(work)
	if err != nil {
		return err
	}
	list := []string{"lowerdir=" + strings.Join(lower, ":"), "upperdir=" + upperPath, "workdir=" + workPath}
	for _, o := range overlayOptions {
		list = append(list, o[0]+"="+o[1])
	}
	options := strings.Join(list, ",")
	if len(options) > maxLegacyOptions {
		return fmt.Errorf("%d layers are too many for this kernel's mount call (Linux 6.5 takes more)", len(layers))
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("mount overlay on %s: %w", target, err)
	}
	return nil
}

// shortener gives directories names short enough for the mount calls, which
// take at most 255 bytes per value.
type shortener struct{ files []*os.File }

func newShortener() *shortener { return &shortener{} }

func (s *shortener) path(dir string) (string, error) {
	if len(dir) < 256 {
		return dir, nil
	}
	return s.fd(dir)
}

func (s *shortener) fd(dir string) (string, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	s.files = append(s.files, f)
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())), nil
}

func (s *shortener) close() {
	for _, f := range s.files {
		f.Close()
	}
	runtime.KeepAlive(s)
}

// fsError adds what the kernel wrote into the context's log.
func fsError(fsfd int, what string, err error) error {
	buf := make([]byte, 1024)
	if n, readErr := unix.Read(fsfd, buf); readErr == nil && n > 0 {
		return fmt.Errorf("%s: %w: %s", what, err, strings.TrimSpace(string(buf[:n])))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// unmount takes every mount off target; none is fine. The processes that used
// it are dead, but the kernel may need a moment to let go of it.
func unmount(ctx context.Context, target string) error {
	for try := 0; ; try++ {
		err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil:
			continue // there may be one more below
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EBUSY) && try < 50 && pause(ctx):
		case errors.Is(err, unix.EBUSY):
			if err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				return fmt.Errorf("unmount %s: %w", target, err)
			}
			return nil
		default:
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
}

// mountsBelow lists mount points below dir.
func mountsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // no directory, no mounts in it
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescapeMount(fields[4])
		if strings.HasPrefix(point, dir+"/") {
			out = append(out, point)
		}
	}
	return out, nil
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
