package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// What an operator, or a bug, might wish for a card and no card can be.
func TestTheDatabaseRefusesWishesThatCanNotBe(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 2)
	const wish = `UPDATE gpu SET desired_mode = $2, desired_geometry = $3, desired_layout = $4, desired_shares = $5, desired_vgpu_type = $6 WHERE id = $1`
	for _, c := range []struct {
		name, mode, geometry, layout string
		shares                       int
		vgpu                         string
		want                         string
	}{
		{"MIG without slices", "mig", "mig8", `[]`, 0, "", ""},
		{"a layout", "mig", "mig8", `[{"profile":"3g","slot_start":4,"slot_end":8},{"profile":"1g","slot_start":0,"slot_end":1}]`, 0, "", ""},
		{"four shares", "shared", "share4", `[]`, 4, "", ""},
		{"sixteen virtual GPUs", "vgpu", "vgpu16", `[]`, 0, "A100-5C", ""},
		{"MIG-backed", "vgpu", "mig8", `[{"profile":"1g","slot_start":0,"slot_end":1}]`, 0, "", ""},
		{"no such mode", "half", "mig8", `[]`, 0, "", "gpu_wish_shape"},
		{"MIG of what has none", "mig", "plain", `[]`, 0, "", "gpu_wish_shape"},
		{"nine shares", "shared", "share9", `[]`, 9, "", "gpu_wish_shape"},
		{"shares of a MIG card", "mig", "mig8", `[]`, 4, "", "gpu_wish"},
		{"a shared card without shares", "shared", "share4", `[]`, 0, "", "gpu_wish"},
		{"a type of a MIG card", "mig", "mig8", `[]`, 0, "A100-5C", "gpu_wish"},
		{"a layout of a shared card", "shared", "share4", `[{"profile":"share","slot_start":0,"slot_end":1}]`, 4, "", "gpu_wish"},
		{"a start that hardware does not take", "mig", "mig8", `[{"profile":"3g","slot_start":2,"slot_end":6}]`, 0, "", "gpu_wish_layout"},
		{"an overlap", "mig", "mig8", `[{"profile":"3g","slot_start":0,"slot_end":4},{"profile":"1g","slot_start":3,"slot_end":4}]`, 0, "", "gpu_wish_layout"},
		{"an unknown profile", "mig", "mig8", `[{"profile":"5g","slot_start":0,"slot_end":5}]`, 0, "", "gpu_wish_layout"},
	} {
		if got := w.Refused(t, wish, n.Cards[0], c.mode, c.geometry, c.layout, c.shares, c.vgpu); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	w.Exec(t, `UPDATE gpu SET modes = '{whole,mig}' WHERE id = $1`, n.Cards[1])
	if got := w.Refused(t, wish, n.Cards[1], "shared", "share4", `[]`, 4, ""); got != "gpu_wish_mode" {
		t.Errorf("a mode that its node can't give: %q", got)
	}
	if got := w.Refused(t, `UPDATE gpu SET state = 'on fire' WHERE id = $1`, n.Cards[1]); got != "gpu_state_check" {
		t.Errorf("no such state: %q", got)
	}
	// What is held stays as it is wished.
	id := w.MustCreate(t, looptest.Whole(1))
	w.Exec(t, `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		VALUES (gen_random_uuid(), $1, $2, $3, $4, 1, 'whole', 'mig8', 'whole', '[0,8)')`, n.Cards[1], w.Org, w.Project, id)
	if got := w.Refused(t, wish, n.Cards[1], "mig", "mig8", `[]`, 0, ""); got != "gpu_wish_held" {
		t.Errorf("a held card: %q", got)
	}
}

