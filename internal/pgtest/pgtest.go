// Package pgtest gives each test its own real Postgres database: a private
// server per test process on a Unix socket, with durability off, and a clone of
// a migrated template per test. Tests only; nothing in production imports it.
package pgtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Database is a test's own database.
type Database struct {
	DB    *postgres.DB
	Owner *pgxpool.Pool // owns the tables and sees everything: for set-up and for looking
	Name  string
	DSN   string // without a user
}

var running struct {
	sync.Once
	server *server
	err    error
	count  atomic.Int64
	clone  sync.Mutex // Postgres copies a template for one client at a time
}

func theServer(t testing.TB) *server {
	t.Helper()
	running.Do(func() { running.server, running.err = start() })
	if running.err != nil {
		t.Fatalf("pgtest: %v", running.err)
	}
	return running.server
}

// New clones the migrated template and opens its pools; the test's end drops it.
func New(t testing.TB) *Database {
	t.Helper()
	s := theServer(t)
	ctx := context.Background()
	d := &Database{Name: fmt.Sprintf("t%d", running.count.Add(1))}
	d.DSN = s.dsn(d.Name)
	if err := s.clone(ctx, d.Name); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	var err error
	if d.Owner, err = pgxpool.New(ctx, s.dsn(d.Name)+" user=tenon_owner pool_max_conns=8"); err != nil {
		t.Fatalf("pgtest: open as the owner: %v", err)
	}
	if d.DB, err = postgres.Open(ctx, postgres.Config{DSN: d.DSN}); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		d.DB.Close()
		d.Owner.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.exec(ctx, "DROP DATABASE "+d.Name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop %s: %v", d.Name, err)
		}
	})
	return d
}

// Tx gives a transaction, as the tables' owner, that the test's end rolls back:
// the cheapest database, for a test that needs no commit.
func Tx(t testing.TB) pgx.Tx {
	t.Helper()
	s := theServer(t)
	ctx := context.Background()
	pool, err := s.shared(ctx)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatalf("pgtest: begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// Eventually waits until ok holds, and fails the test after ten seconds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within ten seconds: %s", what)
		case <-tick.C:
		}
	}
}
