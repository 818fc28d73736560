package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// stand makes a candidate that runs until the function is called.
func stand(t *testing.T, db *postgres.DB, holder string) (*postgres.Leadership, func()) {
	t.Helper()
	l := db.Leadership("loops", holder, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return l, stop
}

func leads(l *postgres.Leadership) bool { _, ok := l.Term(); return ok }

// stamp writes something that a test can count.
func stamp(ctx context.Context, tx *postgres.Tx, name string) error {
	_, err := tx.Exec(ctx, `INSERT INTO pool (id, name) VALUES (gen_random_uuid(), $1)`, name)
	return err
}

func pools(t *testing.T, d *pgtest.Database) (n int) {
	t.Helper()
	if err := d.Owner.QueryRow(t.Context(), `SELECT count(*) FROM pool`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOneLeaderAndHandOverOnShutdown(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	other := another(t, d)
	ready(t, d.DB, other)
	first, stop := stand(t, d.DB, "one")
	pgtest.Eventually(t, "the first candidate leads", func() bool { return leads(first) })
	second, _ := stand(t, other, "two")
	old, _ := first.Term()
	if leads(second) {
		t.Fatal("two leaders at once")
	}
	stop()
	began := time.Now()
	pgtest.Eventually(t, "the second takes over", func() bool { return leads(second) })
	took := time.Since(began)
	term, _ := second.Term()
	t.Logf("hand-over after a release took %s", took)
	if term.Number <= old.Number {
		t.Errorf("from term %d to %d", old.Number, term.Number)
	}
	if err := first.In(t.Context(), func(*postgres.Tx) error { return nil }); !errors.Is(err, postgres.ErrNotLeader) {
		t.Errorf("the one that stopped still runs leader transactions: %v", err)
	}
}

// Its lease ends by itself, or lasts longer than any was given: the clock was set
// back after it.
func TestALostLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]string{"lost": "1.5 s", "lost before the clock was set back": "10 min"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replaced(t, lease)
		})
	}
}

func replaced(t *testing.T, lease string) {
	t.Helper()
	d := pgtest.New(t)
	other := another(t, d)
	ready(t, d.DB, other)
	// A leader that took the row and was never heard of again.
	var lost postgres.Term
	err := d.Owner.QueryRow(t.Context(), `INSERT INTO leader VALUES ('loops', 'dead', 7, now() + $1::interval) RETURNING name, holder, term`, lease).
		Scan(&lost.Name, &lost.Holder, &lost.Number)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l, _ := stand(t, other, "two")
	pgtest.Eventually(t, "the other takes over", func() bool { return leads(l) })
	took := time.Since(began)
	t.Logf("take-over from a lost leader took %s of a lease of 1.5 s", took)
	if err := d.DB.InLeader(t.Context(), lost, func(*postgres.Tx) error { return nil }); !errors.Is(err, postgres.ErrNotLeader) {
		t.Errorf("the lost term still counts: %v", err)
	}
}

// A leader that is paused in the middle of a transaction, longer than its lease,
// commits nothing, and does not keep its successor waiting.
func TestAPausedLeaderCommitsNothing(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	other := another(t, d)
	ready(t, d.DB, other)
	var old postgres.Term
	err := d.Owner.QueryRow(t.Context(), `INSERT INTO leader VALUES ('loops', 'one', 1, now() + interval '1.5 s') RETURNING name, holder, term`).
		Scan(&old.Name, &old.Holder, &old.Number)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var took time.Duration
	err = d.DB.InLeader(t.Context(), old, func(tx *postgres.Tx) error {
		if err := stamp(t.Context(), tx, "by-the-paused"); err != nil {
			return err
		}
		l, _ := stand(t, other, "two") // and now nothing is heard of the old one
		pgtest.Eventually(t, "the successor leads", func() bool { return leads(l) })
		took = time.Since(began)
		return l.In(t.Context(), func(tx *postgres.Tx) error { return stamp(t.Context(), tx, "by-the-new") })
	})
	if err == nil {
		t.Error("the paused leader's transaction committed")
	}
	if n := pools(t, d); n != 1 {
		t.Errorf("%d writes were kept, want the new leader's alone", n)
	}
	t.Logf("take-over from a leader paused in a transaction took %s", took)
	if err := d.DB.InLeader(t.Context(), old, func(tx *postgres.Tx) error { return stamp(t.Context(), tx, "late") }); !errors.Is(err, postgres.ErrNotLeader) {
		t.Errorf("awake again, the old leader's next transaction gives %v", err)
	}
}

// Transactions that follow one another without a gap must not starve the
// renewal of the very term they check.
func TestRenewalPassesRunningTransactions(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	ready(t, d.DB)
	l, _ := stand(t, d.DB, "one")
	pgtest.Eventually(t, "it leads", func() bool { return leads(l) })
	term, _ := l.Term()
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // longer than a lease
	defer cancel()
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() {
			for ctx.Err() == nil {
				err := l.In(ctx, func(tx *postgres.Tx) error {
					_, err := tx.Exec(ctx, `SELECT pg_sleep(0.2)`)
					return err
				})
				if err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if now, ok := l.Term(); !ok || now != term {
		t.Errorf("term %v became %v (leading: %v)", term, now, ok)
	}
}
