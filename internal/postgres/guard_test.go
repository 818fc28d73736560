package postgres_test

import (
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

func TestMovesAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	rows, _ := pgtest.Tx(t).Query(t.Context(), `SELECT from_state || ' ' || to_state FROM instance_move`)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]bool{}
	for _, m := range got {
		in[m] = true
	}
	for _, from := range cloud.InstanceStates {
		for _, to := range cloud.InstanceStates {
			if cloud.CanMove(from, to) != in[string(from)+" "+string(to)] {
				t.Errorf("%s to %s: %v in Go, %v in the database", from, to, cloud.CanMove(from, to), !cloud.CanMove(from, to))
			}
		}
	}
}

func TestPlacementShapesAreThoseOfPackageGPU(t *testing.T) {
	t.Parallel()
	rows, _ := pgtest.Tx(t).Query(t.Context(), `SELECT geometry, mode, profile, lower(slots), upper(slots) FROM placement_shape`)
	got := map[gpu.Shape]bool{}
	var s gpu.Shape
	if _, err := pgx.ForEachRow(rows, []any{&s.Geometry, &s.Mode, &s.Profile, &s.Start, &s.End}, func() error { got[s] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[gpu.Shape]bool{}
	for _, s := range gpu.Shapes() {
		want[s] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestClaimsCannotBeWrong(t *testing.T) {
	t.Parallel()
	tx, ctx := pgtest.Tx(t), t.Context()
	fill(t, tx, "a", 10)
	const claim = `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		SELECT gen_random_uuid(), md5('agpu1')::uuid, org_id, project_id, id, 1, $1, $2, $3, $4::int4range FROM instance WHERE id = md5('ainstance1')::uuid`
	for _, c := range []struct {
		what                           string
		mode, geometry, profile, slots string
		code, constraint               string
	}{
		{"a start that the hardware does not take", "mig", "mig8", "2g", "[1,3)", "23503", ""},
		{"a wrong size", "mig", "mig8", "3g", "[0,3)", "23503", ""},
		{"a free start", "mig", "mig8", "2g", "[2,4)", "", ""},
		{"the last slot", "mig", "mig8", "1g", "[5,6)", "", ""},
		{"an overlap with [6,7)", "mig", "mig8", "1g", "[6,7)", "23P01", "gpu_claim_slots"},
		{"an overlap of a larger one", "mig", "mig8", "4g", "[0,4)", "23P01", "gpu_claim_slots"},
		{"an empty range", "mig", "mig8", "1g", "empty", "23503", ""},
		{"no upper end", "mig", "mig8", "1g", "[0,)", "23P01", ""},
		{"another geometry", "mig", "mig4", "1g", "[0,1)", "23503", ""},
		{"another mode", "whole", "mig8", "whole", "[0,8)", "23P01", ""},
		{"a seventh slice after the seventh", "mig", "mig8", "1g", "[7,8)", "23503", ""},
	} {
		err := try(ctx, tx, claim, c.mode, c.geometry, c.profile, c.slots)
		if postgres.Code(err) != c.code || c.constraint != "" && postgres.Constraint(err) != c.constraint {
			t.Errorf("%s: %v, want %q %s", c.what, err, c.code, c.constraint)
		}
	}
	if err := try(ctx, tx, claim, "mig", "mig8", "1g+me", "[0,1)"); err != nil {
		t.Error(err)
	}
	if err := try(ctx, tx, claim, "mig", "mig8", "1g+me", "[1,2)"); postgres.Constraint(err) != "gpu_claim_media" {
		t.Errorf("a second +me: %v", err)
	}
	for _, sql := range []string{
		`UPDATE gpu SET mode = 'whole' WHERE id = md5('agpu1')::uuid`,
		`UPDATE gpu SET geometry = 'mig4' WHERE id = md5('agpu1')::uuid`,
		`DELETE FROM gpu WHERE id = md5('agpu1')::uuid`,
		`UPDATE instance SET state = 'stopped', node_id = NULL WHERE id = md5('ainstance1')::uuid`,
		`UPDATE instance SET state = 'queued', node_id = NULL WHERE id = md5('ainstance1')::uuid`,
		`UPDATE instance SET epoch = 0 WHERE id = md5('ainstance1')::uuid`,
	} {
		if err := try(ctx, tx, sql); err == nil {
			t.Errorf("with claims held: %s", sql)
		}
	}
}

func TestRecordsOfMoneyStay(t *testing.T) {
	t.Parallel()
	tx, ctx := pgtest.Tx(t), t.Context()
	fill(t, tx, "a", 10)
	for _, s := range []string{
		`INSERT INTO segment (id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at)
			SELECT md5('open')::uuid, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, '2026-06-01' FROM segment WHERE id = md5('asegment1')::uuid`,
		`INSERT INTO price (id, sku, micros_per_hour, starts_at) VALUES (md5('started')::uuid, 'vcpu', 1, now()), (md5('later')::uuid, 'vcpu', 1, now() + interval '1 day')`,
	} {
		if err := try(ctx, tx, s); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ what, sql, constraint string }{
		{"a closed segment moves", `UPDATE segment SET ended_at = ended_at + interval '1 hour' WHERE id = md5('asegment1')::uuid`, "segment_record"},
		{"a closed segment opens", `UPDATE segment SET ended_at = NULL WHERE id = md5('asegment1')::uuid`, "segment_record"},
		{"a segment goes", `DELETE FROM segment WHERE id = md5('open')::uuid`, "segment_record"},
		{"an open segment's shape changes", `UPDATE segment SET gpu_count = 2 WHERE id = md5('open')::uuid`, "segment_record"},
		{"an open segment is closed", `UPDATE segment SET ended_at = '2026-06-02' WHERE id = md5('open')::uuid`, ""},
		{"and closed again", `UPDATE segment SET ended_at = '2026-06-03' WHERE id = md5('open')::uuid`, "segment_record"},
		{"an overlap", `INSERT INTO segment (id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at)
			SELECT gen_random_uuid(), org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, '2026-06-01 12:00' FROM segment WHERE id = md5('asegment1')::uuid`, "segment_overlap"},
		{"a price that has started changes", `UPDATE price SET micros_per_hour = 2 WHERE id = md5('started')::uuid`, "price_started"},
		{"a price that has started goes", `DELETE FROM price WHERE id = md5('started')::uuid`, "price_started"},
		{"a later price changes", `UPDATE price SET micros_per_hour = 2 WHERE id = md5('later')::uuid`, ""},
	} {
		if err := try(ctx, tx, c.sql); postgres.Constraint(err) != c.constraint || (err == nil) != (c.constraint == "") {
			t.Errorf("%s: %v, want %q", c.what, err, c.constraint)
		}
	}
}

func TestQuotaGuard(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	ctx := t.Context()
	fill(t, d.Owner, "a", 10)
	p := idOf(t, d.Owner, cloud.ProjectID{}, "aproject1")
	scope := postgres.Scope{Org: idOf(t, d.Owner, cloud.OrgID{}, "aorg")}
	limit := int64(10)
	reserve := func(a postgres.Amounts) error {
		return d.DB.InAPI(ctx, scope, func(tx *postgres.Tx) error { return postgres.QuotaReserve(ctx, tx, p, a) })
	}
	err := d.DB.InAPI(ctx, scope, func(tx *postgres.Tx) error {
		return postgres.QuotaSet(ctx, tx, p, map[cloud.QuotaResource]*int64{cloud.QuotaVCPU: &limit})
	})
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	var refused atomic.Int64
	for range 20 {
		g.Go(func() error {
			err := reserve(postgres.Amounts{cloud.QuotaVCPU: 1, cloud.QuotaMemoryMiB: 64})
			if _, ok := postgres.QuotaExceeded(err); ok {
				refused.Add(1)
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil || refused.Load() != 10 {
		t.Fatalf("%d refused, want 10 (%v)", refused.Load(), err)
	}
	x, ok := postgres.QuotaExceeded(reserve(postgres.Amounts{cloud.QuotaVCPU: 3}))
	if diff := cmp.Diff(postgres.QuotaExcess{Resource: cloud.QuotaVCPU, Limit: 10, Used: 10, Asked: 3}, x); diff != "" || !ok {
		t.Error(diff)
	}
	limit = 1 // below what is used: nothing stops, less is given back as ever, more is refused
	err = d.DB.InAPI(ctx, scope, func(tx *postgres.Tx) error {
		if err := postgres.QuotaSet(ctx, tx, p, map[cloud.QuotaResource]*int64{cloud.QuotaVCPU: &limit}); err != nil {
			return err
		}
		return postgres.QuotaReserve(ctx, tx, p, postgres.Amounts{cloud.QuotaVCPU: -2})
	})
	if err != nil {
		t.Error(err)
	}
	if _, ok := postgres.QuotaExceeded(reserve(postgres.Amounts{cloud.QuotaVCPU: 1})); !ok {
		t.Error("more is given above a lowered limit")
	}
	if err := reserve(postgres.Amounts{cloud.QuotaVCPU: -100}); err == nil {
		t.Error("what is used falls below zero")
	}
}

// Two transactions that lock two rows in opposite order both end well.
func TestLostRacesAreRunAgain(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	ctx := t.Context()
	fill(t, d.Owner, "a", 10)
	var tries atomic.Int64
	var g errgroup.Group
	meet := make(chan struct{}, 2)
	for _, order := range [][2]string{{"p1", "p2"}, {"p2", "p1"}} {
		g.Go(func() error {
			first := true
			return d.DB.InSystem(ctx, func(tx *postgres.Tx) error {
				tries.Add(1)
				if _, err := tx.Exec(ctx, `UPDATE project SET display_name = display_name || 'x' WHERE name = $1`, order[0]); err != nil {
					return err
				}
				if first { // both hold one before either wants the other
					first = false
					meet <- struct{}{}
					pgtest.Eventually(t, "both hold a row", func() bool { return len(meet) == 2 })
				}
				_, err := tx.Exec(ctx, `UPDATE project SET display_name = display_name || 'x' WHERE name = $1`, order[1])
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var names []string
	rows, _ := d.Owner.Query(ctx, `SELECT display_name FROM project WHERE name IN ('p1', 'p2')`)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if diff := cmp.Diff([]string{"xx", "xx"}, names); diff != "" || err != nil || tries.Load() < 3 {
		t.Errorf("%d tries (%v) %s", tries.Load(), err, diff)
	}
}
