package watchdog

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ProcessOf is the process that has a number now.
func ProcessOf(pid int) (Process, error) { return processOf(pid) }

func processOf(pid int) (Process, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return Process{}, err
	}
	// The name, in brackets, may hold anything; the start is the 20th field after it.
	end := bytes.LastIndexByte(raw, ')')
	fields := strings.Fields(string(raw[end+1:]))
	if end < 0 || len(fields) < 20 {
		return Process{}, fmt.Errorf("read start of process %d: unknown form", pid)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("read start of process %d: %w", pid, err)
	}
	return Process{PID: pid, Start: start}, nil
}

func alive(p Process) bool {
	now, err := processOf(p.PID)
	return err == nil && now == p
}

// kill ends a process if it is the one that is meant and check, if there is one,
// agrees. The descriptor stands for it, so that its number can't be taken anew
// in between.
func kill(p Process, check func() bool) bool {
	if p.PID <= 1 || p.Start == 0 {
		return false
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	if !alive(p) || check != nil && !check() {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// members lists the processes in a control group and below it.
func members(root string) (pids []int) {
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

func inCgroup(pid int, path string) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (parts[2] == path || strings.HasPrefix(parts[2], path+"/")) {
			return true
		}
	}
	return false
}