// A card is settled only by a report under an assignment that told of the wish.
func TestAnEarlierReportSettlesNothing(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	settled := func() bool { return looptest.One[bool](t, w, `SELECT settled FROM gpu`) }
	said := func(generation int64, mode cloud.GPUMode, reason string) {
		t.Helper()
		err := w.DB.InNode(t.Context(), n.ID, func(tx *postgres.Tx) error {
			_, err := postgres.GPUsReported(t.Context(), tx, n.ID, generation, []cloud.GPU{{UUID: "GPU-" + n.Cards[0].UUID().String(), PCIAddress: "0000:01:00.0", Model: "h100-80gb",
				Geometry: "mig8", Mode: mode, State: cloud.GPUReady, MemoryMiB: 81559, WishReason: reason}}, true)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !settled() {
		t.Fatal("a card that nobody wishes anything for is not settled")
	}
	w.Exec(t, `UPDATE gpu SET desired_mode = 'mig', desired_geometry = 'mig8', wish_generation = 7`)
	for _, c := range []struct {
		generation int64
		mode       cloud.GPUMode
		reason     string
		want       bool
	}{
		{6, cloud.ModeMIG, "", false},                 // it was so before, by itself
		{0, cloud.ModeMIG, "", false},                 // under another era
		{7, cloud.ModeWhole, "MIG is pending", false}, // told, not yet so
		{7, cloud.ModeWhole, "", false},               // it says so, and isn't
		{8, cloud.ModeMIG, "", true},
		{9, cloud.ModeMIG, "a slice could not be made", false},
		{9, cloud.ModeMIG, "", true},
	} {
		if said(c.generation, c.mode, c.reason); settled() != c.want {
			t.Errorf("said %+v: settled %v", c, settled())
		}
	}
}

// A node that finds a held card in another mode can't free it, nor make it another
// card: it is out, and the node's other cards are kept as they are said.
func TestAHeldCardIsNeverAnotherCard(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 2)
	id := w.MustCreate(t, looptest.Whole(1))
	w.Exec(t, `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		VALUES (gen_random_uuid(), $1, $2, $3, $4, 1, 'whole', 'mig8', 'whole', '[0,8)')`, n.Cards[0], w.Org, w.Project, id)
	var said []cloud.GPU
	for i, c := range n.Cards {
		said = append(said, cloud.GPU{UUID: "GPU-" + c.UUID().String(), PCIAddress: []string{"0000:01:00.0", "0000:02:00.0"}[i], Model: "h100-80gb", Geometry: "mig8",
			Mode: cloud.ModeMIG, State: cloud.GPUReady, MemoryMiB: 81559})
	}
	err := w.DB.InNode(t.Context(), n.ID, func(tx *postgres.Tx) error {
		_, err := postgres.GPUsReported(t.Context(), tx, n.ID, 1, said, true)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := looptest.One[string](t, w, `SELECT string_agg(mode || ' ' || state, ', ' ORDER BY pci_address) FROM gpu`); got != "whole quarantined, mig ready" {
		t.Errorf("the cards are %s", got)
	}
}

// Two organisations never share a card.
func TestTheDatabaseKeepsSharesApart(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	w.Exec(t, `UPDATE gpu SET mode = 'shared', geometry = 'share4'`)
	mine := w.MustCreate(t, looptest.Whole(1))
	w.Exec(t, `WITH o AS (INSERT INTO organisation (id, name) VALUES (gen_random_uuid(), 'other') RETURNING id),
		p AS (INSERT INTO project (id, org_id, name) SELECT gen_random_uuid(), id, 'default' FROM o RETURNING id, org_id),
		m AS (INSERT INTO image (id, org_id, name, kind, ref, digest, embedded) SELECT gen_random_uuid(), id, 'debian', 'container', 'tenon/debian', 'sha256:' || repeat('0', 64), true FROM o RETURNING id, org_id)
		INSERT INTO instance (id, org_id, project_id, name, image_org_id, image_id, image_digest, flavor_id, pool_id, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_by, kind)
		SELECT gen_random_uuid(), p.org_id, p.id, 'theirs', m.org_id, m.id, 'sha256:0', i.flavor_id, i.pool_id, 1, 'h100-80gb', 'shared', 'share4', 1, 128, 128, i.created_by, 'container'
		FROM p, m, instance i WHERE i.id = $1`, mine)
	const claim = `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		SELECT gen_random_uuid(), $1, org_id, project_id, id, 1, 'shared', 'share4', 'share', int4range($3::int, $3::int + 1) FROM instance WHERE name = $2`
	name := looptest.One[string](t, w, `SELECT name FROM instance WHERE id = $1`, mine)
	w.Exec(t, claim, n.Cards[0], name, 0)
	w.Exec(t, claim, n.Cards[0], name, 1)
	if got := w.Refused(t, claim, n.Cards[0], "theirs", 2); got != "gpu_claim_shared_org" {
		t.Errorf("another organisation's share: %q", got)
	}
}

// Faults are an operator's to read; a node tells of its own cards, and names only
// what is placed on it.
func TestIncidentsAreOperatorsAndOnce(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n, other := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1), w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	elsewhere := w.MustCreate(t, looptest.Whole(1))
	say := func(node looptest.Node) (added bool) {
		t.Helper()
		err := w.DB.InNode(t.Context(), node.ID, func(tx *postgres.Tx) (err error) {
			x := postgres.IncidentSaid{PCIAddress: "0000:01:00.0", Incident: cloud.Incident{ID: "x-1", Kind: "xid", XID: 79, Action: cloud.IncidentOut, InstanceID: elsewhere}}
			added, err = postgres.IncidentsReported(t.Context(), tx, node.ID, []postgres.IncidentSaid{x})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return added
	}
	if !say(n) || say(n) || !say(other) {
		t.Error("a fault is kept twice, or two nodes' are one")
	}
	if got := looptest.One[string](t, w, `SELECT count(*) || ' ' || count(instance_id) FROM gpu_incident`); got != "2 0" {
		t.Errorf("incidents, and how many name an instance that isn't there: %s", got)
	}
	seen := func(operator bool) (count int) {
		t.Helper()
		err := w.DB.InAPI(t.Context(), postgres.Scope{Org: w.Org, Operator: operator}, func(tx *postgres.Tx) error {
			return tx.QueryRow(t.Context(), `SELECT count(*) FROM gpu_incident`).Scan(&count)
		})
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	if seen(false) != 0 || seen(true) != 2 {
		t.Errorf("a tenant sees %d, an operator %d", seen(false), seen(true))
	}
	err := w.DB.InNode(t.Context(), n.ID, func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE gpu SET desired_mode = 'mig', desired_geometry = 'mig8'`)
		return err
	})
	if postgres.Code(err) != "42501" {
		t.Errorf("a node wished for a card: %v", err)
	}
}

// A fault that gets worse is told of again, once; one that is said to be less isn't.
func TestAFaultThatGetsWorseIsToldAgain(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	say := func(action string, xid int) (news bool) {
		t.Helper()
		err := w.DB.InNode(t.Context(), n.ID, func(tx *postgres.Tx) (err error) {
			x := postgres.IncidentSaid{PCIAddress: "0000:01:00.0", Incident: cloud.Incident{ID: "x-1", Kind: "xid", XID: xid, Action: action}}
			news, err = postgres.IncidentsReported(t.Context(), tx, n.ID, []postgres.IncidentSaid{x})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return news
	}
	untold := func() string {
		return looptest.One[string](t, w, `SELECT format('%s %s %s', action, xid, told) FROM gpu_incident`)
	}
	say(cloud.IncidentNone, 31)
	w.Exec(t, `UPDATE gpu_incident SET told = true`)
	if !say(cloud.IncidentOut, 154) || untold() != "out 154 f" {
		t.Errorf("worse: it is %s", untold())
	}
	w.Exec(t, `UPDATE gpu_incident SET told = true`)
	if say(cloud.IncidentOut, 154) || say(cloud.IncidentNone, 31) || untold() != "out 154 t" {
		t.Errorf("no worse: it is %s", untold())
	}
}

// Who held a card is kept for years, and while it is held.
func TestACardsHoldersAreForgottenInTime(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 2)
	id := w.MustCreate(t, looptest.Whole(1))
	for i, ended := range []string{"now() - interval '3 years'", "now() - interval '1 year'", "NULL"} {
		w.Exec(t, `INSERT INTO gpu_stay (gpu_id, gpu_uuid, claim_id, org_id, project_id, instance_id, epoch, mode, geometry, model, profile, slots, started_at, ended_at)
			SELECT $1, 'GPU-1', gen_random_uuid(), org_id, project_id, id, $3::int, 'whole', 'mig8', 'h100-80gb', 'whole', '[0,8)', now() - interval '4 years', `+ended+`
			FROM instance WHERE id = $2`, n.Cards[0], id, i)
	}
	err := w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error { return postgres.GPUStaysExpire(t.Context(), tx, 2*365*24*time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	if got := looptest.One[string](t, w, `SELECT string_agg(epoch::text, ' ' ORDER BY epoch) FROM gpu_stay`); got != "1 2" {
		t.Errorf("left are %s", got)
	}
}

// Of a vGPU type, its node says how many there are.
func TestAVGPUTypeIsSettledByItsMode(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	w.Exec(t, `UPDATE gpu SET desired_mode = 'vgpu', desired_geometry = 'vgpu8', desired_vgpu_type = 'H100-10C'`)
	for _, c := range []struct {
		mode, geometry string
		want           bool
	}{{"whole", "mig8", false}, {"vgpu", "mig8", false}, {"vgpu", "vgpu7", true}, {"vgpu", "vgpu8", true}} {
		w.Exec(t, `UPDATE gpu SET mode = $1, geometry = $2`, c.mode, c.geometry)
		if got := looptest.One[bool](t, w, `SELECT settled FROM gpu`); got != c.want {
			t.Errorf("%s %s: settled %v", c.mode, c.geometry, got)
		}
	}
}

// A card is its UUID and its place together. What was put into another slot, or
// another node, is there, and its old place is missing; neither keeps a node from
// reporting. An index is for display.
func TestACardMayComeFromAnotherPlace(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n, other := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 2), w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	uuid := []string{"GPU-" + n.Cards[0].UUID().String(), "GPU-" + n.Cards[1].UUID().String()}
	id := w.MustCreate(t, looptest.Whole(1))
	w.Exec(t, `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		VALUES (gen_random_uuid(), $1, $2, $3, $4, 1, 'whole', 'mig8', 'whole', '[0,8)')`, n.Cards[0], w.Org, w.Project, id)
	at := func(address, uuid string, index int) cloud.GPU {
		return cloud.GPU{UUID: uuid, PCIAddress: address, Index: index, Model: "h100-80gb", Geometry: "mig8", Mode: cloud.ModeWhole, State: cloud.GPUReady, MemoryMiB: 81559}
	}
	say := func(node looptest.Node, list ...cloud.GPU) {
		t.Helper()
		err := w.DB.InNode(t.Context(), node.ID, func(tx *postgres.Tx) error {
			_, err := postgres.GPUsReported(t.Context(), tx, node.ID, 1, list, true)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	look := func(uuid string) (g cloud.GPU, err error) {
		err = w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error {
			g, err = postgres.GPUGet(t.Context(), tx, postgres.RefOf(cloud.GPUID{}, uuid))
			return err
		})
		return g, err
	}
	find := func(uuid string) cloud.GPU {
		t.Helper()
		g, err := look(uuid)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	say(n, at("0000:01:00.0", uuid[0], 1), at("0000:02:00.0", uuid[1], 0)) // another order of the driver's
	if a, b := find(uuid[0]), find(uuid[1]); a.ID != n.Cards[0] || len(a.Claims) != 1 || b.ID != n.Cards[1] || len(b.Claims) != 0 {
		t.Errorf("an index made other cards: %+v %+v", a, b)
	}
	say(n, at("0000:01:00.0", uuid[1], 0), at("0000:02:00.0", uuid[0], 1)) // swapped
	if a, b := find(uuid[0]), find(uuid[1]); a.PCIAddress != "0000:02:00.0" || b.PCIAddress != "0000:01:00.0" || len(b.Claims) != 1 {
		t.Errorf("swapped: %+v %+v", a, b)
	}
	for range 2 { // neither is sold, however often it is said that they are well
		say(n, at("0000:01:00.0", uuid[1], 0), at("0000:02:00.0", uuid[0], 1))
		if a, b := find(uuid[0]), find(uuid[1]); a.State != cloud.GPUQuarantined || b.State != cloud.GPUQuarantined || !strings.Contains(a.Reason, "0000:01:00.0") || !strings.Contains(b.Reason, uuid[0]) {
			t.Errorf("swapped under a claim: %s %q, %s %q", a.State, a.Reason, b.State, b.Reason)
		}
	}
	stays := func(uuid string) (list []cloud.GPUStay) {
		t.Helper()
		err := w.DB.InAPI(t.Context(), postgres.Scope{Org: w.Org, Operator: true}, func(tx *postgres.Tx) (err error) {
			list, err = postgres.GPUStayList(t.Context(), tx, find(uuid).ID, nil, 10)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if a, b := stays(uuid[0]), stays(uuid[1]); len(a) != 1 || a[0].InstanceID != id || len(b) != 0 {
		t.Errorf("who held them: %+v %+v", a, b)
	}
	say(n, at("0000:01:00.0", uuid[1], 0)) // one is put into another node
	say(other, at("0000:01:00.0", uuid[0], 0))
	if g := find(uuid[0]); g.NodeID != other.ID {
		t.Errorf("it is %+v", g)
	}
	states := func() string {
		return looptest.One[string](t, w, `SELECT string_agg(state, ' ' ORDER BY node_id = $1 DESC, pci_address) FROM gpu`, n.ID)
	}
	if got := states(); got != "quarantined missing quarantined" {
		t.Errorf("the places are %s", got)
	}
	w.Exec(t, `DELETE FROM gpu_claim`)
	say(n, at("0000:01:00.0", uuid[1], 0))
	say(other, at("0000:01:00.0", uuid[0], 0))
	if got := states(); got != "ready missing ready" {
		t.Errorf("once nobody holds any, the places are %s", got)
	}
	say(n, at("0000:01:00.0", uuid[1], 0), at("0000:02:00.0", uuid[0], 1)) // and says the old one, too
	if _, err := look(uuid[0]); err == nil {
		t.Error("of two that say that they are it, one is taken for it")
	}
}
