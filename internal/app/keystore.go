package app

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// KeyStore keeps sealed keys in the database, for authn.KeysLoad.
func KeyStore(db *postgres.DB) authn.KeyStore { return keyStore{db} }

type keyStore struct{ db *postgres.DB }

func (k keyStore) CloudID(ctx context.Context) (id string, err error) {
	err = k.db.InSystem(ctx, func(tx *postgres.Tx) error {
		c, err := postgres.CloudGet(ctx, tx)
		id = c.CloudID
		return err
	})
	return id, err
}

func (k keyStore) SealedKeyList(ctx context.Context) (out []authn.SealedKey, err error) {
	err = k.db.InSystem(ctx, func(tx *postgres.Tx) error {
		rows, err := postgres.SealedKeyList(ctx, tx)
		out = make([]authn.SealedKey, len(rows))
		for i, r := range rows {
			out[i] = authn.SealedKey(r)
		}
		return err
	})
	return out, err
}

func (k keyStore) SealedKeyAdd(ctx context.Context, key authn.SealedKey) error {
	return k.db.InSystem(ctx, func(tx *postgres.Tx) error { return postgres.SealedKeyAdd(ctx, tx, postgres.SealedKey(key)) })
}
