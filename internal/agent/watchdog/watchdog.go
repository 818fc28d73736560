package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Config is what a watchdog is made of.
type Config struct {
	Dir        string // where its agent keeps the lease
	BootID     string
	Clock      func() time.Duration // since boot; nil: the kernel's
	CgroupRoot string               // default: /sys/fs/cgroup
	Interval   time.Duration        // default: 1 s
	Log        *slog.Logger
}

// SinceBoot is a clock that nobody sets and that counts sleep.
func SinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("read the clock: " + err.Error()) // every Linux has it
	}
	return time.Duration(t.Nano())
}

// Run watches until ctx ends. Only one watches a folder.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = SinceBoot
	}
	if cfg.CgroupRoot == "" {
		cfg.CgroupRoot = "/sys/fs/cgroup"
	}
	if cfg.Interval <= 0 {
		cfg.Interval = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the watchdog's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(cfg.Dir, "watchdog.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the watchdog's folder: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another watchdog watches %s", cfg.Dir)
	}
	// The last to go when memory runs out.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0)
	self, err := processOf(os.Getpid())
	if err != nil {
		return fmt.Errorf("find own start: %w", err)
	}
	w := &watch{cfg: cfg, self: self, ended: map[string]bool{}}
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	for {
		w.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

type watch struct {
	cfg   Config
	self  Process
	lease Lease
	ended map[string]bool // told of already
}

// look reads the lease, says so, and ends what is over. A lease that can't be read
// leaves the last one in force.
func (w *watch) look() {
	var next Lease
	switch err := read(leaseFile(w.cfg.Dir), &next); {
	case err == nil && next.BootID == w.cfg.BootID:
		w.lease = next
	case err == nil: // of another boot: nothing of it runs
	case !errors.Is(err, fs.ErrNotExist):
		w.cfg.Log.Warn("read lease", "error", err)
	}
	if w.lease.BootID == "" {
		return
	}
	now := w.cfg.Clock()
	for _, g := range w.lease.Guests {
		if now < g.Deadline {
			continue
		}
		if n := w.end(g); n > 0 && !w.ended[g.ID] {
			w.ended[g.ID] = true
			w.cfg.Log.Warn("a guest was ended: no contact with the control plane, and its agent did not end it",
				"instance", g.ID, "epoch", g.Epoch, "processes", n, "late_ms", (now - g.Deadline).Milliseconds())
		}
	}
	if err := write(ackFile(w.cfg.Dir), ack{w.cfg.BootID, w.lease.Sequence, now, w.self}); err != nil {
		w.cfg.Log.Warn("acknowledge lease", "error", err)
	}
}

// end kills a guest and gives how many of its processes it met.
func (w *watch) end(g Guest) (met int) {
	if g.Process != nil && kill(*g.Process, nil) {
		met++
	}
	if g.Cgroup == "" {
		return met
	}
	dir, err := w.cgroup(g.Cgroup)
	if err != nil {
		w.cfg.Log.Error("end guest", "instance", g.ID, "error", err)
		return met
	}
	for range 5 { // what is killed may have begun another meanwhile
		pids := members(dir)
		if len(pids) == 0 {
			return met
		}
		met += len(pids)
		if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
			return met
		}
		for _, pid := range pids {
			p, err := processOf(pid)
			if err != nil {
				continue // it has ended
			}
			kill(p, func() bool { return inCgroup(pid, g.Cgroup) })
		}
	}
	return met
}

// cgroup refuses what can't be a guest's.
func (w *watch) cgroup(path string) (string, error) {
	if filepath.Clean(path) != path || !strings.HasPrefix(path, "/tenon-") || strings.Count(path, "/") < 2 {
		return "", fmt.Errorf("%q is no guest's control group", path)
	}
	var st unix.Statfs_t
	if unix.Statfs(w.cfg.CgroupRoot, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return filepath.Join(w.cfg.CgroupRoot, path), nil
	}
	return filepath.Join(w.cfg.CgroupRoot, "pids", path), nil
}
