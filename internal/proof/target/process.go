package target

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, which Linux fixes for every program.
const ticksPerSecond = 100

// stat is the fields of /proc/PID/stat after the name.
func stat(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.Fields(rest)
}

// CPU is what a process has taken so far; with its own are those of children that
// have ended, if it waited for them.
func CPU(pid int) (own, ended time.Duration) {
	s := stat(pid)
	if len(s) < 15 {
		return 0, 0
	}
	sum := func(fields []string) (d time.Duration) {
		for _, field := range fields {
			n, _ := strconv.ParseInt(field, 10, 64)
			d += time.Duration(n) * time.Second / ticksPerSecond
		}
		return d
	}
	return sum(s[11:13]), sum(s[13:15])
}

// Children are the processes that one has started.
func Children(pid int) []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			if s := stat(n); len(s) > 1 && s[1] == strconv.Itoa(pid) {
				out = append(out, n)
			}
		}
	}
	return out
}

// Memory is what of a process is in memory, in bytes.
type Memory struct {
	Resident     int64
	Proportional int64 // what it shares divided among those who share it
	Anonymous    int64 // without what is mapped from files: the program and its libraries
	Peak         int64 // the most that was ever resident
}

// MemoryOf reads a process's memory.
func MemoryOf(pid int) (m Memory) {
	read := func(file string, into map[string]*int64) {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		for line := range strings.Lines(string(raw)) {
			name, rest, _ := strings.Cut(line, ":")
			if p := into[name]; p != nil {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				*p = kib << 10
			}
		}
	}
	read("smaps_rollup", map[string]*int64{"Rss": &m.Resident, "Pss": &m.Proportional, "Anonymous": &m.Anonymous})
	read("status", map[string]*int64{"VmHWM": &m.Peak})
	return m
}

// Switches counts how often the threads of a process began to wait: its wake-ups.
func Switches(pid int) (n int64) {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range threads {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, t.Name()))
		for line := range strings.Lines(string(raw)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				v, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
				n += v
			}
		}
	}
	return n
}
