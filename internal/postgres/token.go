package postgres

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// TokenStanding is what a request with an API token needs to know.
type TokenStanding struct {
	TokenID    cloud.TokenID
	OrgID      cloud.OrgID
	UserID     cloud.UserID
	Email      string
	Operator   bool
	Disabled   bool
	Role       cloud.OrgRole
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time
}

// TokenStandingGet finds an API token by its hash.
func TokenStandingGet(ctx context.Context, q Querier, hash []byte) (TokenStanding, error) {
	rows, _ := q.Query(ctx, `SELECT * FROM auth_token($1)`, hash)
	return one[TokenStanding](rows, "find token")
}

// TokenStandingByID finds it by its id.
func TokenStandingByID(ctx context.Context, q Querier, id cloud.TokenID) (TokenStanding, error) {
	rows, _ := q.Query(ctx, `SELECT * FROM auth_token_by_id($1)`, id)
	return one[TokenStanding](rows, "find token")
}

// TokenUsed notes the use of a token, once a minute.
func TokenUsed(ctx context.Context, q Querier, id cloud.TokenID) error {
	_, err := q.Exec(ctx, `SELECT auth_token_used($1)`, id)
	return wrap("note a token's use", err)
}

const tokenColumns = `id, org_id, user_id, name, hint, created_at, expires_at, revoked_at, last_used_at`

// TokenList lists live tokens, newest first, before one; of one user, or of all
// when user is zero.
func TokenList(ctx context.Context, q Querier, org cloud.OrgID, user cloud.UserID, before *cloud.TokenID, limit int) ([]cloud.Token, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+tokenColumns+` FROM api_token
		WHERE org_id = $1 AND revoked_at IS NULL AND ($2::uuid IS NULL OR user_id = $2) AND ($3::uuid IS NULL OR id < $3)
		ORDER BY id DESC LIMIT $4`, org, user, before, limit)
	return all[cloud.Token](rows, "list tokens")
}

// TokenAdd keeps a token by its hash.
func TokenAdd(ctx context.Context, q Querier, t cloud.Token, hash []byte) error {
	_, err := q.Exec(ctx, `
		INSERT INTO api_token (id, org_id, user_id, name, hint, hash, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, t.ID, t.OrgID, t.UserID, t.Name, t.Hint, hash, t.CreatedAt, t.ExpiresAt)
	return wrap("add token", err)
}

// TokenRevoke ends a live token by its id, or a user's own by its name.
func TokenRevoke(ctx context.Context, q Querier, org cloud.OrgID, user cloud.UserID, ref Ref, at time.Time) (cloud.Token, error) {
	rows, _ := q.Query(ctx, `
		UPDATE api_token SET revoked_at = $5
		WHERE org_id = $1 AND revoked_at IS NULL AND (id = $2 OR name = $3 AND user_id = $4)
		RETURNING `+tokenColumns, org, ref.ID, ref.Name, user, at)
	return one[cloud.Token](rows, "revoke token")
}

// TokenGet finds a live token by its id, or a user's own by its name.
func TokenGet(ctx context.Context, q Querier, org cloud.OrgID, user cloud.UserID, ref Ref) (cloud.Token, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+tokenColumns+` FROM api_token
		WHERE org_id = $1 AND revoked_at IS NULL AND (id = $2 OR name = $3 AND user_id = $4)`, org, ref.ID, ref.Name, user)
	return one[cloud.Token](rows, "get token")
}

// TokenRevokeAll ends all of a user's tokens, as tenon_system.
func TokenRevokeAll(ctx context.Context, q Querier, user cloud.UserID, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE api_token SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL`, user, at)
	return wrap("revoke tokens", err)
}
