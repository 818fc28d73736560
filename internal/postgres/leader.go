package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	leaseFor   = 1500 * time.Millisecond
	leaseRenew = 400 * time.Millisecond
	leaseTry   = 100 * time.Millisecond
	// A leader that is paused inside a transaction must not keep the row from
	// its successor: the server ends such a session.
	leaderIdleMS = "1000"
)

// ErrNotLeader says that a term is over: nothing of the transaction was kept.
var ErrNotLeader = errors.New("this process does not lead")

// Term is one holder's time as the leader of a name (decision 4). Every
// transaction of that time checks it.
type Term struct {
	Name   string
	Holder string
	Number int64
}

// InLeader is InSystem for a leader. Its first statement locks the leader's row
// against a successor: a term that is over commits nothing, and no successor
// begins while a transaction of this term can still commit.
//
// The lock is FOR KEY SHARE, the share lock that the holder's own renewal (an
// update of no key) passes; a successor takes FOR UPDATE, which waits for it.
func (db *DB) InLeader(ctx context.Context, term Term, fn func(tx *Tx) error) error {
	return db.InSystem(ctx, func(tx *Tx) error {
		if err := leaderCheck(ctx, tx, term); err != nil {
			return err
		}
		return fn(tx)
	})
}

func leaderCheck(ctx context.Context, tx *Tx, term Term) error {
	var batch pgx.Batch
	batch.Queue(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, leaderIdleMS)
	batch.Queue(`
		SELECT FROM leader
		WHERE name = $1 AND holder = $2 AND term = $3 AND expires_at > clock_timestamp()
		FOR KEY SHARE`, term.Name, term.Holder, term.Number)
	results := tx.SendBatch(ctx, &batch)
	_, err := results.Exec()
	held := int64(0)
	if err == nil {
		tag, e := results.Exec()
		held, err = tag.RowsAffected(), e
	}
	if e := results.Close(); err == nil {
		err = e
	}
	switch {
	case err != nil:
		return fmt.Errorf("check the term of leader %s: %w", term.Name, err)
	case held == 0:
		return ErrNotLeader
	}
	return nil
}

// Leadership stands for election to one name for as long as Run runs.
//
//	follow ──row expired or released──► lead ──renewed──► lead
//	   ▲                                 │ renewal refused, or none within the lease
//	   └─────────────────────────────────┘
type Leadership struct {
	db     *DB
	name   string
	holder string
	log    *slog.Logger

	mu        sync.Mutex
	term      Term
	since     time.Time // when the term began
	ousted    string    // whom we followed; touched by Run alone
	oustUntil time.Time // we end what it left open until then
	until     time.Time // by our own monotonic clock, from before the row was written
}

// Leadership makes a candidate; holder must differ between processes.
func (db *DB) Leadership(name, holder string, log *slog.Logger) *Leadership {
	return &Leadership{db: db, name: name, holder: holder, log: log}
}

// Term gives the present term; false while another leads. A true answer may be
// stale by the time it is used, which is why InLeader checks it.
func (l *Leadership) Term() (Term, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, l.term.Number != 0 && time.Now().Before(l.until)
}

// Lead reports whether this process leads now; it is what package loop asks.
func (l *Leadership) Lead(context.Context) (bool, error) {
	_, ok := l.Term()
	return ok, nil
}

// Since is when the present term began; zero while another leads.
func (l *Leadership) Since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}

// In runs a transaction of the present term.
func (l *Leadership) In(ctx context.Context, fn func(tx *Tx) error) error {
	term, ok := l.Term()
	if !ok {
		return ErrNotLeader
	}
	return l.db.InLeader(ctx, term, fn)
}

// Run stands for election until ctx ends, and then releases the row, so that a
// successor need not wait for the lease.
func (l *Leadership) Run(ctx context.Context) error {
	released, unsubscribe := l.db.Wakes(l.topic())
	defer unsubscribe()
	defer l.release(ctx)
	for {
		pause := leaseRenew
		if err := l.step(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("renew leadership", "name", l.name, "error", err)
			pause = leaseTry
		}
		if _, leading := l.Term(); !leading {
			pause = leaseTry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-released:
		case <-time.After(pause):
		}
	}
}

func (l *Leadership) topic() string { return "leader:" + l.name }

