package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/kernelfile"
)

const cgroupRoot = "/sys/fs/cgroup"

// unified says whether the host has cgroup v2 only.
func unified(root string) bool {
	var st unix.Statfs_t
	return unix.Statfs(root, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// hostUnified is of this host, which does not change while it runs.
var hostUnified = sync.OnceValue(func() bool { return unified(cgroupRoot) })

// processes lists what runs in a cgroup and below it, on v1 by the pids
// controller.
func processes(path string) []int {
	root := filepath.Join(cgroupRoot, path)
	if !unified(cgroupRoot) {
		root = filepath.Join(cgroupRoot, "pids", path)
	}
	var pids []int
	_ = filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil
		}
		raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, field := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// How readily the kernel ends a process when memory runs out. A terminal and
// what it starts go before the guest itself, and a guest before what runs it.
const (
	guestOOMScore = 0
	execOOMScore  = 900
)

// killFirst makes a process in a cgroup, and what it will start, the first to go.
// The folder stands for the process, so that a number that was taken anew is not
// mistaken for it.
func killFirst(pid int, cgroup string) error {
	process, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	defer process.Close()
	in, err := process.ReadFile("cgroup")
	if err != nil {
		return fmt.Errorf("find cgroup of process: %w", err)
	}
	if at := ":" + cgroup; !strings.Contains(string(in), at+"\n") && !strings.Contains(string(in), at+"/") {
		return fmt.Errorf("process %d is not in %s", pid, cgroup)
	}
	f, err := process.OpenFile("oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open score: %w", err)
	}
	_, err = f.WriteString(strconv.Itoa(execOOMScore))
	return errors.Join(err, f.Close())
}

// removeCgroup deletes an empty cgroup that a dead shim left, in every hierarchy.
func removeCgroup(path string) {
	roots := []string{cgroupRoot}
	entries, _ := os.ReadDir(cgroupRoot)
	for _, e := range entries {
		if e.IsDir() {
			roots = append(roots, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	for _, root := range roots {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(root, path), func(dir string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, dir)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = os.Remove(dirs[i]) // fails while a process is left, as it should
		}
	}
}

// counters are the files that tell of one guest's control group.
type counters struct {
	v2                     bool
	stat, usage, cpu, pids *kernelfile.File
}

// openCounters opens them; what isn't there but the first counts as nothing.
func openCounters(root, path string, v2 bool) (*counters, error) {
	open := func(controller, one, two string) (*kernelfile.File, error) {
		if v2 {
			return kernelfile.Open(filepath.Join(root, path, two))
		}
		return kernelfile.Open(filepath.Join(root, controller, path, one))
	}
	c := &counters{v2: v2}
	var err error
	if c.stat, err = open("memory", "memory.stat", "memory.stat"); err != nil {
		return nil, fmt.Errorf("%w: it has no cgroup", hypervisor.ErrNoGuest)
	}
	c.usage, _ = open("memory", "memory.usage_in_bytes", "memory.current")
	c.cpu, _ = open("cpuacct", "cpuacct.usage", "cpu.stat")
	c.pids, _ = open("pids", "pids.current", "pids.current")
	return c, nil
}

func (c *counters) close() {
	for _, f := range []*kernelfile.File{c.stat, c.usage, c.cpu, c.pids} {
		f.Close()
	}
}

func (c *counters) read() (s hypervisor.Stats, err error) {
	key := "total_inactive_file"
	if c.v2 {
		key = "inactive_file"
	}
	idle, err := c.stat.Key(key)
	if err != nil {
		return s, fmt.Errorf("%w: its cgroup is gone", hypervisor.ErrNoGuest)
	}
	s.MemoryBytes, _ = c.usage.Int()
	s.MemoryBytes = max(0, s.MemoryBytes-idle)
	if c.v2 {
		micros, _ := c.cpu.Key("usage_usec")
		s.CPUNanoseconds = micros * 1000
	} else {
		s.CPUNanoseconds, _ = c.cpu.Int()
	}
	s.Pids, _ = c.pids.Int()
	return s, nil
}

// Stats implements hypervisor.Driver. It reads the kernel's own counters, so it
// works while containerd restarts.
func (d *Driver) Stats(ctx context.Context, id string) (hypervisor.Stats, error) {
	s, err := d.readCounters(id)
	if err != nil {
		return s, err
	}
	if s.NetRxBytes, s.NetTxBytes, err = d.net.Counters(id); err != nil {
		return s, err
	}
	s.DiskBytes, err = d.disks.usedBytes(ctx, id)
	return s, err
}

// readCounters keeps a guest's files open: they are read every few seconds.
func (d *Driver) readCounters(id string) (hypervisor.Stats, error) {
	if kept, ok := d.counters.Load(id); ok {
		if s, err := kept.(*counters).read(); err == nil {
			return s, nil
		}
		d.dropCounters(id) // of a run that has ended; another may have begun
	}
	c, err := openCounters(cgroupRoot, d.cgroupPath(id), hostUnified())
	if err != nil {
		return hypervisor.Stats{}, err
	}
	if other, loaded := d.counters.LoadOrStore(id, c); loaded {
		c.close()
		c = other.(*counters)
	}
	return c.read()
}

func (d *Driver) dropCounters(id string) {
	if kept, ok := d.counters.LoadAndDelete(id); ok {
		kept.(*counters).close()
	}
}
