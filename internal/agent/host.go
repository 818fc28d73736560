package agent

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Host is what the node offers: the machine's true size, less what it keeps for
// itself, and which boot this is.
type Host struct {
	VCPU      int
	MemoryMiB int64
	BootID    string
}

// ReserveMemoryMiB is what a node keeps by default for its system, engine and
// agent.
const ReserveMemoryMiB = 1024

// ReadHost measures this machine.
func ReadHost(reserveVCPU int, reserveMemoryMiB int64) (Host, error) {
	total, err := memTotalMiB()
	if err != nil {
		return Host{}, fmt.Errorf("read host: %w", err)
	}
	boot, err := BootID()
	if err != nil {
		return Host{}, err
	}
	h := Host{VCPU: runtime.NumCPU() - reserveVCPU, MemoryMiB: total - reserveMemoryMiB, BootID: boot}
	if h.VCPU < 1 || h.MemoryMiB < 1 {
		return Host{}, fmt.Errorf("read host: a reserve of %d vCPU and %d MiB leaves nothing of %d vCPU and %d MiB", reserveVCPU, reserveMemoryMiB, runtime.NumCPU(), total)
	}
	return h, nil
}

// BootID names this boot of this machine.
func BootID() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read host: %w", err)
	}
	return strings.TrimSpace(string(boot)), nil
}

func memTotalMiB() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); err == nil {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("no MemTotal in /proc/meminfo: %w", lines.Err())
}
