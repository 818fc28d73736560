//go:build unix

package simulate

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of processors, so that a busy machine can
// be told from a slow program.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
