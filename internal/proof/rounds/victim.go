package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// killAround kills children at random moments until the load is done, and always
// as often as asked.
func (r *round) killAround(ctx context.Context, loadDone <-chan struct{}) []string {
	var killed []string
	for range r.kills {
		pause := time.Duration(200+r.random.IntN(4000)) * time.Millisecond
		select {
		case <-ctx.Done():
			return killed
		case <-loadDone:
		case <-time.After(pause):
		}
		victim := r.victims[r.random.IntN(len(r.victims))]
		pid, err := r.cloud.PID(victim)
		if err != nil {
			fmt.Fprintf(os.Stderr, "round %d: %s: %v\n", r.number, victim, err)
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed = append(killed, victim)
		}
	}
	return killed
}
