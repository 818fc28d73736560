package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// checked is a cloud whose books are compared.
type checked struct{ *target.Target }

// guest is a container as containerd tells of it.
type guest struct {
	ID     string
	Labels map[string]string
	Spec   struct {
		Linux struct {
			Devices []struct {
				Path         string
				Major, Minor int64
			}
		}
	}
	running bool
}

func (t checked) guests(ctx context.Context) (map[string]*guest, error) {
	list, err := t.Ctr(ctx, "containers", "list", "-q")
	if err != nil {
		return nil, err
	}
	all := map[string]*guest{}
	for _, id := range strings.Fields(string(list)) {
		text, err := t.Ctr(ctx, "containers", "info", id)
		if err != nil {
			return nil, err
		}
		g := &guest{}
		if err := json.Unmarshal(text, g); err != nil {
			return nil, fmt.Errorf("read container %s: %w", id, err)
		}
		all[id] = g
	}
	tasks, err := t.Ctr(ctx, "tasks", "list")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(tasks)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "RUNNING" {
			if g, ok := all[f[0]]; ok {
				g.running = true
			}
		}
	}
	return all, nil
}

// compare holds Postgres against containerd and each against itself. What is
// just about to change is given a few seconds to be so.
func (t checked) compare(ctx context.Context, rest []api.Instance, out *tally) error {
	var findings tally
	for range 10 {
		findings = tally{}
		if err := t.compareOnce(ctx, rest, &findings); err != nil {
			return err
		}
		if !findings.bad() {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	out.add(findings)
	return nil
}

func (t checked) compareOnce(ctx context.Context, rest []api.Instance, out *tally) error {
	guests, err := t.guests(ctx)
	if err != nil {
		return err
	}
	running, err := t.SQL(ctx, "SELECT id FROM instance WHERE state = 'running'")
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, id := range running {
		ids[id] = true
	}
	names := map[string]string{} // printed id → bare one, through the database's own rows
	rows, err := t.SQL(ctx, "SELECT id || '=' || name FROM instance WHERE state <> 'deleted'")
	if err != nil {
		return err
	}
	for _, row := range rows {
		id, name, _ := strings.Cut(row, "=")
		names[name] = id
	}
	printed := map[string]string{}
	for _, i := range rest {
		printed[i.ID] = names[i.Name]
	}
	devices := map[string]string{}
	seen := map[string]bool{}
	for id, g := range guests {
		bare := printed[instanceOf(id, g)]
		if !g.running {
			continue
		}
		if !ids[bare] {
			out.orphans++
			out.findings = append(out.findings, "guest "+id+" runs and no instance says so")
			continue
		}
		if seen[bare] {
			out.doubled++
			out.findings = append(out.findings, "two guests of "+id)
		}
		seen[bare] = true
		for _, d := range g.Spec.Linux.Devices {
			key := fmt.Sprintf("%d:%d", d.Major, d.Minor)
			if d.Major != 4 { // simulated GPUs are tty minors; the rest is everyone's
				continue
			}
			if other, ok := devices[key]; ok {
				out.doubled++
				out.findings = append(out.findings, fmt.Sprintf("device %s is held by %s and %s", key, other, id))
			}
			devices[key] = id
		}
	}
	for id := range ids {
		if !seen[id] {
			out.lost++
			out.findings = append(out.findings, "instance "+id+" says running and no guest runs")
		}
	}
	return t.books(ctx, out)
}

// instanceOf finds which instance a container is of.
func instanceOf(id string, g *guest) string {
	for _, v := range g.Labels {
		if strings.HasPrefix(v, "inst_") {
			return v
		}
	}
	return id
}

// books asks the database about itself.
func (t checked) books(ctx context.Context, out *tally) error {
	questions := []struct {
		counter *int
		what    string
		query   string
	}{
		{&out.doubled, "claims that overlap", `SELECT count(*) FROM gpu_claim a JOIN gpu_claim b ON a.gpu_id = b.gpu_id AND a.id < b.id AND a.slots && b.slots`},
		{&out.doubled, "claims of instances that are on no node", `SELECT count(*) FROM gpu_claim c JOIN instance i ON i.id = c.instance_id WHERE i.node_id IS NULL`},
		{&out.lost, "placed instances without their claims", `SELECT count(*) FROM instance i WHERE i.state IN ('starting', 'running') AND i.gpu_count <> (SELECT count(*) FROM gpu_claim c WHERE c.instance_id = i.id AND c.epoch = i.epoch)`},
		{&out.overlaps, "segments that overlap", `SELECT count(*) FROM segment a JOIN segment b ON a.instance_id = b.instance_id AND a.id < b.id AND tstzrange(a.started_at, a.ended_at) && tstzrange(b.started_at, b.ended_at)`},
		{&out.overlaps, "open segments of instances that don't run", `SELECT count(*) FROM segment s JOIN instance i ON i.id = s.instance_id WHERE s.ended_at IS NULL AND i.state NOT IN ('running', 'stopping', 'deleting') AND i.metered_seq = i.event_seq`},
		{&out.lost, "running instances without an open segment", `SELECT count(*) FROM instance i WHERE i.state = 'running' AND NOT EXISTS (SELECT FROM segment s WHERE s.instance_id = i.id AND s.ended_at IS NULL)`},
		{&out.doubled, "quota rows that differ from what is held", `SELECT count(*) FROM project_quota q WHERE q.resource = 'vcpu' AND q.used <> (SELECT COALESCE(sum(vcpu), 0) FROM instance i WHERE i.project_id = q.project_id AND i.holds_quota)`},
	}
	for _, q := range questions {
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

// empty checks that nothing is left of a round: no guest, claim, address or
// device, and no quota in use.
func (t checked) empty(ctx context.Context, out *tally) error {
	var left []string
	for range 20 {
		left = nil
		guests, err := t.guests(ctx)
		if err != nil {
			return err
		}
		if len(guests) > 0 {
			left = append(left, fmt.Sprintf("%d containers", len(guests)))
		}
		for what, query := range map[string]string{
			"claims":        `SELECT count(*) FROM gpu_claim`,
			"quota in use":  `SELECT count(*) FROM project_quota WHERE used <> 0`,
			"open segments": `SELECT count(*) FROM segment WHERE ended_at IS NULL`,
		} {
			n, err := t.Number(ctx, query)
			if err != nil {
				return err
			}
			if n > 0 {
				left = append(left, fmt.Sprintf("%d %s", n, what))
			}
		}
		if n := len(veths(t.ID)); n > 0 {
			left = append(left, fmt.Sprintf("%d network interfaces", n))
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	out.leftovers += len(left)
	out.findings = append(out.findings, left...)
	return nil
}

// veths are the interfaces on this cloud's bridge.
func veths(id string) []string {
	ports, _ := filepath.Glob("/sys/class/net/tn" + id + "*/brif/*")
	var there []string
	for _, p := range ports {
		if _, err := os.Stat(p); err == nil {
			there = append(there, p)
		}
	}
	return there
}
