package main

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// hostLeaves reports that the host is being shut down or booted, as systemd says.
// A restart of the agent alone is not that, and guests go on.
func hostLeaves() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "systemctl", "is-system-running").Output() // its status is not 0 then
	return strings.TrimSpace(string(out)) == "stopping"
}
