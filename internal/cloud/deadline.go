package cloud

import "time"

// How long an instance may be in a state on the way to another. What is queued
// waits without end; nothing is freed by a deadline, only by the node's word.
const (
	StartWithin  = 10 * time.Minute // moved on while the start makes progress
	StopWithin   = 4 * time.Minute  // longer than what a VM is given to shut down
	DeleteWithin = 5 * time.Minute
)

// Fencing (decision 8): a node that has had no contact for FenceAfter ends the
// guests that may restart elsewhere; the control plane waits FenceMargin more,
// for clocks that drift and a watchdog that is slow.
const (
	FenceAfter  = 90 * time.Second
	FenceMargin = 45 * time.Second
)
