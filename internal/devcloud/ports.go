package devcloud

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const firstPort = 7480

// choosePorts keeps the ports of the last run if they are free, or ours still,
// and else takes the first free pair. Clouds choose one at a time, and each
// respects what the others remember.
func (l *Layout) choosePorts(roots Roots, ours bool) error {
	gate, err := os.OpenFile(filepath.Join(roots.Run, "tenon-ports.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("open port lock: %w", err)
	}
	defer func() { _ = gate.Close() }()
	if err := unix.Flock(int(gate.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock ports: %w", err)
	}
	if l.ConsolePort != 0 && (ours || freePort(l.ConsolePort) && freePort(l.NodePort)) {
		return l.Identity.write(l.Run)
	}
	taken := map[int]bool{}
	others, _ := filepath.Glob(filepath.Join(roots.Run, "tenon-*"))
	for _, folder := range others {
		if id, err := readIdentity(folder); err == nil && id.ID != l.ID {
			taken[id.ConsolePort], taken[id.NodePort] = true, true
		}
	}
	for port := firstPort; port < firstPort+1000; port += 2 {
		if taken[port] || taken[port+1] || !freePort(port) || !freePort(port+1) {
			continue
		}
		l.ConsolePort, l.NodePort = port, port+1
		return errors.Join(l.Identity.write(l.State), l.Identity.write(l.Run))
	}
	return fmt.Errorf("no two free ports between %d and %d", firstPort, firstPort+1000)
}

func freePort(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
