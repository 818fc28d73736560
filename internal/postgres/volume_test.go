package postgres_test

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// A tenant sees and asks for its own volumes, and no other's; a node
// speaks of those that are given to it alone.
func TestVolumesAreTheirOwners(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	ctx := t.Context()
	fill(t, d.Owner, "a", 10)
	fill(t, d.Owner, "b", 10)
	mine, theirs := idOf(t, d.Owner, cloud.InstanceID{}, "ainstance1"), idOf(t, d.Owner, cloud.InstanceID{}, "binstance1")
	org := idOf(t, d.Owner, cloud.OrgID{}, "aorg")
	err := d.DB.InAPI(ctx, postgres.Scope{Org: org}, func(tx *postgres.Tx) error {
		have, err := postgres.VolumesOf(ctx, tx, []cloud.InstanceID{mine, theirs})
		if err != nil || len(have) != 1 || len(have[mine]) != 1 || have[mine][0].NodeName != "" {
			t.Errorf("volumes %+v, %v: want its own alone, without its node's name", have, err)
		}
		err = postgres.VolumesEnd(ctx, tx, []cloud.InstanceID{mine, theirs}, time.Now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Neither what a claim holds nor a segment of money is a tenant's to write.
	for _, sql := range []string{`UPDATE volume_segment SET ended_at = now()`, `INSERT INTO volume_segment SELECT * FROM volume_segment`, `UPDATE volume SET said = 'gone'`, `UPDATE volume SET size_mib = 128`, `UPDATE volume SET node_id = NULL`, `UPDATE gpu_claim SET epoch = 9`} {
		err := d.DB.InAPI(ctx, postgres.Scope{Org: org}, func(tx *postgres.Tx) error { return try(ctx, tx, sql) })
		if postgres.Code(err) != "42501" {
			t.Errorf("%s: %v, want refused", sql, err)
		}
	}
	// The two functions that move or free claims act on what is held, of one's own.
	err = d.DB.InAPI(ctx, postgres.Scope{Org: org}, func(tx *postgres.Tx) error {
		for _, id := range []cloud.InstanceID{mine, theirs} {
			if err := postgres.HeldRelease(ctx, tx, id); err != nil {
				return err
			}
			if n, err := postgres.HeldStart(ctx, tx, id); err != nil || n != 0 {
				t.Errorf("%d claims of one that is not held were moved, %v", n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = d.DB.InNode(ctx, idOf(t, d.Owner, cloud.NodeID{}, "anode2"), func(tx *postgres.Tx) error {
		list, err := postgres.VolumesAssigned(ctx, tx, idOf(t, d.Owner, cloud.NodeID{}, "anode2"))
		if err != nil || len(list) != 1 || list[0].Gone {
			t.Errorf("a node is given %+v, %v", list, err)
		}
		said := []postgres.VolumeSaid{{ID: idOf(t, d.Owner, cloud.VolumeID{}, "avolume2"), State: "present", UsedMiB: 7}, {ID: idOf(t, d.Owner, cloud.VolumeID{}, "avolume3"), State: "gone"}}
		news, _, err := postgres.VolumesReported(ctx, tx, idOf(t, d.Owner, cloud.NodeID{}, "anode2"), said)
		if err != nil || !news {
			t.Errorf("news %v, %v", news, err)
		}
		if news, _, err = postgres.VolumesReported(ctx, tx, idOf(t, d.Owner, cloud.NodeID{}, "anode2"), said); err != nil || news {
			t.Errorf("the same again is news: %v, %v", news, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	err = d.Owner.QueryRow(ctx, `SELECT string_agg(format('%s:%s:%s', id = md5('avolume1')::uuid, state, said), ' ' ORDER BY state, said)
		FROM volume WHERE id IN (md5('avolume1')::uuid, md5('bvolume1')::uuid, md5('avolume2')::uuid, md5('avolume3')::uuid)`).Scan(&got)
	if want := "t:deleting: f:present: f:present: f:present:present"; err != nil || got != want {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
	if err := d.Owner.QueryRow(ctx, `SELECT count(*)::text || ' ' || (SELECT size_mib FROM volume WHERE id = md5('bvolume1')::uuid) FROM gpu_claim`).Scan(&got); err != nil || got != "20 64" {
		t.Errorf("claims and the size of another's volume: %s, %v", got, err)
	}
}
