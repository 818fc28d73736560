package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// AdmissionRefs is what a create names.
type AdmissionRefs struct {
	Org     cloud.OrgID
	Actor   uuid.UUID
	Key     string // idempotency key; empty: none
	Project Ref
	Image   Ref
	Flavor  Ref
	Pool    Ref
}

// AdmissionFound is what of it there is; nil is missing or not to be seen.
type AdmissionFound struct {
	Now      time.Time
	Answered *Idempotency
	Project  *cloud.Project
	Image    *Image
	Flavor   *cloud.Flavor
	Pool     *cloud.Pool
}

// AdmissionLookup finds everything that a create names in one round trip.
func AdmissionLookup(ctx context.Context, db *DB, s Scope, r AdmissionRefs) (AdmissionFound, error) {
	var out AdmissionFound
	err := db.PipeAPI(ctx, s, nil, func(b *pgx.Batch) {
		b.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Now) })
		if r.Key != "" {
			b.Queue(`SELECT operation, request_hash, response FROM idempotency WHERE org_id = $1 AND actor_id = $2 AND key = $3`, r.Org, r.Actor, r.Key).
				Query(maybe(&out.Answered, func(row pgx.CollectableRow) (i Idempotency, err error) {
					i.Key = r.Key
					err = row.Scan(&i.Operation, &i.RequestHash, &i.Response)
					return i, err
				}))
		}
		b.Queue(`SELECT `+projectColumns+` FROM project WHERE org_id = $1 AND (id = $2 OR name = $3)`, r.Org, r.Project.ID, r.Project.Name).
			Query(maybe(&out.Project, pgx.RowToStructByName[cloud.Project]))
		b.Queue(imageGetSQL, r.Org, OfferedOrg, r.Image.ID, r.Image.Name).Query(maybe(&out.Image, imageScan))
		b.Queue(flavorGetSQL, r.Flavor.ID, r.Flavor.Name).Query(maybe(&out.Flavor, flavorScan))
		b.Queue(poolGetSQL, r.Pool.ID, r.Pool.Name).Query(maybe(&out.Pool, pgx.RowToStructByName[cloud.Pool]))
	})
	return out, wrap("look up what a create names", err)
}

// maybe keeps the one row of a query, if it has one.
func maybe[T any](out **T, scan pgx.RowToFunc[T]) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, scan)
		*out = nil
		if len(list) > 0 {
			*out = &list[0]
		}
		return err
	}
}
