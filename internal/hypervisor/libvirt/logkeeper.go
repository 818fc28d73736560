package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// virtlogd keeps what machines write, through a pipe to each. When it is killed,
// libvirt gives a machine that runs no other: from then on until the machine ends
// the driver keeps its log, from the serial port itself.

const (
	keeperLook  = time.Second      // how soon a virtlogd that ended is noticed
	keeperSweep = 10 * time.Second // how often every machine is looked at all the same
	pipeKnown   = 100 * time.Millisecond
)

// keepLogs joins the serial ports of machines whose log nobody keeps.
func (d *Driver) keepLogs(ctx context.Context) {
	tick := time.NewTicker(keeperLook)
	defer tick.Stop()
	before, swept := -1, time.Time{}
	for {
		if d.hasMachines() {
			if now := d.logKeeper(); now != before || time.Since(swept) > keeperSweep {
				before, swept = now, time.Now()
				d.keepOrphanedLogs(ctx, now)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// hasMachines reports that there is a machine whose log could be kept: each has a
// record from before it is started.
func (d *Driver) hasMachines() bool {
	records, err := os.ReadDir(recordsDir(d.cfg))
	return err != nil || len(records) > 0
}

func (d *Driver) keepOrphanedLogs(ctx context.Context, keeper int) {
	for id, pid := range Processes(d.cfg.CloudID) {
		if logKept(keeper, pid) || d.keeps(id) {
			continue
		}
		c, err := d.joinConsole(ctx, id)
		if err != nil {
			d.log.Warn("keep serial log", "instance", id, "error", err)
			continue
		}
		if c.isEnded() {
			d.leaveConsole(id, c)
			continue
		}
		d.log.Info("the keeper of its serial log was killed; the agent keeps it from here on", "instance", id)
		d.consoles.mu.Lock()
		d.consoles.kept[id] = c
		d.consoles.mu.Unlock()
	}
}

// keeps reports whether the driver is joined to a machine's port for its log. One
// that ended is left.
func (d *Driver) keeps(id string) bool {
	d.consoles.mu.Lock()
	c := d.consoles.kept[id]
	ended := c != nil && c.isEnded()
	if ended {
		delete(d.consoles.kept, id)
	}
	d.consoles.mu.Unlock()
	if ended {
		d.leaveConsole(id, c)
	}
	return c != nil && !ended
}

// logKeeper is the process of virtlogd; 0: it does not run.
func (d *Driver) logKeeper() int {
	argv, err := DaemonArgv(d.cfg, "virtlogd")
	if err != nil {
		return 0
	}
	raw, err := os.ReadFile(argv[len(argv)-1])
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(cmdline), "\x00"+argv[len(argv)-1]+"\x00") {
		return 0
	}
	return pid
}

// logKept reports whether virtlogd has the other end of a pipe of QEMU's: all of
// them end with it.
func logKept(keeper, qemu int) bool {
	if keeper == 0 {
		return false
	}
	its, err := pipes(keeper)
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	theirs, err := pipes(qemu)
	if err != nil {
		return true // it has ended
	}
	for pipe := range theirs {
		if its[pipe] {
			return true
		}
	}
	return false
}

func pipes(pid int) (map[string]bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list open files: %w", err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "pipe:") {
			found[to] = true
		}
	}
	return found, nil
}

// spareLog appends to a machine's serial log while virtlogd does not, and turns it
// over as that would.
type spareLog struct {
	path   string
	kept   func() bool // by virtlogd
	asked  time.Time
	answer bool
}

// write takes what came out of the port; it is called by one goroutine alone.
func (l *spareLog) write(p []byte) error {
	if now := time.Now(); now.Sub(l.asked) > pipeKnown {
		l.answer, l.asked = l.kept(), now
	}
	if l.answer || len(p) == 0 {
		return nil
	}
	if info, err := os.Stat(l.path); err == nil && info.Size()+int64(len(p)) > serialLogBytes {
		if err := os.Rename(l.path, l.path+".0"); err != nil {
			return fmt.Errorf("turn serial log over: %w", err)
		}
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open serial log: %w", err)
	}
	_, err = f.Write(p)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write serial log: %w", err)
	}
	return nil
}
