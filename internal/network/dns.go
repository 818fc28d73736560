package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func (n *Network) dnsPIDFile() string { return filepath.Join(n.cfg.RunDir, "dnsmasq.pid") }

// dnsEndsIn bounds the wait for a forwarder that was killed.
const dnsEndsIn = 2 * time.Second

// dnsPID is the running forwarder of this cloud, or 0. The command line is
// compared, since a pid file may name a process that took the number later.
func (n *Network) dnsPID() int {
	raw, err := os.ReadFile(n.dnsPIDFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(cmdline, []byte("--pid-file="+n.dnsPIDFile()+"\x00")) {
		return 0
	}
	return pid
}

func (n *Network) ensureDNS(ctx context.Context) error {
	if n.dnsPID() != 0 {
		return nil
	}
	args := []string{
		"--conf-file=/dev/null", "--pid-file=" + n.dnsPIDFile(),
		"--listen-address=" + n.Gateway().String(), "--bind-interfaces", "--except-interface=lo",
		"--no-hosts", "--cache-size=1000", "--user=nobody", "--log-facility=/dev/null",
	}
	if len(n.cfg.Resolvers) == 0 {
		args = append(args, "--resolv-file=/etc/resolv.conf")
	} else {
		args = append(args, "--no-resolv")
		for _, r := range n.cfg.Resolvers {
			args = append(args, "--server="+r)
		}
	}
	// It daemonises itself, so that it outlives the agent and is adopted later.
	if out, err := exec.CommandContext(ctx, "dnsmasq", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("start DNS forwarder: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (n *Network) stopDNS() error {
	pid := n.dnsPID()
	if pid == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return os.Remove(n.dnsPIDFile())
	}
	if err != nil {
		return fmt.Errorf("stop DNS forwarder: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop DNS forwarder: %w", err)
	}
	for { // the next one wants its address
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(dnsEndsIn.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return os.Remove(n.dnsPIDFile())
}
