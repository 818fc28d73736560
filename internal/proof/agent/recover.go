package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// apart is how long after one kill the next comes: the supervisor waits longer each
// time with a child that has not lived for half a minute.
const apart = 31 * time.Second

// recover kills the agent, and then containerd, again and again, and times how
// soon all instances are known to run. The supervisor starts what was killed again
// a fifth of a second later; that is in the figures.
func (w *world) recover(ctx context.Context, rounds int) error {
	var lists []time.Duration
	for range rounds {
		d, n, err := w.listByHand(ctx)
		if err != nil {
			return err
		}
		if n < w.have {
			return fmt.Errorf("containerd runs %d containers, want %d", n, w.have)
		}
		lists = append(lists, d)
	}
	base := middle(lists)
	fmt.Printf("baseline: `ctr task list` of these %d takes %s (median of %d)\n", w.have, ms(base), rounds)
	for _, child := range []string{"agent", "containerd"} {
		var reported, settled []time.Duration
		for range rounds {
			if err := wait(ctx, apart); err != nil {
				return err
			}
			r, s, err := w.kill(ctx, child)
			if err != nil {
				return fmt.Errorf("kill %s: %w", child, err)
			}
			reported, settled = append(reported, r), append(settled, s)
		}
		fmt.Printf("kill -9 of %s, %d times: all %d reported running again after %s (longest %s), assignment settled and node ready after %s (longest %s); %.1f times the baseline\n",
			child, rounds, w.have, ms(middle(reported)), ms(slices.Max(reported)), ms(middle(settled)), ms(slices.Max(settled)), float64(middle(settled))/float64(base))
	}
	return w.unharmed(ctx)
}

// listByHand is how an engineer would see what runs.
func (w *world) listByHand(ctx context.Context) (time.Duration, int, error) {
	began := time.Now()
	out, err := w.cloud.Ctr(ctx, "task", "list")
	return time.Since(began), strings.Count(string(out), "RUNNING"), err
}

// kill ends a child without warning. What the database then holds of each instance
// must be newer than the kill: it is made to take the next report whole.
func (w *world) kill(ctx context.Context, child string) (reported, settled time.Duration, err error) {
	pid, err := w.cloud.PID(child)
	if err != nil {
		return 0, 0, err
	}
	runs, err := w.runs(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, 0, err
	}
	at, err := w.cloud.SQL(ctx, "UPDATE node SET report_digest = NULL WHERE name = '"+node+"' RETURNING clock_timestamp()")
	if err != nil {
		return 0, 0, err
	}
	back := 0
	if child == "containerd" { // a report from before it answers again is no recovery
		if back, at, err = w.answers(ctx, pid, began); err != nil {
			return 0, 0, err
		}
	}
	known := fmt.Sprintf(`SELECT count(*) FROM observation o JOIN instance i ON i.id = o.instance_id WHERE i.name LIKE '%s-%%'
		AND i.state = 'running' AND o.state = 'running' AND o.epoch = i.epoch AND o.message = '' AND o.received_at > '%s'`, w.tag, at[0])
	if err := w.until(ctx, "all instances are reported", func() (bool, error) {
		n, err := w.cloud.Number(ctx, known)
		return n >= w.have, err
	}); err != nil {
		return 0, 0, err
	}
	reported = time.Since(began)
	quiet := fmt.Sprintf(`SELECT count(*) FROM node n JOIN node_connection c ON c.node_id = n.id WHERE n.name = '%s' AND n.state = 'ready'
		AND n.ack_generation = n.generation AND n.drivers->>'containerd' NOT LIKE 'unusable%%' AND 'container' = ANY (n.kinds)
		AND (c.since > '%s' OR %t)
		AND NOT EXISTS (SELECT FROM observation o WHERE o.node_id = n.id AND o.seq > o.handled_seq)`, node, at[0], back > 0)
	if err := w.until(ctx, "the assignment is settled", func() (bool, error) {
		n, err := w.cloud.Number(ctx, quiet)
		return n > 0, err
	}); err != nil {
		return 0, 0, err
	}
	settled = time.Since(began)
	after, err := w.runs(ctx)
	if err == nil && !slices.Equal(runs, after) {
		err = errors.New("an instance was started again or ended")
	}
	return reported, settled, err
}

// answers waits until a killed containerd lists its tasks again.
func (w *world) answers(ctx context.Context, pid int, began time.Time) (back int, at []string, err error) {
	err = w.until(ctx, "containerd answers", func() (bool, error) {
		now, err := w.cloud.PID("containerd")
		if err != nil || now == pid {
			return false, nil //nolint:nilerr // it is not there yet
		}
		_, n, err := w.listByHand(ctx)
		back = n
		return err == nil && n >= w.have, nil
	})
	if err != nil {
		return 0, nil, err
	}
	fmt.Printf("  containerd lists all %d again after %s\n", back, ms(time.Since(began)))
	at, err = w.cloud.SQL(ctx, "UPDATE node SET report_digest = NULL WHERE name = '"+node+"' RETURNING clock_timestamp()")
	return back, at, err
}

// runs tells each run from another: an instance that was started again has
// another epoch or another process.
func (w *world) runs(ctx context.Context) ([]string, error) {
	epochs, err := w.cloud.SQL(ctx, "SELECT id, epoch, state FROM instance WHERE name LIKE '"+w.tag+"-%' ORDER BY id")
	if err != nil {
		return nil, err
	}
	out, err := w.cloud.Ctr(ctx, "task", "list")
	if err != nil {
		return nil, err
	}
	tasks := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(tasks)
	return append(epochs, tasks...), nil
}

// unharmed asks the API, as a tenant would.
func (w *world) unharmed(ctx context.Context) error {
	list, err := w.cloud.Client.InstanceListAll(ctx, target.Project, api.InstanceListOptions{State: "running"})
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	running := 0
	for _, i := range list {
		if slices.Contains(w.made, i.ID) {
			running++
		}
	}
	if running != w.have {
		return fmt.Errorf("%d of %d instances run after all that", running, w.have)
	}
	fmt.Printf("all %d run after all that, each in the process that it began with\n", running)
	return nil
}

func middle(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func ms(d time.Duration) string { return d.Round(time.Millisecond).String() }
