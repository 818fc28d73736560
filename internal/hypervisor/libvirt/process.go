package libvirt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/kernelfile"
)

// DomainName is a machine's name in libvirt and on QEMU's command line.
func DomainName(cloudID, id string) string { return domainPrefix(cloudID) + id }

func domainPrefix(cloudID string) string { return "tenon-" + cloudID + "-" }

// Processes finds the QEMU processes of a cloud by instance id, from the kernel
// alone: it works while libvirtd is away.
func Processes(cloudID string) map[string]int {
	found := map[string]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return found
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if id := machineOf(cloudID, pid); id != "" {
			found[id] = pid
		}
	}
	return found
}

// machineOf is the instance that a process runs, or nothing.
func machineOf(cloudID string, pid int) string {
	path, qemu := filepath.Join("/proc", strconv.Itoa(pid), "cmdline"), false
	err := kernelfile.With(path, func(text []byte) { qemu = bytes.HasPrefix(text, []byte("/usr/bin/qemu-system-")) })
	if err != nil || !qemu {
		return "" // as nearly every process is
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for _, arg := range strings.Split(string(raw), "\x00") {
		if name, ok := strings.CutPrefix(arg, "guest="+domainPrefix(cloudID)); ok {
			id, _, _ := strings.Cut(name, ",")
			return id
		}
	}
	return ""
}

// pid is a machine's QEMU process, or 0.
func (d *Driver) pid(id string) int { return Processes(d.cfg.CloudID)[id] }

// Kill ends a machine's process at once, whoever keeps it: for when libvirtd
// can't be asked. It returns when the process is gone.
func Kill(cloudID, id string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		pid := Processes(cloudID)[id]
		if pid == 0 {
			return nil
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			if machineOf(cloudID, pid) == id { // the number was not given to another meanwhile
				err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			_ = unix.Close(fd)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill machine: %w", err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill machine: process %d is still there after %s", pid, limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
