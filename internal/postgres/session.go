package postgres

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Session is what refreshing one needs.
type Session struct {
	ID           cloud.SessionID
	UserID       cloud.UserID
	RefreshHash  []byte
	PreviousHash []byte
	RotatedAt    time.Time
	ExpiresAt    time.Time
	RevokedAt    *time.Time
}

// SessionAdd opens a session.
func SessionAdd(ctx context.Context, q Querier, s Session, agent, address string) error {
	_, err := q.Exec(ctx, `SELECT auth_session_open($1, $2, $3, $4, $5, $6)`, s.ID, s.UserID, s.RefreshHash, s.ExpiresAt, agent, address)
	return wrap("open session", err)
}

// SessionLock finds the session whose present or previous refresh token has the
// hash, and locks it.
func SessionLock(ctx context.Context, q Querier, hash []byte) (Session, error) {
	rows, _ := q.Query(ctx, `SELECT id, user_id, refresh_hash, previous_hash, rotated_at, expires_at, revoked_at FROM auth_session_by_refresh($1)`, hash)
	return one[Session](rows, "find session")
}

// SessionRotate gives the session its next refresh token and a longer life.
func SessionRotate(ctx context.Context, q Querier, id cloud.SessionID, hash []byte, until time.Time) error {
	_, err := q.Exec(ctx, `SELECT auth_session_rotate($1, $2, $3)`, id, hash, until)
	return wrap("rotate session", err)
}

// SessionRevoke ends a session.
func SessionRevoke(ctx context.Context, q Querier, id cloud.SessionID) error {
	_, err := q.Exec(ctx, `SELECT auth_session_revoke($1)`, id)
	return wrap("revoke session", err)
}

// SessionRevokeAll ends a user's sessions but one, as tenon_system.
func SessionRevokeAll(ctx context.Context, q Querier, user cloud.UserID, but cloud.SessionID) error {
	_, err := q.Exec(ctx, `UPDATE session SET revoked_at = now() WHERE user_id = $1 AND id <> $2 AND revoked_at IS NULL`, user, but.UUID())
	return wrap("revoke sessions", err)
}
