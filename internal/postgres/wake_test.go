package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// another opens a second handle on the test's database, as another process would.
func another(t *testing.T, d *pgtest.Database) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: d.DSN})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func ready(t *testing.T, dbs ...*postgres.DB) {
	t.Helper()
	for _, db := range dbs {
		select {
		case <-db.WakesReady():
		case <-time.After(10 * time.Second):
			t.Fatal("the listener is not up within ten seconds")
		}
	}
}

func drain(ch <-chan struct{}) {
	select {
	case <-ch:
	default:
	}
}

func woken(t *testing.T, ch <-chan struct{}, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-ch:
		return time.Since(began)
	case <-time.After(within):
		t.Fatalf("not woken within %s", within)
		return 0
	}
}

func commit(t *testing.T, db *postgres.DB, topics ...string) {
	t.Helper()
	err := db.InSystem(t.Context(), func(tx *postgres.Tx) error {
		for _, topic := range topics {
			tx.Wake(topic)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWakeReachesThisAndOtherProcesses(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	other := another(t, d)
	ready(t, d.DB, other)
	here, endHere := d.DB.Wakes(postgres.TopicSchedule)
	there, endThere := other.Wakes(postgres.TopicSchedule)
	defer endHere()
	defer endThere()
	var local, remote []time.Duration
	for range 30 {
		drain(here)
		drain(there)
		commit(t, d.DB, postgres.TopicSchedule)
		began := time.Now()
		local = append(local, woken(t, here, 5*time.Second))
		woken(t, there, 5*time.Second)
		remote = append(remote, time.Since(began))
	}
	slices.Sort(local)
	slices.Sort(remote)
	t.Logf("from commit to wake-up: here median %s max %s, another process median %s max %s", local[15], local[29], remote[15], remote[29])
}

func TestWakeOnlyAfterCommit(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	ready(t, d.DB)
	ch, end := d.DB.Wakes("meter")
	defer end()
	drain(ch)
	failed := fmt.Errorf("no")
	err := d.DB.InSystem(t.Context(), func(tx *postgres.Tx) error {
		tx.Wake("meter")
		if len(ch) != 0 {
			t.Error("woken inside the transaction")
		}
		return failed
	})
	if err != failed || len(ch) != 0 {
		t.Errorf("after a rollback: err %v, %d wake-ups", err, len(ch))
	}
}

func TestWakeIsNotifiedAtMostEveryTenMilliseconds(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	ready(t, d.DB)
	conn, err := d.Owner.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "LISTEN tenon_wake"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 300 {
		commit(t, d.DB, "schedule", "meter")
	}
	took := time.Since(began)
	commit(t, d.DB, "last")
	n := 0
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		note, err := conn.Conn().WaitForNotification(ctx)
		cancel()
		if err != nil {
			t.Fatalf("the last mark was never notified: %v", err)
		}
		n++
		if slices.Contains(strings.Fields(note.Payload), "last") {
			break
		}
	}
	if most := int(took/(10*time.Millisecond)) + 3; n > most {
		t.Errorf("%d notifications for 301 commits in %s, want at most %d", n, took, most)
	}
}

func TestWakesSurviveALostConnection(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	other := another(t, d)
	ready(t, d.DB, other)
	ch, end := other.Wakes("schedule")
	defer end()
	drain(ch)
	// Every listener and sender loses its connection; what was missed meanwhile
	// is made up for by waking everyone.
	err := d.DB.InSystem(t.Context(), func(tx *postgres.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	woken(t, ch, 10*time.Second)
	pgtest.Eventually(t, "a commit wakes the other process again", func() bool {
		drain(ch)
		err := d.DB.InSystem(t.Context(), func(tx *postgres.Tx) error { tx.Wake("schedule"); return nil })
		if err != nil {
			return false
		}
		select {
		case <-ch:
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
}

// Marks without bound cost bounded memory: beyond a limit everybody is woken.
func TestTooManyTopicsWakeEveryone(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t)
	other := another(t, d)
	ready(t, d.DB, other)
	ch, end := other.Wakes("unrelated")
	defer end()
	drain(ch)
	topics := make([]string, 5000)
	for i := range topics {
		topics[i] = fmt.Sprintf("node:%d", i)
	}
	commit(t, d.DB, topics...)
	woken(t, ch, 5*time.Second)
}
