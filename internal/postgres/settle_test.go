package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// What the loops ask at every tick must not grow with all the instances that
// ever were.
func TestTheLoopsQueriesReadNoWholeTable(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 64, 65536, "h100-80gb", cloud.ModeMIG, 2)
	id := w.MustCreate(t, looptest.Slices(1, "1g"))
	w.Exec(t, `INSERT INTO instance (id, org_id, project_id, name, kind, image_org_id, image_id, image_digest, flavor_id, pool_id,
			gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_by, state, deleted_at, holds_quota, desired_state)
		SELECT gen_random_uuid(), org_id, project_id, 'old-' || k, kind, image_org_id, image_id, image_digest, flavor_id, pool_id,
			gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_by, 'deleted', now(), false, 'deleted'
		FROM instance, generate_series(1, 5000) AS k`)
	w.Exec(t, `INSERT INTO observation (instance_id, node_id, epoch, generation, state, handled_seq)
		SELECT id, $1, 1, 1, 'gone', 1 FROM instance WHERE state = 'deleted'`, n.ID)
	w.Exec(t, `INSERT INTO event (id, org_id, project_id, resource, resource_id, seq, verb, at)
		SELECT gen_random_uuid(), org_id, project_id, 'instance', id, k, 'old', now() FROM instance, generate_series(10, 11) AS k`)
	w.Exec(t, `INSERT INTO segment (id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at, ended_at)
		SELECT gen_random_uuid(), org_id, project_id, id, kind, 'running', 0, '', '', '', 1, 1, now() - interval '1 h', now() FROM instance`)
	w.Exec(t, `ANALYZE`)
	one := []cloud.InstanceID{id}
	// whole runs ask and gives the tables that it reads from end to end. The
	// server's count may still hold what the connection did before.
	count := func(ctx context.Context, tx *postgres.Tx) (map[string]int, error) {
		rows, err := tx.Query(ctx, `SELECT relname, seq_scan FROM pg_stat_xact_user_tables
			WHERE relname IN ('instance', 'observation', 'event', 'segment')`)
		if err != nil {
			return nil, err
		}
		out := map[string]int{}
		var table string
		var n int
		_, err = pgx.ForEachRow(rows, []any{&table, &n}, func() error { out[table] = n; return nil })
		return out, err
	}
	whole := func(t *testing.T, ask func(context.Context, *postgres.Tx) error) (read string) {
		t.Helper()
		err := w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error {
			before, err := count(t.Context(), tx)
			if err != nil {
				return err
			}
			if err := ask(t.Context(), tx); err != nil {
				return err
			}
			after, err := count(t.Context(), tx)
			for table, n := range after {
				if n > before[table] {
					read += table + " "
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	if got := whole(t, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, `SELECT FROM instance WHERE message = 'x'`)
		return err
	}); got != "instance " {
		t.Fatalf("a query without an index reads %q: this test sees nothing", got)
	}
	for name, ask := range map[string]func(context.Context, *postgres.Tx) error{
		"queue": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.QueueRead(ctx, tx, 100)
			return err
		},
		"unsettled": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.InstanceUnsettled(ctx, tx, 100)
			return err
		},
		"overdue": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.InstanceOverdue(ctx, tx, 100)
			return err
		},
		"forsaken": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.InstanceForsaken(ctx, tx, 100)
			return err
		},
		"revive": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.ObservationRevive(ctx, tx, time.Minute)
			return err
		},
		"unhandled": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.ObservationUnhandled(ctx, tx, cloud.InstanceID{}, 100)
			return err
		},
		"unmetered": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.MeterLock(ctx, tx, cloud.InstanceID{}, 100)
			return err
		},
		"histories": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.MeterRead(ctx, tx, one)
			return err
		},
		"lock": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.StandingLock(ctx, tx, one)
			return err
		},
		"placements": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.PlacementLock(ctx, tx, one, []cloud.NodeID{n.ID}, n.Cards)
			return err
		},
		"forget": func(ctx context.Context, tx *postgres.Tx) error { return postgres.ObservationForget(ctx, tx, one) },
	} {
		t.Run(name, func(t *testing.T) {
			if got := whole(t, ask); got != "" {
				t.Errorf("reads all of %s", got)
			}
		})
	}
}
