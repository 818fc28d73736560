package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// OfferedOrg owns what the operator offers to every organisation.
var OfferedOrg = cloud.OrgID(uuid.MustParse("00000000-0000-7000-8000-000000000000"))

const orgColumns = `id, name, display_name, created_at`

// OrgGet finds one that the transaction may see.
func OrgGet(ctx context.Context, q Querier, ref Ref) (cloud.Org, error) {
	rows, _ := q.Query(ctx, `SELECT `+orgColumns+` FROM organisation WHERE (id = $1 OR name = $2) AND id <> $3`, ref.ID, ref.Name, OfferedOrg)
	return one[cloud.Org](rows, "get organisation")
}

// OrgList lists by name, after one.
func OrgList(ctx context.Context, q Querier, after string, limit int) ([]cloud.Org, error) {
	rows, _ := q.Query(ctx, `SELECT `+orgColumns+` FROM organisation WHERE name > $1 AND id <> $3 ORDER BY name LIMIT $2`, after, limit, OfferedOrg)
	return all[cloud.Org](rows, "list organisations")
}

// OrgAdd inserts one.
func OrgAdd(ctx context.Context, q Querier, o cloud.Org) error {
	_, err := q.Exec(ctx, `INSERT INTO organisation (id, name, display_name, created_at) VALUES ($1, $2, $3, $4)`,
		o.ID, o.Name, o.DisplayName, o.CreatedAt)
	return wrap("add organisation", err)
}

// Member is a user in an organisation.
type Member struct {
	OrgID     cloud.OrgID
	UserID    cloud.UserID
	Email     string
	Name      string
	Role      cloud.OrgRole
	CreatedAt time.Time
}

// MemberList lists by user, after one.
func MemberList(ctx context.Context, q Querier, org cloud.OrgID, after cloud.UserID, limit int) ([]Member, error) {
	rows, _ := q.Query(ctx, `
		SELECT m.org_id, m.user_id, u.email, u.name, m.role, m.created_at
		FROM membership m JOIN app_user u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3`, org, after.UUID(), limit)
	return all[Member](rows, "list members")
}

// MemberAdd inserts a membership.
func MemberAdd(ctx context.Context, q Querier, org cloud.OrgID, user cloud.UserID, role cloud.OrgRole, at time.Time) error {
	_, err := q.Exec(ctx, `INSERT INTO membership (org_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)`, org, user, role, at)
	return wrap("add member", err)
}

// one reads the one row that a query must have; none is pgx.ErrNoRows.
func one[T any](rows pgx.Rows, what string) (T, error) {
	out, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	return out, wrap(what, err)
}

// all reads every row.
func all[T any](rows pgx.Rows, what string) ([]T, error) {
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	return out, wrap(what, err)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// OrgListOf lists a user's organisations by name, after one.
func OrgListOf(ctx context.Context, q Querier, user cloud.UserID, after string, limit int) ([]cloud.Org, error) {
	rows, _ := q.Query(ctx, `SELECT `+orgColumns+` FROM auth_organisations($1) WHERE name > $2 ORDER BY name LIMIT $3`, user, after, limit)
	return all[cloud.Org](rows, "list organisations")
}

// MemberLock reads an organisation's memberships and locks them, as tenon_system.
func MemberLock(ctx context.Context, q Querier, org cloud.OrgID) ([]Member, error) {
	rows, _ := q.Query(ctx, `
		SELECT m.org_id, m.user_id, u.email, u.name, m.role, m.created_at
		FROM membership m JOIN app_user u ON u.id = m.user_id
		WHERE m.org_id = $1 ORDER BY m.user_id FOR UPDATE OF m`, org)
	return all[Member](rows, "lock members")
}

// MemberRemove deletes a membership, and with it its tokens, as tenon_system.
func MemberRemove(ctx context.Context, q Querier, org cloud.OrgID, user cloud.UserID) error {
	_, err := q.Exec(ctx, `DELETE FROM membership WHERE org_id = $1 AND user_id = $2`, org, user)
	return wrap("remove member", err)
}
