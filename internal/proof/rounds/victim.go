package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func cloudID(state string) (string, error) {
	text, err := os.ReadFile(filepath.Join(state, "cloud.json"))
	if err != nil {
		return "", fmt.Errorf("read the cloud's identity: %w", err)
	}
	var identity struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(text, &identity); err != nil || identity.ID == "" {
		return "", fmt.Errorf("cloud.json has no id: %v", err)
	}
	return identity.ID, nil
}

// pid reads the process of a child from the supervisor's own notes.
func (t *target) pid(child string) (int, error) {
	text, err := os.ReadFile(filepath.Join(t.run, child+".pid"))
	if err != nil {
		return 0, err
	}
	var p struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(text, &p); err != nil || p.PID <= 1 {
		return 0, fmt.Errorf("read %s.pid: no process in it", child)
	}
	return p.PID, nil
}

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
		pid, err := r.cloud.pid(victim)
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
