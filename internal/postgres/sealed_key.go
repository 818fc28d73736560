package postgres

import (
	"context"
	"time"
)

// SealedKey is a key under the master key.
type SealedKey struct {
	Name       string
	Kind       string
	Public     []byte
	Ciphertext []byte
	CreatedAt  time.Time
}

// SealedKeyList lists those in use, oldest first, as tenon_system.
func SealedKeyList(ctx context.Context, q Querier) ([]SealedKey, error) {
	rows, _ := q.Query(ctx, `SELECT name, kind, public, ciphertext, created_at FROM sealed_key WHERE retired_at IS NULL ORDER BY created_at, name`)
	return all[SealedKey](rows, "list keys")
}

// SealedKeyAdd keeps a key, unless one of its name is there.
func SealedKeyAdd(ctx context.Context, q Querier, k SealedKey) error {
	_, err := q.Exec(ctx, `INSERT INTO sealed_key (name, kind, public, ciphertext) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		k.Name, k.Kind, k.Public, k.Ciphertext)
	return wrap("keep key", err)
}

// CloudState is which cloud this is.
type CloudState struct {
	CloudID string
	Era     string // UUIDv7; a restored database gets a new one
}

// CloudGet reads the cloud's own row.
func CloudGet(ctx context.Context, q Querier) (CloudState, error) {
	rows, _ := q.Query(ctx, `SELECT cloud_id, era::text AS era FROM cloud_state`)
	return one[CloudState](rows, "read the cloud's row")
}

// RestoredAt is when the cloud was restored from a backup; nil: it never was.
func RestoredAt(ctx context.Context, q Querier) (at *time.Time, err error) {
	err = q.QueryRow(ctx, `SELECT restored_at FROM cloud_state`).Scan(&at)
	if Missing(err) {
		err = nil
	}
	return at, wrap("read the cloud's row", err)
}
