package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

// compare holds Postgres against the engines and each against itself. What is
// just about to change is given a few seconds to be so.
func (t checked) compare(ctx context.Context, rest []api.Instance, out *tally) error {
	var findings tally
	for range 20 {
		findings = tally{}
		err := t.compareOnce(ctx, rest, &findings)
		if err != nil {
			findings.find(&findings.lost, "the engines or the books can't be read: %v", err)
		}
		if !findings.bad() {
			break
		}
		if !wait(ctx, time.Second) {
			return ctx.Err()
		}
	}
	out.addWrong(findings)
	return nil
}

func (t checked) compareOnce(ctx context.Context, rest []api.Instance, out *tally) error {
	guests, err := t.guests(ctx)
	if err != nil {
		return err
	}
	states := map[string]string{}
	for _, i := range rest {
		states[i.ID] = i.State
	}
	seen := map[string]bool{}
	for _, g := range guests {
		if !g.running {
			continue
		}
		if states[g.instance] != api.StateRunning {
			out.find(&out.orphans, "guest %s runs and its instance is %q", g, states[g.instance])
		}
		seen[g.instance] = true
	}
	for _, pair := range copies(guests) {
		out.find(&out.doubled, "two guests: %s", pair)
	}
	for _, pair := range shared(guests) {
		out.find(&out.doubled, "device %s", pair)
	}
	for _, h := range t.unclaimed(ctx, guests) {
		out.find(&out.free, "offered while held: %s", h)
	}
	for _, i := range rest {
		if i.State == api.StateRunning && !seen[i.ID] {
			out.find(&out.lost, "instance %s says running and no guest runs", i.Name)
		}
	}
	return t.books(ctx, out)
}

// books asks the database about itself.
func (t checked) books(ctx context.Context, out *tally) error {
	const settled = ` AND i.metered_seq = i.event_seq`
	for _, q := range []struct {
		counter *int
		what    string
		query   string
	}{
		{&out.doubled, "claims that overlap", `SELECT count(*) FROM gpu_claim a JOIN gpu_claim b ON a.gpu_id = b.gpu_id AND a.id < b.id AND a.slots && b.slots`},
		{&out.doubled, "claims of instances that are on no node", `SELECT count(*) FROM gpu_claim c JOIN instance i ON i.id = c.instance_id WHERE i.node_id IS NULL AND NOT c.fenced`},
		{&out.doubled, "claims on another node than their instance's", `SELECT count(*) FROM gpu_claim c JOIN gpu g ON g.id = c.gpu_id JOIN instance i ON i.id = c.instance_id WHERE NOT c.fenced AND i.node_id <> g.node_id`},
		{&out.lost, "placed instances without their claims", `SELECT count(*) FROM instance i WHERE (i.state IN ('starting', 'running') OR i.held) AND i.gpu_count <> (SELECT count(*) FROM gpu_claim c WHERE c.instance_id = i.id AND c.epoch = i.epoch AND NOT c.fenced)`},
		{&out.segments, "segments that overlap", `SELECT count(*) FROM segment a JOIN segment b ON a.instance_id = b.instance_id AND a.id < b.id AND tstzrange(a.started_at, a.ended_at) && tstzrange(b.started_at, b.ended_at)`},
		{&out.segments, "open segments of instances that are not charged", `SELECT count(*) FROM segment s JOIN instance i ON i.id = s.instance_id WHERE s.ended_at IS NULL AND NOT (i.state IN ('running', 'stopping', 'deleting') OR i.held)` + settled},
		{&out.segments, "running or held instances without an open segment", `SELECT count(*) FROM instance i WHERE (i.state = 'running' OR i.held) AND i.reason <> 'node_lost' AND NOT EXISTS (SELECT FROM segment s WHERE s.instance_id = i.id AND s.ended_at IS NULL)` + settled},
		{&out.segments, "runs without a segment", `SELECT count(*) FROM event e JOIN instance i ON i.id = e.resource_id WHERE e.resource = 'instance' AND e.verb = 'running' AND e.data->>'state' = 'running'
			AND NOT EXISTS (SELECT FROM segment s WHERE s.instance_id = i.id AND s.started_at <= e.at AND (s.ended_at IS NULL OR s.ended_at >= e.at))` + settled},
		{&out.segments, "instances that were never metered", `SELECT count(*) FROM instance i WHERE i.metered_seq < i.event_seq`},
		{&out.doubled, "quota rows that differ from what is held", `SELECT count(*) FROM project_quota q WHERE q.resource = 'vcpu' AND q.used <> (SELECT COALESCE(sum(vcpu), 0) FROM instance i WHERE i.project_id = q.project_id AND i.holds_quota)`},
		{&out.lost, "volumes whose node has not said that they are there", `SELECT count(*) FROM volume v JOIN instance i ON i.id = v.instance_id WHERE i.state = 'running' AND v.state <> 'present'`},
	} {
		n, err := t.Number(ctx, q.query)
		if err != nil {
			return err
		}
		if n > 0 {
			*q.counter += n
			out.findings = append(out.findings, fmt.Sprintf("%d %s", n, q.what))
		}
	}
	return nil
}

