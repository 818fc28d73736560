package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Notebook is a running one, as far as its idleness goes.
type Notebook struct {
	ID          cloud.InstanceID
	ProjectID   cloud.ProjectID
	Activity    *nodewire.Activity // as its node said last of this placement; nil: not known
	Age         time.Duration      // of that word
	StopSeconds *int
	WarnSeconds int
	IdleSince   *time.Time
	WarnedAt    *time.Time
}

const notebookSelect = `
	SELECT i.id, i.project_id, o.activity, COALESCE(clock_timestamp() - o.received_at, '1 day'), p.idle_stop_seconds, p.idle_warn_seconds, i.idle_since, i.idle_warned_at
	FROM instance i JOIN project p ON p.id = i.project_id
	LEFT JOIN observation o ON o.instance_id = i.id AND o.node_id = i.node_id AND o.epoch = i.epoch AND o.state = 'running'
	WHERE i.kind = 'notebook' AND i.state = 'running'`

// NotebooksRunning lists all that run and are to, with the time by the database's
// clock.
func NotebooksRunning(ctx context.Context, q Querier) (list []Notebook, now time.Time, err error) {
	rows, err := q.Query(ctx, notebookSelect+` AND i.desired_state = 'running' ORDER BY i.id`)
	if err != nil {
		return nil, now, fmt.Errorf("list notebooks: %w", err)
	}
	if list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Notebook]); err != nil {
		return nil, now, fmt.Errorf("list notebooks: %w", err)
	}
	now, err = Now(ctx, q)
	return list, now, err
}

// NotebookGet reads one under its lock; the zero one when it is none that runs.
func NotebookGet(ctx context.Context, q Querier, id cloud.InstanceID) (Notebook, error) {
	rows, _ := q.Query(ctx, notebookSelect+` AND i.id = $1`, id)
	out, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Notebook])
	if Missing(err) {
		return Notebook{}, nil
	}
	return out, wrap("read a notebook", err)
}

// IdleSave keeps since when a locked notebook is idle, and when that was said.
func IdleSave(ctx context.Context, q Querier, id cloud.InstanceID, since, warned *time.Time) error {
	_, err := q.Exec(ctx, `UPDATE instance SET idle_since = $2, idle_warned_at = $3 WHERE id = $1`, id, since, warned)
	return wrap("keep a notebook's idleness", err)
}
