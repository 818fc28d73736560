package cloudtest

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// keyStore keeps sealed keys in the database.
type keyStore struct{ db *postgres.DB }

func (keyStore) CloudID(context.Context) (string, error) { return CloudID, nil }

func (k keyStore) SealedKeyList(ctx context.Context) (out []authn.SealedKey, err error) {
	err = k.db.InSystem(ctx, func(tx *postgres.Tx) error {
		rows, err := postgres.SealedKeyList(ctx, tx)
		out = nil
		for _, r := range rows {
			out = append(out, authn.SealedKey(r))
		}
		return err
	})
	return out, err
}

func (k keyStore) SealedKeyAdd(ctx context.Context, s authn.SealedKey) error {
	return k.db.InSystem(ctx, func(tx *postgres.Tx) error { return postgres.SealedKeyAdd(ctx, tx, postgres.SealedKey(s)) })
}
