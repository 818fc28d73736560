package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const keyMaximum = 255

// answer is a request with an idempotency key, and what it was answered with.
type answer struct {
	row postgres.Idempotency
}

// answerOf prepares it; nil without a key. The request is hashed with the
// operation, so that a key can't be used again for something else.
func answerOf(c Call, operation string, request any) (*answer, error) {
	if c.IdempotencyKey == "" {
		return nil, nil
	}
	if len(c.IdempotencyKey) > keyMaximum {
		return nil, cloud.Invalid(cloud.Field{Location: "header.Idempotency-Key", Message: fmt.Sprintf("at most %d characters", keyMaximum)})
	}
	b, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("hash request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(operation+"\x00"), b...))
	return &answer{postgres.Idempotency{Org: c.Actor.OrgID, ActorID: uuid.UUID(c.Actor.UserID), Key: c.IdempotencyKey, Operation: operation, RequestHash: sum[:]}}, nil
}

// with is the row to write with the answer.
func (w *answer) with(out any) (*postgres.Idempotency, error) {
	if w == nil {
		return nil, nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write answer: %w", err)
	}
	row := w.row
	row.Response = b
	return &row, nil
}

// replay compares a row that was found with the request and reads its answer.
func (w *answer) replay(found postgres.Idempotency, out any) error {
	if found.Operation != w.row.Operation || string(found.RequestHash) != string(w.row.RequestHash) {
		return cloud.E(cloud.KindInvalid, "idempotency_key_reused", "the idempotency key %q was used for another request", w.row.Key).
			WithHint("send a new key with each new request; send the same key only to repeat one")
	}
	if err := json.Unmarshal(found.Response, out); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	return nil
}

// once carries a request out, or gives the answer that it had the first time.
// do is given keep, to be called last in its transaction.
func once[T any](ctx context.Context, a *App, c Call, operation string, request any, do func(keep func(tx *postgres.Tx, out T) error) (T, error)) (T, error) {
	var none T
	w, err := answerOf(c, operation, request)
	if err != nil {
		return none, err
	}
	if w == nil {
		return do(func(*postgres.Tx, T) error { return nil })
	}
	if out, found, err := replayed[T](ctx, a, c, w); found || err != nil {
		return out, err
	}
	out, err := do(func(tx *postgres.Tx, out T) error {
		row, err := w.with(out)
		if err != nil {
			return err
		}
		return postgres.IdempotencyAdd(ctx, tx, *row)
	})
	if err == nil {
		return out, nil
	}
	// The same request may have been first by a moment, and be why this one failed.
	if out, found, again := replayed[T](ctx, a, c, w); found {
		return out, again
	}
	return none, err
}

func replayed[T any](ctx context.Context, a *App, c Call, w *answer) (out T, found bool, err error) {
	err = a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		row, err := postgres.IdempotencyGet(ctx, tx, w.row.Org, w.row.ActorID, w.row.Key)
		if postgres.Missing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		return w.replay(row, &out)
	})
	return out, found, err
}
