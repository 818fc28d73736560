package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Sign-in comes before there is an organisation to look into, so it goes through
// the database's auth_ functions, which answer one question each.

// UserSecret is a user with what proves them.
type UserSecret struct {
	ID           cloud.UserID
	Email        string
	Name         string
	PasswordHash string
	Operator     bool
	Disabled     bool
}

// UserByEmail finds a user to sign in.
func UserByEmail(ctx context.Context, q Querier, email string) (UserSecret, error) {
	rows, _ := q.Query(ctx, `SELECT * FROM auth_user_by_email($1)`, email)
	return one[UserSecret](rows, "find user")
}

// Membership is an organisation of a user.
type Membership struct {
	OrgID   cloud.OrgID
	OrgName string
	Role    cloud.OrgRole
}

// UserStanding is what a request in a session needs to know of its user.
type UserStanding struct {
	User        cloud.User
	Memberships []Membership
	Live        bool // the session is
}

// UserStandingGet asks all of it in one round trip.
func UserStandingGet(ctx context.Context, q Querier, user cloud.UserID, session cloud.SessionID) (UserStanding, error) {
	var out UserStanding
	b := &pgx.Batch{}
	b.Queue(`SELECT id, email, name, operator, disabled FROM auth_user_by_id($1)`, user).QueryRow(func(row pgx.Row) error {
		return row.Scan(&out.User.ID, &out.User.Email, &out.User.Name, &out.User.Operator, &out.User.Disabled)
	})
	b.Queue(`SELECT org_id, org_name, role FROM auth_memberships($1)`, user).Query(func(rows pgx.Rows) (err error) {
		out.Memberships, err = pgx.CollectRows(rows, pgx.RowToStructByName[Membership])
		return err
	})
	b.Queue(`SELECT auth_session_live($1)`, session).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Live) })
	return out, wrap("look up a session's user", q.SendBatch(ctx, b).Close())
}

// MembershipList lists the organisations of a user, the oldest membership first.
func MembershipList(ctx context.Context, q Querier, user cloud.UserID) ([]Membership, error) {
	rows, _ := q.Query(ctx, `SELECT org_id, org_name, role FROM auth_memberships($1)`, user)
	return all[Membership](rows, "list memberships")
}

// UserAdd makes a user who is no operator.
func UserAdd(ctx context.Context, q Querier, id cloud.UserID, email, name, passwordHash string) error {
	_, err := q.Exec(ctx, `SELECT auth_user_create($1, $2, $3, $4)`, id, email, name, passwordHash)
	return wrap("add user", err)
}

// UserMakeOperator makes a user a platform operator, as tenon_system.
func UserMakeOperator(ctx context.Context, q Querier, id cloud.UserID) error {
	_, err := q.Exec(ctx, `UPDATE app_user SET operator = true WHERE id = $1`, id)
	return wrap("make operator", err)
}

// UserFind finds a user by id or by e-mail, as tenon_system.
func UserFind(ctx context.Context, q Querier, id cloud.UserID, email string) (out cloud.UserID, err error) {
	err = q.QueryRow(ctx, `SELECT id FROM app_user WHERE id = $1 OR email = $2`, id, email).Scan(&out)
	return out, wrap("find user", err)
}

// UserPasswordSet keeps the hash of a new password, as tenon_system.
func UserPasswordSet(ctx context.Context, q Querier, id cloud.UserID, passwordHash string) error {
	_, err := q.Exec(ctx, `UPDATE app_user SET password_hash = $2 WHERE id = $1`, id, passwordHash)
	return wrap("set password", err)
}
