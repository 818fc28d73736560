package postgres

import (
	"context"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const eventSQL = `
	INSERT INTO event (id, org_id, project_id, resource, resource_id, seq, verb, message, at, data)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

func eventArgs(e cloud.Event, resource uuid.UUID) []any {
	data := e.Data
	if data == nil {
		data = map[string]any{}
	}
	return []any{e.ID, e.OrgID, e.ProjectID, e.Resource, resource, e.Seq, e.Verb, e.Message, e.At, data}
}

// Place is where an event stands in its project's stream. Transactions commit
// in another order than they draw numbers, so a place has both the transaction
// and the number, and readers stop before the oldest that still runs.
type Place struct {
	Xid    uint64
	Cursor int64
}

// Less orders places.
func (p Place) Less(o Place) bool {
	return p.Xid < o.Xid || p.Xid == o.Xid && p.Cursor < o.Cursor
}

// PlacedEvent is an event with its place.
type PlacedEvent struct {
	cloud.Event
	Place Place
}

const eventColumns = `xid::text::bigint, cursor, id, org_id, project_id, resource, resource_id, seq, verb, message, at, data`

func eventScan(row pgx.CollectableRow) (e PlacedEvent, err error) {
	var xid int64
	var resource uuid.UUID
	err = row.Scan(&xid, &e.Cursor, &e.ID, &e.OrgID, &e.ProjectID, &e.Resource, &resource, &e.Seq, &e.Verb, &e.Message, &e.At, &e.Data)
	e.Place = Place{uint64(xid), e.Cursor}
	e.ResourceID = resource.String()
	switch e.Resource {
	case "instance":
		e.ResourceID = cloud.InstanceID(resource).String()
	case "job":
		e.ResourceID = cloud.JobID(resource).String()
	}
	return e, err
}

// EventListOf lists a resource's events, newest first, before one.
func EventListOf(ctx context.Context, q Querier, resource uuid.UUID, before *cloud.EventID, limit int) ([]PlacedEvent, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+eventColumns+` FROM event
		WHERE resource_id = $1 AND ($2::uuid IS NULL OR seq < (SELECT e.seq FROM event e WHERE e.id = $2)) ORDER BY seq DESC LIMIT $3`, resource, before, limit)
	out, err := pgx.CollectRows(rows, eventScan)
	return out, wrap("list events", err)
}

// EventsAfter reads a project's stream after a place, as far as it is certain:
// no event that is committed later stands before what was given.
func EventsAfter(ctx context.Context, q Querier, project cloud.ProjectID, after Place, limit int) ([]PlacedEvent, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+eventColumns+` FROM event
		WHERE project_id = $1 AND (xid, cursor) > ($2::text::xid8, $3)
			AND xid < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY xid, cursor LIMIT $4`, project, strconv.FormatUint(after.Xid, 10), after.Cursor, limit)
	out, err := pgx.CollectRows(rows, eventScan)
	return out, wrap("read events", err)
}

// EventsEnd is the place after everything that is certain now.
func EventsEnd(ctx context.Context, q Querier) (Place, error) {
	var xmin int64
	err := q.QueryRow(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint`).Scan(&xmin)
	if err != nil {
		return Place{}, wrap("find the end of the stream", err)
	}
	// Nothing older than xmin is still to come, and nothing of xmin was given.
	return Place{Xid: uint64(xmin) - 1, Cursor: 1<<63 - 1}, nil
}
