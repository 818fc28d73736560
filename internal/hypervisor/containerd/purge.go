package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/network"
)

// Purge ends and removes everything that one cloud's containers hold on this
// host, whether or not its daemon or agent still runs: shims and guests, mounts,
// cgroups, the bridge, the id block. Images, logs and the disk pool with its
// volumes stay in StateDir, where a deletion of the folder finds nothing mounted
// any more. The daemon, and VMs whose disks are in the pool, should be stopped
// before.
func Purge(ctx context.Context, cfg Config) error {
	if cfg.CloudID == "" || cfg.StateDir == "" || cfg.RunDir == "" {
		return errors.New("purge needs a cloud id, a state and a run folder")
	}
	errs := []error{killShims(ctx, cfg.CloudID, ""), killGuests(ctx, cfg)}
	net := cfg.Network
	if net == nil {
		var err error
		net, err = network.New(network.Config{
			CloudID: cfg.CloudID, StateDir: filepath.Join(cfg.StateDir, "network"), RunDir: filepath.Join(cfg.RunDir, "network"), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	errs = append(errs, net.Down(ctx), unmountBelow(cfg.RunDir), newDisks(cfg).pool.Close(), unmountBelow(cfg.StateDir))
	removeCgroup("/" + Namespace(cfg.CloudID))
	errs = append(errs, releaseBlocks(cfg.CloudID))
	for _, dir := range []string{
		guestsDir(cfg), rootfsDir(cfg), viewsDir(cfg), devicesDir(cfg), fifoDir(cfg),
		filepath.Join(cfg.RunDir, "runc"), filepath.Join(cfg.RunDir, "containerd"),
	} {
		errs = append(errs, removeUnmounted(dir))
	}
	return errors.Join(errs...)
}

// killShims ends the shims of one guest, or of all of a cloud's when id is empty;
// they are known by their arguments.
func killShims(ctx context.Context, cloudID, id string) error {
	want := []byte("-namespace\x00" + Namespace(cloudID) + "\x00")
	if id != "" {
		want = append(want, "-id\x00"+id+"\x00"...)
	}
	return killUntilGone(ctx, "shims", func() []int {
		var pids []int
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			if err == nil && bytes.Contains(raw, want) && bytes.Contains(raw, []byte("containerd-shim")) {
				pids = append(pids, pid)
			}
		}
		return pids
	})
}

func killGuests(ctx context.Context, cfg Config) error {
	return killUntilGone(ctx, "guests", func() []int { return processes("/" + Namespace(cfg.CloudID)) })
}

func killUntilGone(ctx context.Context, what string, list func() []int) error {
	deadline := time.Now().Add(killTimeout)
	for {
		pids := list()
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill %s: %d are still there", what, len(pids))
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
}

// mountsBelow lists what is mounted at or under a folder, deepest first.
func mountsBelow(dir string) ([]string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []string
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := unescape.Replace(fields[4]); at != dir && strings.HasPrefix(at, dir+"/") {
			found = append(found, at)
		}
	}
	sort.Slice(found, func(i, j int) bool { return len(found[i]) > len(found[j]) })
	return found, nil
}

func unmountBelow(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range mounts {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// removeUnmounted refuses to delete through a mount, which could be an image.
func removeUnmounted(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("remove %s: %s is still mounted", filepath.Base(dir), mounts[0])
	}
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", filepath.Base(dir), err)
	}
	return nil
}
