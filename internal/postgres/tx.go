package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Tx is a transaction. Inside the closure that gets it, nothing else of the
// database is touched.
type Tx struct {
	pgx.Tx
	wakes []string
}

// Wake marks a topic; whoever waits for it is woken once the transaction has
// committed, and not at all if it hasn't.
func (t *Tx) Wake(topic string) { t.wakes = append(t.wakes, topic) }

// InAPI runs f in a transaction of tenon_api, for one scope.
func (db *DB) InAPI(ctx context.Context, s Scope, f func(tx *Tx) error) error {
	return db.in(ctx, db.api, s.begin(), f)
}

// InSystem runs f in a transaction of tenon_system, which sees every tenant.
func (db *DB) InSystem(ctx context.Context, f func(tx *Tx) error) error {
	return db.in(ctx, db.system, "BEGIN", f)
}

// InNode runs f in a transaction of tenon_node, which sees one node's own rows.
func (db *DB) InNode(ctx context.Context, n cloud.NodeID, f func(tx *Tx) error) error {
	return db.in(ctx, db.node, nodeBegin(n), f)
}

// InNodeSnapshot reads as InNode does, with everything as of one moment. The
// level is set as the transaction begins: pgx may prepare statements first, and
// that counts as a query.
func (db *DB) InNodeSnapshot(ctx context.Context, n cloud.NodeID, f func(tx *Tx) error) error {
	return db.in(ctx, db.node, strings.Replace(nodeBegin(n), "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", 1), f)
}

// maxTries bounds how often a transaction is run again after it lost a race.
const maxTries = 12

// in runs f in a transaction and runs it again when it lost a race, so f may
// run more than once and changes nothing outside but its own results.
func (db *DB) in(ctx context.Context, pool *pgxpool.Pool, begin string, f func(tx *Tx) error) error {
	return db.again(ctx, func() ([]string, error) { return once(ctx, pool, begin, f) })
}

// again runs a transaction until it has not lost a race, and then marks the
// topics that it gives.
func (db *DB) again(ctx context.Context, f func() ([]string, error)) error {
	for try := 1; ; try++ {
		wakes, err := f()
		if err == nil {
			db.wakes.mark(wakes...)
			return nil
		}
		if !lostRace(err) || try == maxTries {
			return away(ctx, noText(err))
		}
		if err := backOff(ctx, try); err != nil {
			return err
		}
	}
}

func once(ctx context.Context, pool *pgxpool.Pool, begin string, f func(tx *Tx) error) ([]string, error) {
	ptx, err := pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	// After a commit this does nothing; a caller that has gone, or a panic, must
	// not leave the transaction open.
	defer func() { _ = ptx.Rollback(context.WithoutCancel(ctx)) }()
	tx := &Tx{Tx: ptx}
	if err := f(tx); err != nil {
		return nil, err
	}
	if err := ptx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit transaction: %w", err)
	}
	return tx.wakes, nil
}

// lostRace reports a serialisation failure or a deadlock: the database asks to
// try again.
func lostRace(err error) bool {
	code := Code(err)
	return code == "40001" || code == "40P01"
}

// Code is the SQLSTATE of an error, or empty.
func Code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Constraint is the name of the constraint or index that refused a row, or
// empty.
func Constraint(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.ConstraintName
	}
	return ""
}

// Missing reports that a query for one row found none.
func Missing(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// PipeAPI sends a whole transaction of tenon_api as one message and commits
// with it: one round trip. What must hold, the database refuses by itself, since
// nothing here can look at one answer before it asks the next question.
func (db *DB) PipeAPI(ctx context.Context, s Scope, wakes []string, fill func(b *pgx.Batch)) error {
	operator := ""
	if s.Operator {
		operator = "on"
	}
	org := ""
	if !s.Org.IsZero() {
		org = s.Org.UUID().String()
	}
	return db.again(ctx, func() ([]string, error) {
		b := &pgx.Batch{}
		// Plans are kept: with a name or an id that is null, the server would take
		// each time's own plan for a better one, and planning costs more than it saves.
		b.Queue(`SELECT set_config('tenon.org', $1, true), set_config('tenon.operator', $2, true), set_config('plan_cache_mode', 'force_generic_plan', true)`, org, operator)
		fill(b)
		return wakes, db.api.SendBatch(ctx, b).Close()
	})
}

func backOff(ctx context.Context, try int) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("retry transaction: %w", context.Cause(ctx))
	case <-time.After(time.Duration(rand.Int64N(int64(2*time.Millisecond) << min(try, 5)))):
		return nil
	}
}
