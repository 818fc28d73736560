// Package numa reads the host's NUMA nodes, so that what a guest computes with can
// follow the GPUs that it is given. A node of -1 is unknown, which is not node 0:
// nothing follows it.
//
// Standard library only.
package numa

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Node is what a guest may have of a node.
type Node struct {
	CPUs    string // as the kernel lists them: 0-15,32-47
	FreeMiB int64
}

const folder = "devices/system/node"

// Read reads a node; sys is the host's /sys.
func Read(sys string, n int) (Node, error) {
	dir := filepath.Join(sys, folder, "node"+strconv.Itoa(n))
	cpus, err := os.ReadFile(filepath.Join(dir, "cpulist"))
	if err != nil {
		return Node{}, fmt.Errorf("read NUMA node %d: %w", n, err)
	}
	info, err := os.ReadFile(filepath.Join(dir, "meminfo"))
	if err != nil {
		return Node{}, fmt.Errorf("read NUMA node %d: %w", n, err)
	}
	out := Node{CPUs: strings.TrimSpace(string(cpus))}
	for line := range strings.SplitSeq(string(info), "\n") {
		if f := strings.Fields(line); len(f) >= 4 && f[2] == "MemFree:" {
			kib, _ := strconv.ParseInt(f[3], 10, 64) // the kernel's own number
			out.FreeMiB = kib >> 10
		}
	}
	if out.CPUs == "" {
		return out, fmt.Errorf("read NUMA node %d: it has no CPUs", n)
	}
	return out, nil
}

// Several reports whether the host has more than one node. On the others there is
// nothing to follow.
func Several(sys string) bool {
	list, err := filepath.Glob(filepath.Join(sys, folder, "node[0-9]*"))
	return err == nil && len(list) > 1
}

// Count is how many CPUs a list such as 0-15,32-47 has.
func Count(cpus string) int {
	n := 0
	for part := range strings.SplitSeq(cpus, ",") {
		first, last, many := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b := a
		if many {
			if b, err = strconv.Atoi(last); err != nil || b < a {
				continue
			}
		}
		n += b - a + 1
	}
	return n
}
