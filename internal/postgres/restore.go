package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// RestoreTarget is what lies in the database that is restored into.
type RestoreTarget struct {
	Empty    bool
	Half     bool   // of a restore that did not end
	CloudID  string // empty: no cloud's
	Era      string
	Sessions int    // of the control plane's roles: it is up
	Leader   string // who leads, by a lease that is not over
}

// RestoreLook looks at the database before a restore.
func RestoreLook(ctx context.Context, ownerDSN string) (t RestoreTarget, err error) {
	conn, err := pgx.Connect(ctx, ownerDSN)
	if err != nil {
		return t, fmt.Errorf("connect as the database's owner: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var cloudThere, leaderThere bool
	err = conn.QueryRow(ctx, `
		SELECT NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm')),
			to_regclass('public.restore_unfinished') IS NOT NULL, to_regclass('public.cloud_state') IS NOT NULL, to_regclass('public.leader') IS NOT NULL,
			(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = ANY($1))`,
		[]string{RoleAPI, RoleSystem, RoleNode}).Scan(&t.Empty, &t.Half, &cloudThere, &leaderThere, &t.Sessions)
	if err != nil {
		return t, fmt.Errorf("look at the database: %w", err)
	}
	if cloudThere {
		err = conn.QueryRow(ctx, `SELECT cloud_id, era::text FROM cloud_state`).Scan(&t.CloudID, &t.Era)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return t, fmt.Errorf("look at the database's cloud: %w", err)
		}
	}
	if leaderThere {
		err = conn.QueryRow(ctx, `SELECT holder FROM leader WHERE expires_at > clock_timestamp() LIMIT 1`).Scan(&t.Leader)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return t, fmt.Errorf("look at who leads: %w", err)
		}
	}
	return t, nil
}

// RestoreRoles makes the login roles, which a dump grants rights to.
func RestoreRoles(ctx context.Context, cfg BootstrapConfig) error {
	conn, err := pgx.Connect(ctx, cfg.OwnerDSN)
	if err != nil {
		return fmt.Errorf("connect as the database's owner: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return rolesMake(ctx, conn, cfg.Password)
}

// RestoreBefore and RestoreAfter go around a dump, in its transaction: what was
// there is dropped, and what is there then is marked as half restored.
const (
	RestoreBefore = `
DO $$
DECLARE r record;
BEGIN
	FOR r IN SELECT c.oid::regclass AS name, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') LOOP
		IF to_regclass(r.name::text) IS NOT NULL THEN
			EXECUTE format('DROP %s IF EXISTS %s CASCADE', CASE r.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, r.name);
		END IF;
	END LOOP;
	FOR r IN SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'public' AND c.relkind = 'S' LOOP
		EXECUTE format('DROP SEQUENCE IF EXISTS %s CASCADE', r.name);
	END LOOP;
	FOR r IN SELECT p.oid::regprocedure AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = 'public' AND p.prokind = 'f' AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') LOOP
		EXECUTE format('DROP FUNCTION IF EXISTS %s CASCADE', r.name);
	END LOOP;
END $$;
`
	RestoreAfter = `
CREATE TABLE public.restore_unfinished (since timestamptz NOT NULL DEFAULT now());
`
)

// Restored says what a restore did.
type Restored struct {
	Era       string
	At        time.Time
	Nodes     int
	Instances int // that were charged for at the backup, and are not until their nodes have spoken
}

// RestoreFinish turns a copy of yesterday into today's truth: the migrations that
// it lacks, and in one transaction a new era, which every node takes, and the end
// of whatever must not outlive a restore.
func RestoreFinish(ctx context.Context, cfg BootstrapConfig, taken time.Time, lastEra string) (out Restored, err error) {
	cc, err := pgx.ParseConfig(cfg.OwnerDSN)
	if err != nil {
		return out, fmt.Errorf("read the database owner's address: %w", err)
	}
	if err := migrate(ctx, cc); err != nil {
		return out, err
	}
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return out, fmt.Errorf("connect as the database's owner: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := shapesFill(ctx, tx); err != nil {
			return err
		}
		if out, err = newEra(ctx, tx, taken, lastEra); err != nil {
			return err
		}
		if out.Instances, err = doubt(ctx, tx, taken, out.At); err != nil {
			return err
		}
		return settleRestore(ctx, tx, taken, out)
	})
	return out, err
}

func newEra(ctx context.Context, tx pgx.Tx, taken time.Time, lastEra string) (out Restored, err error) {
	out.Era = uuid.Must(uuid.NewV7()).String()
	var era string
	if err := tx.QueryRow(ctx, `SELECT era::text, clock_timestamp() FROM cloud_state FOR UPDATE`).Scan(&era, &out.At); err != nil {
		return out, fmt.Errorf("read the cloud's row: %w", err)
	}
	if out.Era <= max(era, lastEra) || out.At.Before(taken) {
		return out, errors.New("the clock of this machine or of the database is behind the backup: nodes would not take the new era; set the clock first")
	}
	// Runs of since then have epochs above the backup's: whatever is placed from
	// now on begins far above those, by the time.
	_, err = tx.Exec(ctx, `
		UPDATE cloud_state SET era = $1, restored_at = $2, restored_from = $3,
			epoch_floor = GREATEST(epoch_floor, (SELECT COALESCE(max(epoch), 0) FROM instance), extract(epoch FROM $2::timestamptz)::bigint)`,
		out.Era, out.At, taken)
	if err != nil {
		return out, fmt.Errorf("begin the new era: %w", err)
	}
	return out, nil
}

