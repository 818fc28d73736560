package main

import (
	"context"
	"path/filepath"

	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
)

// watchdogDir is where agent and watchdog meet; it does not survive a reboot.
func watchdogDir(c config) string { return filepath.Join(c.runDir, "watchdog") }

// watch ends guests that may not run without contact when the agent can't. It
// needs neither door nor identity.
func watch(ctx context.Context, c config) error {
	log, err := c.logger()
	if err != nil {
		return err
	}
	boot, err := agent.BootID()
	if err != nil {
		return err
	}
	log.Info("watchdog starts", "version", version, "folder", watchdogDir(c))
	return watchdog.Run(ctx, watchdog.Config{Dir: watchdogDir(c), BootID: boot, Log: log})
}
