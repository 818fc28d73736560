package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// tenantTables are those with an organisation's rows, read from the catalogue so
// that a new one can't be forgotten.
func tenantTables(t *testing.T, q postgres.Querier) []string {
	t.Helper()
	rows, _ := q.Query(t.Context(), `
		SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id'
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1`)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(out) < 11 {
		t.Fatalf("tenant tables: %v, %v", out, err)
	}
	return out
}

func TestNoTenantSeesAnother(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	fill(t, d.Owner, "a", 12)
	fill(t, d.Owner, "b", 12)
	a, b := idOf(t, d.Owner, cloud.OrgID{}, "aorg"), idOf(t, d.Owner, cloud.OrgID{}, "borg")
	for _, table := range tenantTables(t, d.Owner) {
		var total, ofB int
		var row string
		err := d.Owner.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE org_id = $1), (SELECT row_to_json(x)::text FROM `+table+` x WHERE org_id = $1 LIMIT 1) FROM `+table, b).Scan(&total, &ofB, &row)
		if err != nil || ofB == 0 || ofB == total {
			t.Fatalf("%s: the fixture has %d of %d rows of the other (%v)", table, ofB, total, err)
		}
		for _, c := range []struct {
			what  string
			scope postgres.Scope
			own   bool
		}{{"its own organisation", postgres.Scope{Org: a}, true}, {"no organisation", postgres.Scope{}, false}} {
			err := d.DB.InAPI(t.Context(), c.scope, func(tx *postgres.Tx) error {
				var seen, foreign int
				err := tx.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE org_id <> $1) FROM `+table, a).Scan(&seen, &foreign)
				if err == nil && (foreign > 0 || (seen > 0) != c.own) {
					t.Errorf("%s, with %s: %d rows, %d of them foreign", table, c.what, seen, foreign)
				}
				return err
			})
			if err != nil {
				t.Errorf("%s, with %s: %v", table, c.what, err)
			}
		}
		err = d.DB.InAPI(t.Context(), postgres.Scope{Org: a}, func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), `INSERT INTO `+table+` OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_record(NULL::`+table+`, $1)`, row)
			return err
		})
		if postgres.Code(err) != "42501" {
			t.Errorf("%s: a row of another organisation is written: %v", table, err)
		}
	}
}

// The roles own nothing and can't step over row security; every tenant table has
// it switched on.
func TestRolesAreSmall(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	var n int
	err := tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_roles WHERE rolname LIKE 'tenon\_%' AND rolname <> 'tenon_owner' AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb)`).Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("%d roles may too much (%v)", n, err)
	}
	err = tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname IN ('tenon_api', 'tenon_system', 'tenon_node')`).Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("%d things belong to a login role (%v)", n, err)
	}
	for _, table := range append(tenantTables(t, tx), "organisation", "app_user", "session", "observation", "node", "gpu") {
		var on bool
		if err := tx.QueryRow(t.Context(), `SELECT relrowsecurity FROM pg_class WHERE oid = $1::regclass`, table).Scan(&on); err != nil || !on {
			t.Errorf("%s has no row security (%v)", table, err)
		}
	}
}

// Foreign-key checks bypass row security, so a reference between tenant tables
// must carry the organisation on both sides.
func TestReferencesBetweenTenantTablesCarryTheOrganisation(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	rows, _ := tx.Query(t.Context(), `
		SELECT c.conname || ' of ' || c.conrelid::regclass
		FROM pg_constraint c
		WHERE c.contype = 'f'
			AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.conrelid AND attname = 'org_id')
			AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.confrelid AND attname = 'org_id')
			AND NOT EXISTS (
				SELECT FROM unnest(c.conkey, c.confkey) AS k (from_col, to_col)
				JOIN pg_attribute f ON f.attrelid = c.conrelid AND f.attnum = k.from_col
				JOIN pg_attribute r ON r.attrelid = c.confrelid AND r.attnum = k.to_col
				-- image_org_id is the instance's own or the operator's, by its CHECK
				WHERE r.attname = 'org_id' AND f.attname IN ('org_id', 'image_org_id'))`)
	bad, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(bad) > 0 {
		t.Errorf("without the organisation: %v (%v)", bad, err)
	}
	var n int
	err = tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_constraint WHERE conrelid = 'instance'::regclass AND contype = 'c' AND pg_get_constraintdef(oid) LIKE '%image_org_id%org_id%'`).Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("%d checks of image_org_id (%v)", n, err)
	}
}

// A node's connection sees what is placed on it and nothing of people.
func TestNodeSeesItsOwnRows(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	fill(t, d.Owner, "a", 12)
	node := idOf(t, d.Owner, cloud.NodeID{}, "anode3")
	err := d.DB.InNode(t.Context(), node, func(tx *postgres.Tx) error {
		for table, want := range map[string]int{"node": 1, "gpu": 1, "instance": 1, "gpu_claim": 1, "observation": 1, "image": 1} {
			var n int
			if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil || n != want {
				t.Errorf("%s: %d rows, want %d (%v)", table, n, want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"app_user", "session", "api_token", "membership", "audit", "sealed_key", "project", "event", "price"} {
		err := d.DB.InNode(t.Context(), node, func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT FROM `+table)
			return err
		})
		if postgres.Code(err) != "42501" {
			t.Errorf("a node reads %s: %v", table, err)
		}
	}
	for _, sql := range []string{`DELETE FROM gpu_claim`, `UPDATE instance SET state = 'stopped'`, `UPDATE node SET state = 'ready'`, `UPDATE node SET generation = 0`} {
		err := d.DB.InNode(t.Context(), node, func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), sql)
			return err
		})
		if postgres.Code(err) != "42501" {
			t.Errorf("a node may %s: %v", sql, err)
		}
	}
}