// step renews the term, or begins one if nobody's is valid.
func (l *Leadership) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseFor)
	defer cancel()
	began := time.Now()
	term, leading := l.Term()
	// Single statements, each its own transaction: one that is paused between two
	// would keep the row from its successor.
	var number int64
	var err error
	if leading {
		number, err = leaderRenew(ctx, l.db.system, term)
	}
	if number == 0 && err == nil {
		if err := l.oust(ctx); err != nil {
			return err
		}
		number, err = leaderTake(ctx, l.db.system, l.name, l.holder)
	}
	if err != nil {
		return err // the term stands until the lease is over
	}
	l.set(Term{Name: l.name, Holder: l.holder, Number: number}, began.Add(leaseFor))
	if number != 0 && time.Now().Before(l.oustUntil) {
		return l.db.evict(ctx, l.ousted)
	}
	return nil
}

// oust ends what a holder whose lease is over still keeps locked.
func (l *Leadership) oust(ctx context.Context) error {
	var holder string
	err := l.db.system.QueryRow(ctx, `SELECT holder FROM leader WHERE name = $1 AND `+leaseOver, l.name, leaseFor.Milliseconds()).Scan(&holder)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look at the leader %s: %w", l.name, err)
	case holder == "" || holder == l.holder:
		return nil
	}
	l.ousted, l.oustUntil = holder, time.Now().Add(evictFor)
	return l.db.evict(ctx, holder)
}

func (l *Leadership) set(term Term, until time.Time) {
	l.mu.Lock()
	old := l.term
	l.term, l.until = term, until
	if term.Number != old.Number {
		l.since = time.Time{}
		if term.Number != 0 {
			l.since = time.Now()
		}
	}
	l.mu.Unlock()
	switch {
	case term.Number == old.Number:
	case term.Number != 0:
		l.log.Info("leadership began", "name", l.name, "term", term.Number)
		l.db.wakes.wakeEveryone() // the loops begin at once
	default:
		l.log.Info("leadership ended", "name", l.name, "term", old.Number)
	}
}

func (l *Leadership) release(ctx context.Context) {
	term, leading := l.Term()
	l.set(Term{}, time.Time{})
	if !leading {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseFor)
	defer cancel()
	err := l.db.InSystem(ctx, func(tx *Tx) error {
		tx.Wake(l.topic())
		_, err := tx.Exec(ctx, `UPDATE leader SET expires_at = 'epoch' WHERE name = $1 AND holder = $2 AND term = $3`,
			term.Name, term.Holder, term.Number)
		return err
	})
	if err != nil {
		l.log.Warn("release leadership", "name", l.name, "error", err)
	}
}

func leaderRenew(ctx context.Context, q Querier, term Term) (int64, error) {
	tag, err := q.Exec(ctx, `
		UPDATE leader SET expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond'
		WHERE name = $1 AND holder = $2 AND term = $3 AND expires_at > clock_timestamp()`,
		term.Name, term.Holder, term.Number, leaseFor.Milliseconds())
	if err != nil || tag.RowsAffected() == 0 {
		return 0, err
	}
	return term.Number, nil
}

// leaseOver is a lease that nobody has renewed, $2 being its milliseconds. One
// that lasts longer than any was given is from before the clock was set back;
// its holder, if it lives, renews it in a moment.
const leaseOver = `(expires_at <= clock_timestamp() OR expires_at > clock_timestamp() + 2 * $2::bigint * interval '1 millisecond')`

// leaderTake begins a term if nobody's is valid; 0 means that somebody's is.
func leaderTake(ctx context.Context, q Querier, name, holder string) (int64, error) {
	if _, err := q.Exec(ctx, `INSERT INTO leader (name, holder, term, expires_at) VALUES ($1, '', 0, 'epoch') ON CONFLICT DO NOTHING`, name); err != nil {
		return 0, err
	}
	var number int64
	err := q.QueryRow(ctx, `
		WITH free AS (
			SELECT name FROM leader WHERE name = $1 AND `+leaseOver+` FOR UPDATE
		)
		UPDATE leader l SET holder = $3, term = term + 1, expires_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
		FROM free WHERE l.name = free.name
		RETURNING term`, name, leaseFor.Milliseconds(), holder).Scan(&number)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return number, err
}
