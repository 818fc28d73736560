package devcloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// process is a child, ours or one that outlived an earlier supervisor. The
// start time tells it from a stranger that was given the same number.
type process struct {
	PID       int    `json:"pid"`
	StartedAt uint64 `json:"started_at"` // in clock ticks since boot
	Key       string `json:"key"`        // of program and settings: another key means it must be restarted
}

// startTicks reads when a process started; an error means that it is gone.
func startTicks(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name may hold spaces and brackets: fields count from the last bracket.
	_, rest, ok := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("read /proc/%d/stat: unexpected form", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func commandLine(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// alive reports whether the very process still runs.
func (p process) alive() bool {
	ticks, err := startTicks(p.PID)
	return err == nil && ticks == p.StartedAt
}

// signal reaches the process itself, through a descriptor so that a number
// given to somebody else in between is never hit.
func (p process) signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return os.ErrProcessDone
	}
	defer func() { _ = unix.Close(fd) }()
	if !p.alive() {
		return os.ErrProcessDone
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// ended is closed when the process is gone.
func (p process) ended() <-chan struct{} {
	done := make(chan struct{})
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil || !p.alive() {
		if err == nil {
			_ = unix.Close(fd)
		}
		close(done)
		return done
	}
	go func() {
		defer close(done)
		defer func() { _ = unix.Close(fd) }()
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err == nil || !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return done
}

// stop asks, waits for the grace, then kills the whole session's group.
func (p process) stop(sig syscall.Signal, grace time.Duration, hurry <-chan struct{}) {
	ended := p.ended()
	if err := p.signal(sig); err != nil {
		return
	}
	select {
	case <-ended:
		return
	case <-time.After(grace):
	case <-hurry:
	}
	if p.alive() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL)
		_ = p.signal(syscall.SIGKILL)
	}
	<-ended
}

func pidFile(run, name string) string { return filepath.Join(run, name+".pid") }

func (p process) save(run, name string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode pid file: %w", err)
	}
	return durable.WriteFile(pidFile(run, name), append(text, '\n'), 0o600)
}

func readPid(run, name string) (process, bool) {
	var p process
	text, err := os.ReadFile(pidFile(run, name))
	return p, err == nil && json.Unmarshal(text, &p) == nil
}

// survivor finds a child of an earlier supervisor: by its pid file, or, when
// that one died before it could write it, by its exact command line, which
// holds this cloud's paths and so is nobody else's.
func survivor(run, name string, argv []string) (process, bool) {
	if p, ok := readPid(run, name); ok && p.alive() && slices.Equal(commandLine(p.PID), argv) {
		return p, true
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return process{}, false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !slices.Equal(commandLine(pid), argv) {
			continue
		}
		if ticks, err := startTicks(pid); err == nil {
			return process{PID: pid, StartedAt: ticks}, true
		}
	}
	return process{}, false
}
