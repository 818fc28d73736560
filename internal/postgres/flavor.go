package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const flavorColumns = `id, name, description, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_at, retired_at`

func flavorScan(row pgx.CollectableRow) (f cloud.Flavor, err error) {
	s := &f.Shape
	err = row.Scan(&f.ID, &f.Name, &f.Description, &s.GPUCount, &s.GPUModel, &s.GPUMode, &s.GPUProfile, &s.VCPU, &s.MemoryMiB, &s.DiskMiB, &f.CreatedAt, &f.RetiredAt)
	return f, err
}

// FlavorList lists what is offered, by name.
func FlavorList(ctx context.Context, q Querier) ([]cloud.Flavor, error) {
	rows, _ := q.Query(ctx, `SELECT `+flavorColumns+` FROM flavor WHERE retired_at IS NULL ORDER BY name`)
	out, err := pgx.CollectRows(rows, flavorScan)
	return out, wrap("list flavors", err)
}

// FlavorGet finds one that is offered.
func FlavorGet(ctx context.Context, q Querier, ref Ref) (cloud.Flavor, error) {
	rows, _ := q.Query(ctx, flavorGetSQL, ref.ID, ref.Name)
	out, err := pgx.CollectExactlyOneRow(rows, flavorScan)
	return out, wrap("get flavor", err)
}

const flavorGetSQL = `SELECT ` + flavorColumns + ` FROM flavor WHERE retired_at IS NULL AND (id = $1 OR name = $2)`

// FlavorAdd inserts one.
func FlavorAdd(ctx context.Context, q Querier, f cloud.Flavor) error {
	s := f.Shape
	_, err := q.Exec(ctx, `
		INSERT INTO flavor (id, name, description, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		f.ID, f.Name, f.Description, s.GPUCount, s.GPUModel, s.GPUMode, s.GPUProfile, s.VCPU, s.MemoryMiB, s.DiskMiB, f.CreatedAt)
	return wrap("add flavor", err)
}

// FlavorRetire takes an offer back; instances keep the shape that they copied.
func FlavorRetire(ctx context.Context, q Querier, ref Ref, at time.Time) (cloud.Flavor, error) {
	rows, _ := q.Query(ctx, `UPDATE flavor SET retired_at = $3 WHERE retired_at IS NULL AND (id = $1 OR name = $2) RETURNING `+flavorColumns, ref.ID, ref.Name, at)
	out, err := pgx.CollectExactlyOneRow(rows, flavorScan)
	return out, wrap("retire flavor", err)
}
