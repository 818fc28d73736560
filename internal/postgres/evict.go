package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// stuckFor is how long a transaction of a process that no longer renews its
	// lease may sit still before it is ended.
	stuckFor = 700 * time.Millisecond
	// evictFor is how long after a take-over that is looked for: what waited for a
	// lock of an ended transaction gets it, and then sits still itself.
	evictFor = 5 * time.Second
)

// evict ends the transactions that a process which lost its lease keeps open:
// one that was stopped in the middle would hold its rows, the leader's among
// them, until the server's own time-out. Each role may end its own sessions.
func (db *DB) evict(ctx context.Context, holder string) error {
	for _, pool := range []*pgxpool.Pool{db.system, db.api, db.node} {
		_, err := pool.Exec(ctx, `
			SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
			WHERE a.application_name = $1 AND a.usename = current_user AND a.pid <> pg_backend_pid()
				AND (a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - $2::interval
					OR a.wait_event_type = 'Lock' AND a.query_start < clock_timestamp() - $2::interval
					OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.relation = 'leader'::regclass AND l.mode = 'RowShareLock' AND l.granted))`,
			applicationName(holder), stuckFor)
		if err != nil {
			return fmt.Errorf("end the transactions of %s: %w", holder, err)
		}
	}
	return nil
}

// applicationName is what the server calls a process's sessions; it keeps 63
// bytes.
func applicationName(process string) string {
	name := "tenon"
	if process != "" {
		name += " " + process
	}
	return name[max(0, len(name)-63):]
}
