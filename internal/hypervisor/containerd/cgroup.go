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

// Stats implements hypervisor.Driver. It reads the kernel's own counters, so it
// works while containerd restarts.
func (d *Driver) Stats(ctx context.Context, id string) (hypervisor.Stats, error) {
	s, err := readCgroup(cgroupRoot, d.cgroupPath(id), hostUnified())
	if err != nil {
		return s, err
	}
	if s.NetRxBytes, s.NetTxBytes, err = d.net.Counters(id); err != nil {
		return s, err
	}
	s.DiskBytes, err = d.disks.usedBytes(ctx, id)
	return s, err
}

func readCgroup(root, path string, v2 bool) (hypervisor.Stats, error) {
	var s hypervisor.Stats
	dir := func(controller string) string {
		if v2 {
			return filepath.Join(root, path)
		}
		return filepath.Join(root, controller, path)
	}
	// The first file tells whether there is a guest; what else can't be read counts
	// as nothing, since it may be ending.
	key, usage := "total_inactive_file", "memory.usage_in_bytes"
	if v2 {
		key, usage = "inactive_file", "memory.current"
	}
	idle, err := kernelfile.Key(filepath.Join(dir("memory"), "memory.stat"), key)
	if err != nil {
		return s, fmt.Errorf("%w: it has no cgroup", hypervisor.ErrNoGuest)
	}
	s.MemoryBytes, _ = kernelfile.Int(filepath.Join(dir("memory"), usage))
	s.MemoryBytes = max(0, s.MemoryBytes-idle)
	if v2 {
		micros, _ := kernelfile.Key(filepath.Join(dir("cpu"), "cpu.stat"), "usage_usec")
		s.CPUNanoseconds = micros * 1000
	} else {
		s.CPUNanoseconds, _ = kernelfile.Int(filepath.Join(dir("cpuacct"), "cpuacct.usage"))
	}
	s.Pids, _ = kernelfile.Int(filepath.Join(dir("pids"), "pids.current"))
	return s, nil
}