// doubt notes that nobody knows what became of what was charged for when the
// backup was made: it is proven until then and no further. A node that says that
// the same run goes on proves the rest, by a correction.
func doubt(ctx context.Context, tx pgx.Tx, taken, now time.Time) (int, error) {
	rows, err := tx.Query(ctx, `SELECT `+standingColumns+` FROM instance WHERE state = 'running' AND reason <> $1 OR held ORDER BY id FOR NO KEY UPDATE`, ReasonNodeLost)
	if err != nil {
		return 0, fmt.Errorf("lock instances: %w", err)
	}
	list, err := pgx.CollectRows(rows, standingScan)
	if err != nil {
		return 0, fmt.Errorf("lock instances: %w", err)
	}
	var events []cloud.Event
	for i := range list {
		s := &list[i]
		proven := taken
		if proven.Before(s.StateAt) {
			proven = s.StateAt
		}
		data := map[string]any{"state": "unknown", "held": false, "proven_until": proven}
		if s.Held {
			// It holds its place again, from now: that is for the database to say.
			events = append(events, InstanceEvent(s, "restored", "the cloud was restored from a backup; its place is held again", now, data),
				InstanceEvent(s, "stopped", "stopped, and holds its place", now, nil))
			continue
		}
		s.Reason, s.Message = ReasonNodeLost, "the cloud was restored from a backup, and its node has not said yet whether it still runs"
		events = append(events, InstanceEvent(s, "node_lost", s.Message, now, data))
	}
	if err := StandingSave(ctx, tx, list); err != nil {
		return 0, err
	}
	return len(list), EventsAppend(ctx, tx, events)
}

// settleRestore ends what must not outlive a restore.
func settleRestore(ctx context.Context, tx pgx.Tx, taken time.Time, r Restored) error {
	for _, step := range []struct {
		what, sql string
		args      []any
	}{
		// Places in the stream of before compare with transactions of another server:
		// they all are before whatever comes now, in their own order.
		{"put the events in order", `UPDATE event SET xid = '1' WHERE xid <> '1'`, nil},
		{"end sessions", `DELETE FROM session`, nil},
		{"end join tokens", `DELETE FROM node_join_token`, nil},
		{"end leadership", `UPDATE leader SET holder = '', term = term + 1, expires_at = 'epoch'`, nil},
		{"forget replicas", `DELETE FROM replica`, nil},
		// Every node says again what it has.
		{"forget what nodes said", `DELETE FROM observation`, nil},
		{"raise nodes' generations", `UPDATE node SET generation = generation + 1, ack_era = NULL, ack_generation = 0`, nil},
		{"move deadlines", `UPDATE instance SET deadline_at = $1 WHERE deadline_at IS NOT NULL`, []any{r.At.Add(cloud.StartWithin)}},
		{"raise epochs", `UPDATE instance SET epoch = (SELECT epoch_floor FROM cloud_state) WHERE node_id IS NULL OR held`, nil},
		{"raise epochs of what is held", `UPDATE gpu_claim c SET epoch = i.epoch FROM instance i WHERE i.id = c.instance_id AND i.held`, nil},
		// Volumes are charged until the backup and from now on.
		{"begin volumes' segments", `
			WITH open AS (UPDATE volume_segment SET ended_at = GREATEST(started_at, $1) WHERE ended_at IS NULL
				RETURNING org_id, project_id, volume_id, instance_id, size_mib)
			INSERT INTO volume_segment (id, org_id, project_id, volume_id, instance_id, size_mib, started_at)
			SELECT gen_random_uuid(), org_id, project_id, volume_id, instance_id, size_mib, GREATEST($2, $1) FROM open`, []any{taken, r.At}},
		{"finish", `DROP TABLE public.restore_unfinished`, nil},
	} {
		if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	err := AlarmRaise(ctx, tx, cloud.Alarm{Key: "cloud:restored:" + r.Era, Severity: "warning", Subject: "cloud",
		Message: "restored from a backup of " + taken.UTC().Format(time.RFC3339) + ": what happened since is not known here. What nodes still run of it is listed as orphans; look at each before you remove it"})
	if err != nil {
		return err
	}
	return AuditAdd(ctx, tx, Audit{Action: "cloud.restore", Resource: "cloud", Detail: map[string]any{"from": taken.UTC().Format(time.RFC3339), "era": r.Era}})
}
