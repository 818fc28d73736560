package postgres

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Price is one version of a price.
type Price struct {
	ID            cloud.PriceID
	SKU           string
	Currency      string
	MicrosPerHour int64
	StartsAt      time.Time
}

// PriceList lists every version, by SKU and start.
func PriceList(ctx context.Context, q Querier) ([]Price, error) {
	rows, _ := q.Query(ctx, `SELECT id, sku, currency, micros_per_hour, starts_at FROM price ORDER BY sku, starts_at`)
	return all[Price](rows, "list prices")
}

// PriceAdd inserts a version.
func PriceAdd(ctx context.Context, q Querier, p Price) error {
	_, err := q.Exec(ctx, `INSERT INTO price (id, sku, currency, micros_per_hour, starts_at) VALUES ($1, $2, $3, $4, $5)`,
		p.ID, p.SKU, p.Currency, p.MicrosPerHour, p.StartsAt)
	return wrap("add price", err)
}
