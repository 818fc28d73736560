package postgres

import "context"

// Figures is what cards of a model, or slices of a profile of them, have at least,
// as their drivers tell it.
type Figures struct {
	Model     string
	Profile   string // class; "whole"
	MemoryMiB int64
	SMs       int `db:"sms"` // 0: not told
}

// GPUFigures reads them for every model that there is. Anyone may ask: it tells of
// no tenant.
func GPUFigures(ctx context.Context, q Querier) ([]Figures, error) {
	rows, _ := q.Query(ctx, `SELECT model, profile, memory_mib, sms FROM gpu_figures() ORDER BY model, profile`)
	return all[Figures](rows, "read what GPUs have")
}
