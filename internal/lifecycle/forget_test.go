package lifecycle_test

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// home gives an instance data on the node where it runs.
func (a *archipelago) home(t *testing.T, id cloud.InstanceID) {
	t.Helper()
	a.Exec(t, `INSERT INTO volume (id, org_id, project_id, instance_id, role, size_mib, node_id, state, said)
		SELECT gen_random_uuid(), org_id, project_id, id, 'home', 64, node_id, 'present', 'present' FROM instance WHERE id = $1`, id)
}

// operator does something as a person.
func (a *archipelago) operator(t *testing.T, f func(tx *postgres.Tx, by cloud.UserID) error) {
	t.Helper()
	by := looptest.One[cloud.UserID](t, a.World, `SELECT id FROM app_user LIMIT 1`)
	if err := a.DB.InAPI(t.Context(), postgres.Scope{Operator: true}, func(tx *postgres.Tx) error { return f(tx, by) }); err != nil {
		t.Fatal(err)
	}
}

// What has its data on a node waits for it, fenced or not; when the node is
// forgotten the data is lost, and its owner and an operator are told.
func TestDataWaitsForItsNodeAndIsLostWithIt(t *testing.T) {
	t.Parallel()
	a := newArchipelago(t, 2, 1)
	id, free := a.restarting(t), a.restarting(t)
	a.until(t, "both run", func() bool {
		return a.State(t, id) == cloud.StateRunning && a.State(t, free) == cloud.StateRunning
	})
	a.home(t, id)
	node := a.of(t, id)
	node.cut = true
	a.pass(t, 10*time.Minute)
	for range 3 {
		a.turn(t)
	}
	if a.State(t, id) != cloud.StateRunning || a.of(t, id) != node {
		t.Fatalf("it is %s elsewhere, without its data", a.State(t, id))
	}
	if got := looptest.One[string](t, a.World, `SELECT message FROM instance WHERE id = $1`, id); got != "its node has not been heard of; its data lies on that node, so it waits for it instead of restarting elsewhere" {
		t.Errorf("it says %q", got)
	}
	node.dead = true
	for gid := range node.guests {
		delete(node.guests, gid)
	}
	a.operator(t, func(tx *postgres.Tx, by cloud.UserID) error { return postgres.NodeForget(t.Context(), tx, node.ID, by) })
	a.until(t, "it has failed", func() bool { return a.State(t, id) == cloud.StateFailed })
	if got := looptest.One[string](t, a.World, `SELECT reason || ' ' || (message LIKE '%data with it') FROM instance WHERE id = $1`, id); got != "node_forgotten true" {
		t.Errorf("it says %s", got)
	}
	if got := looptest.One[string](t, a.World, `SELECT state || ' ' || (ending_at < now() - interval '9 minutes') || ' ' || (charged_mib IS NULL) FROM volume`); got != "lost true true" && got != "lost false true" {
		t.Errorf("its volume is %s", got)
	}
	a.turn(t)
	if got := looptest.One[int](t, a.World, `SELECT count(*) FROM alarm WHERE cleared_at IS NULL AND key LIKE 'volume:%:lost'`); got != 1 {
		t.Errorf("%d alarms for the lost volume", got)
	}
	if got := looptest.One[int](t, a.World, `SELECT count(*) FROM gpu WHERE node_id = $1`, node.ID); got != 0 {
		t.Errorf("%d cards of the forgotten node are left", got)
	}
	if got := looptest.One[int](t, a.World, `SELECT count(*) FROM alarm WHERE cleared_at IS NULL AND key LIKE 'node:%'`); got != 0 {
		t.Errorf("%d alarms about a node that nobody sees", got)
	}
	if a.State(t, free) != cloud.StateRunning {
		t.Errorf("the other is %s", a.State(t, free))
	}
}

// A changed on_node_loss means nothing until the node has an assignment that
// tells of it: it would not end the guest by itself.
func TestAChangeThatTheNodeDoesNotKnowFencesNothing(t *testing.T) {
	t.Parallel()
	a := newArchipelago(t, 2, 1)
	id := a.MustCreate(t, looptest.Slices(1, "3g"))
	a.until(t, "it runs", func() bool { return a.State(t, id) == cloud.StateRunning })
	node := a.of(t, id)
	node.cut = true
	a.Exec(t, `UPDATE instance SET on_node_loss = 'restart' WHERE id = $1`, id)
	a.pass(t, 80*time.Second) // the guest goes on: its node was told to keep it
	a.Exec(t, `UPDATE node SET last_seen_at = last_seen_at - interval '10 minutes' WHERE id = $1`, node.ID)
	for range 3 {
		a.turn(t)
	}
	if a.State(t, id) != cloud.StateRunning || a.of(t, id) != node {
		t.Errorf("it is %s: taken from a node that does not know that it should end it", a.State(t, id))
	}
	a.operator(t, func(tx *postgres.Tx, by cloud.UserID) error {
		node.dead = true
		delete(node.guests, id)
		return postgres.NodeFence(t.Context(), tx, node.ID, by)
	})
	a.until(t, "confirmed off, it runs elsewhere", func() bool { return a.State(t, id) == cloud.StateRunning && a.of(t, id) != node })
}

// Orphans have alarms for as long as they are reported; one that a person
// acknowledged stays so; what was to be removed is forgotten once it is gone.
func TestOrphansAreAlarmsUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	a := newArchipelago(t, 1, 1)
	node := a.islands[0]
	show := func(orphans string) {
		a.Exec(t, `UPDATE node SET orphans = $2 WHERE id = $1`, node.ID, []byte(orphans))
		a.turn(t)
	}
	alarms := func() string {
		return looptest.One[string](t, a.World, `SELECT COALESCE(string_agg(substr(key, 37) || CASE WHEN acknowledged_at IS NULL THEN '' ELSE '!' END, ' ' ORDER BY key), '') FROM alarm WHERE cleared_at IS NULL`)
	}
	show(`[{"driver": "containerd", "id": "inst_a", "what": "guest, running"}, {"driver": "volume", "id": "vol_b", "what": "volume"}]`)
	a.Exec(t, `UPDATE alarm SET acknowledged_at = now() WHERE key LIKE '%inst_a'`)
	a.turn(t)
	if got := alarms(); got != ":orphan:inst_a! :orphan:vol_b" {
		t.Errorf("alarms: %s", got)
	}
	a.operator(t, func(tx *postgres.Tx, by cloud.UserID) error {
		_, err := postgres.RemovalAdd(t.Context(), tx, node.ID, "vol_b", by)
		return err
	})
	a.turn(t)
	if n := looptest.One[int](t, a.World, `SELECT count(*) FROM node_removal`); n != 1 {
		t.Errorf("%d removals while it is still there", n)
	}
	a.Exec(t, `UPDATE node_removal SET asked_at = now() - interval '1 minute'`)
	show(`[{"driver": "containerd", "id": "inst_a", "what": "guest, running"}]`)
	a.turn(t)
	if got := alarms(); got != ":orphan:inst_a!" {
		t.Errorf("alarms after one has gone: %s", got)
	}
	if n := looptest.One[int](t, a.World, `SELECT count(*) FROM node_removal`); n != 0 {
		t.Errorf("%d removals after it has gone", n)
	}
	show(`[]`)
	if got := alarms(); got != "" {
		t.Errorf("alarms after all have gone: %s", got)
	}
}
