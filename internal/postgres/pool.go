package postgres

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// PoolList lists by name.
func PoolList(ctx context.Context, q Querier) ([]cloud.Pool, error) {
	rows, _ := q.Query(ctx, `SELECT id, name, simulated FROM pool ORDER BY name`)
	return all[cloud.Pool](rows, "list pools")
}

const poolGetSQL = `SELECT id, name, simulated FROM pool WHERE id = $1 OR name = $2`

// PoolGet finds one.
func PoolGet(ctx context.Context, q Querier, ref Ref) (cloud.Pool, error) {
	rows, _ := q.Query(ctx, poolGetSQL, ref.ID, ref.Name)
	return one[cloud.Pool](rows, "get pool")
}

// PoolAdd inserts one, as tenon_system.
func PoolAdd(ctx context.Context, q Querier, p cloud.Pool) error {
	_, err := q.Exec(ctx, `INSERT INTO pool (id, name, simulated) VALUES ($1, $2, $3)`, p.ID, p.Name, p.Simulated)
	return wrap("add pool", err)
}
