package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Census counts what there is, for metrics: numbers only, no names.
type Census struct {
	Queue      int           // instances that want a place
	OldestWait time.Duration // of the first of them
	Instances  map[cloud.InstanceState]int
	Nodes      map[cloud.NodeState]int
	Drained    int // nodes, whatever their state
	Cards      []CensusCards
	Alarms     map[string]int // open ones by severity
}

// CensusCards are the cards of one mode and state; those that are ready are what
// Capacity calls healthy, and of a node that does not answer nothing is known.
type CensusCards struct {
	Mode      cloud.GPUMode
	State     cloud.GPUState
	Cards     int
	Slots     int // that they are cut into, in this mode
	SlotsUsed int
}

// CensusTake counts in one round trip, as tenon_system.
func CensusTake(ctx context.Context, q Querier) (Census, error) {
	out := Census{Instances: map[cloud.InstanceState]int{}, Nodes: map[cloud.NodeState]int{}, Alarms: map[string]int{}}
	var b pgx.Batch
	b.Queue(`
		SELECT count(*), COALESCE(extract(epoch FROM clock_timestamp() - min(queued_at)), 0)::float8
		FROM instance WHERE state = 'queued' AND desired_state = 'running'`).QueryRow(func(row pgx.Row) error {
		var seconds float64
		err := row.Scan(&out.Queue, &seconds)
		out.OldestWait = max(0, time.Duration(seconds*float64(time.Second)))
		return err
	})
	b.Queue(`SELECT state, count(*) FROM instance WHERE state <> 'deleted' GROUP BY state`).Query(tally(out.Instances))
	b.Queue(`SELECT state, count(*) FROM node WHERE forgotten_at IS NULL GROUP BY state`).Query(tally(out.Nodes))
	b.Queue(`SELECT count(*) FROM node WHERE drained AND forgotten_at IS NULL`).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Drained) })
	b.Queue(`
		SELECT g.mode, ` + gpuState + ` AS state, count(*) AS cards,
			COALESCE(sum(CASE WHEN g.mode = 'mig' AND g.geometry = 'mig4' THEN 4 ELSE 8 END), 0)::int AS slots,
			COALESCE(sum(k.slots), 0)::int AS slots_used
		FROM gpu g JOIN node n ON n.id = g.node_id AND n.forgotten_at IS NULL
		LEFT JOIN (SELECT gpu_id, sum(upper(slots) - lower(slots)) AS slots FROM gpu_claim GROUP BY gpu_id) k ON k.gpu_id = g.id
		WHERE ` + notGhost + `
		GROUP BY 1, 2 ORDER BY 1, 2`).Query(func(rows pgx.Rows) (err error) {
		out.Cards, err = pgx.CollectRows(rows, pgx.RowToStructByName[CensusCards])
		return err
	})
	b.Queue(`SELECT severity, count(*) FROM alarm WHERE cleared_at IS NULL GROUP BY severity`).Query(tally(out.Alarms))
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return out, fmt.Errorf("take the census: %w", err)
	}
	return out, nil
}

// tally reads rows of a word and how often it is there.
func tally[K ~string](into map[K]int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var word K
		var n int
		_, err := pgx.ForEachRow(rows, []any{&word, &n}, func() error {
			into[word] = n
			return nil
		})
		return err
	}
}