// busy says what the nodes still owe: a fenced claim, a node that has not come
// back.
func (t checked) busy(ctx context.Context) ([]string, error) {
	var out []string
	for what, query := range map[string]string{
		"fenced claims":           `SELECT count(*) FROM gpu_claim WHERE fenced`,
		"nodes that are not back": `SELECT count(*) FROM node WHERE forgotten_at IS NULL AND (state <> 'ready' OR fenced_at IS NOT NULL)`,
		"volumes to remove":       `SELECT count(*) FROM volume WHERE state = 'deleting'`,
	} {
		n, err := t.Number(ctx, query)
		if err != nil {
			return []string{"Postgres is not back"}, nil //nolint:nilerr // it will be, or the round says so
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	return out, nil
}

// empty checks that nothing is left of a round: no guest, claim, volume, address
// or interface, and no quota in use.
func (t checked) empty(ctx context.Context, out *tally) error {
	var left []string
	for range 30 {
		left = nil
		guests, err := t.guests(ctx)
		if err != nil {
			left = append(left, err.Error())
		}
		for _, g := range guests {
			left = append(left, "guest "+g.String())
		}
		for what, query := range map[string]string{
			"claims":                   `SELECT count(*) FROM gpu_claim`,
			"quota in use":             `SELECT count(*) FROM project_quota WHERE used <> 0`,
			"open segments":            `SELECT count(*) FROM segment WHERE ended_at IS NULL`,
			"volumes":                  `SELECT count(*) FROM volume WHERE state <> 'deleted'`,
			"open segments of volumes": `SELECT count(*) FROM volume_segment WHERE ended_at IS NULL`,
			"orphans":                  `SELECT count(*) FROM node WHERE forgotten_at IS NULL AND orphans <> '[]'`,
		} {
			n, err := t.Number(ctx, query)
			if err != nil {
				left = append(left, err.Error())
			}
			if n > 0 {
				left = append(left, fmt.Sprintf("%d %s", n, what))
			}
		}
		if n := len(ports(t.ID)); n > 0 {
			left = append(left, fmt.Sprintf("%d network interfaces", n))
		}
		if len(left) == 0 {
			return nil
		}
		if !wait(ctx, time.Second) {
			return ctx.Err()
		}
	}
	for _, l := range left {
		out.find(&out.leftovers, "left behind: %s", l)
	}
	return nil
}

// ports are the interfaces on this cloud's bridge.
func ports(id string) []string {
	found, _ := filepath.Glob("/sys/class/net/tn" + id + "*/brif/*")
	var there []string
	for _, p := range found {
		if _, err := os.Stat(p); err == nil {
			there = append(there, p)
		}
	}
	return there
}
