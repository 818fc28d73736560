package pgtest_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/pgtest"
)

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	one, two := pgtest.New(t), pgtest.New(t)
	if _, err := one.Owner.Exec(t.Context(), `INSERT INTO pool (id, name) VALUES (gen_random_uuid(), 'here')`); err != nil {
		t.Fatal(err)
	}
	var n, shapes int
	err := two.Owner.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pool), (SELECT count(*) FROM placement_shape)`).Scan(&n, &shapes)
	if err != nil || n != 0 || shapes == 0 {
		t.Fatalf("%d pools and %d shapes in the other database (%v), want 0 and some", n, shapes, err)
	}
}

func TestTxIsRolledBack(t *testing.T) {
	t.Parallel()
	for range 2 {
		t.Run("", func(t *testing.T) {
			if _, err := pgtest.Tx(t).Exec(t.Context(), `INSERT INTO pool (id, name) VALUES (gen_random_uuid(), 'once')`); err != nil {
				t.Fatal(err)
			}
		})
	}
}
