package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Idempotency is a request that was answered. It is written in the transaction
// that carries the request out: a second one with its key is refused by the
// primary key, after waiting for the first.
type Idempotency struct {
	Org         cloud.OrgID
	ActorID     uuid.UUID
	Key         string
	Operation   string
	RequestHash []byte
	Response    []byte
}

const idempotencySQL = `
	INSERT INTO idempotency (org_id, actor_id, key, operation, request_hash, status, response)
	VALUES ($1, $2, $3, $4, $5, 0, $6)`

func (i Idempotency) args() []any {
	return []any{i.Org, i.ActorID, i.Key, i.Operation, i.RequestHash, i.Response}
}

// IdempotencyAdd keeps an answer; IdempotencyTaken tells that another came first.
func IdempotencyAdd(ctx context.Context, q Querier, i Idempotency) error {
	_, err := q.Exec(ctx, idempotencySQL, i.args()...)
	return wrap("keep an answer", err)
}

// IdempotencyTaken reports that the key was used before.
func IdempotencyTaken(err error) bool { return Constraint(err) == "idempotency_pkey" }

// IdempotencyGet finds the answer that was given under a key.
func IdempotencyGet(ctx context.Context, q Querier, org cloud.OrgID, actor uuid.UUID, key string) (Idempotency, error) {
	out := Idempotency{Org: org, ActorID: actor, Key: key}
	err := q.QueryRow(ctx, `SELECT operation, request_hash, response FROM idempotency WHERE org_id = $1 AND actor_id = $2 AND key = $3`,
		org, actor, key).Scan(&out.Operation, &out.RequestHash, &out.Response)
	return out, wrap("find an answer", err)
}

// IdempotencyPrune forgets answers older than an age, as tenon_system.
func IdempotencyPrune(ctx context.Context, q Querier, age time.Duration) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM idempotency WHERE created_at < now() - make_interval(secs => $1)`, age.Seconds())
	return tag.RowsAffected(), wrap("forget answers", err)
}
