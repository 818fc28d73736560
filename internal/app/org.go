package app

import (
	"context"
	"net/mail"
	"strings"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const displayNameMaximum = 200

// OrgList lists the actor's organisations; all of them, for an operator.
func (a *App) OrgList(ctx context.Context, c Call, p Page) (List[cloud.Org], error) {
	if err := may(c, authz.OrganisationList, c.Actor.OrgID); err != nil {
		return List[cloud.Org]{}, err
	}
	limit, err := p.size()
	if err != nil {
		return List[cloud.Org]{}, err
	}
	after, err := p.after()
	if err != nil {
		return List[cloud.Org]{}, err
	}
	var rows []cloud.Org
	err = a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		if c.Actor.Operator || !c.Actor.TokenID.IsZero() { // a token is for one organisation
			rows, err = postgres.OrgList(ctx, tx, after, limit+1)
			return err
		}
		rows, err = postgres.OrgListOf(ctx, tx, c.Actor.UserID, after, limit+1)
		return err
	})
	return paged(rows, limit, func(o cloud.Org) string { return o.Name }), err
}

// OrgGet shows one.
func (a *App) OrgGet(ctx context.Context, c Call, org string) (out cloud.Org, err error) {
	err = a.inOrg(ctx, c, authz.OrganisationRead, org, func(_ *postgres.Tx, o cloud.Org) error {
		out = o
		return nil
	})
	return out, err
}

// OrgCreate makes an organisation without members.
func (a *App) OrgCreate(ctx context.Context, c Call, in OrgInput) (cloud.Org, error) {
	if err := may(c, authz.OrganisationCreate, c.Actor.OrgID); err != nil {
		return cloud.Org{}, err
	}
	if fields := nameFields(in.Name, in.DisplayName); len(fields) > 0 {
		return cloud.Org{}, cloud.Invalid(fields...)
	}
	return once(ctx, a, c, "organisation.create", in, func(keep func(*postgres.Tx, cloud.Org) error) (cloud.Org, error) {
		o := cloud.Org{ID: cloud.OrgID{}.New(), Name: in.Name, DisplayName: in.DisplayName}
		err := a.inPlatform(ctx, c, authz.OrganisationCreate, func(tx *postgres.Tx) (err error) {
			if o.CreatedAt, err = postgres.Now(ctx, tx); err != nil {
				return err
			}
			if err := postgres.OrgAdd(ctx, tx, o); err != nil {
				return taken(err, "organisation_name_key", "organisation", in.Name)
			}
			if err := audit(ctx, tx, c, cloud.OrgID{}, authz.OrganisationCreate, o.ID.String(), map[string]any{"name": o.Name}); err != nil {
				return err
			}
			return keep(tx, o)
		})
		return o, err
	})
}

// MemberList lists the people of an organisation.
func (a *App) MemberList(ctx context.Context, c Call, org string, p Page) (List[Member], error) {
	limit, err := p.size()
	if err != nil {
		return List[Member]{}, err
	}
	after, err := afterID(cloud.UserID{}, p)
	if err != nil {
		return List[Member]{}, err
	}
	if after == nil {
		after = &cloud.UserID{}
	}
	var rows []Member
	err = a.inOrg(ctx, c, authz.MemberList, org, func(tx *postgres.Tx, o cloud.Org) error {
		list, err := postgres.MemberList(ctx, tx, o.ID, *after, limit+1)
		rows = make([]Member, len(list))
		for i, m := range list {
			rows[i] = Member(m)
		}
		return err
	})
	return paged(rows, limit, func(m Member) string { return m.UserID.String() }), err
}

// MemberAdd gives a person a role in an organisation, for an operator. One whom
// the cloud does not know is made, with the password that is given.
func (a *App) MemberAdd(ctx context.Context, c Call, org string, in MemberInput) (Member, error) {
	email := strings.ToLower(strings.TrimSpace(in.Email))
	var fields []cloud.Field
	if at, err := mail.ParseAddress(email); err != nil || at.Address != email || len(email) > 254 {
		fields = append(fields, cloud.Field{Location: "body.email", Message: "not an e-mail address", Value: in.Email})
	}
	switch in.Role {
	case cloud.RoleOwner, cloud.RoleAdmin, cloud.RoleMember, cloud.RoleAuditor:
	default:
		fields = append(fields, cloud.Field{Location: "body.role", Message: "one of owner, admin, member, auditor", Value: in.Role})
	}
	if in.Password != "" {
		if why := authn.PasswordProblem(in.Password); why != "" {
			fields = append(fields, cloud.Field{Location: "body.password", Message: why})
		}
	}
	if len(in.Name) > displayNameMaximum {
		fields = append(fields, cloud.Field{Location: "body.name", Message: "at most 200 bytes"})
	}
	if len(fields) > 0 {
		return Member{}, cloud.Invalid(fields...)
	}
	// Authorised before the work of hashing is spent.
	if err := a.inOrg(ctx, c, authz.MemberCreate, org, func(*postgres.Tx, cloud.Org) error { return nil }); err != nil {
		return Member{}, err
	}
	hash := ""
	if in.Password != "" {
		var err error
		if hash, err = a.passwords.Hash(ctx, in.Password); err != nil {
			return Member{}, err
		}
	}
	out := Member{Email: email, Name: in.Name, Role: in.Role}
	err := a.inOrg(ctx, c, authz.MemberCreate, org, func(tx *postgres.Tx, o cloud.Org) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		user, err := postgres.UserByEmail(ctx, tx, email)
		switch {
		case postgres.Missing(err) && hash == "":
			return cloud.Invalid(cloud.Field{Location: "body.password", Message: "required: nobody here has this e-mail yet"})
		case postgres.Missing(err):
			user = postgres.UserSecret{ID: cloud.UserID{}.New(), Name: in.Name}
			if err := postgres.UserAdd(ctx, tx, user.ID, email, in.Name, hash); err != nil {
				return taken(err, "app_user_email_key", "user", email)
			}
		case err != nil:
			return err
		case hash != "":
			return cloud.Invalid(cloud.Field{Location: "body.password", Message: "leave it out: this person has a password already"})
		}
		out.OrgID, out.UserID, out.Name, out.CreatedAt = o.ID, user.ID, user.Name, now
		if err := postgres.MemberAdd(ctx, tx, o.ID, user.ID, in.Role, now); err != nil {
			if postgres.Constraint(err) == "membership_pkey" {
				return cloud.E(cloud.KindConflict, "already_member", "%s is a member already", email)
			}
			return err
		}
		return audit(ctx, tx, c, o.ID, authz.MemberCreate, user.ID.String(), map[string]any{"email": email, "role": string(in.Role)})
	})
	a.seen.forget()
	return out, err
}

// nameFields checks what every named resource has.
func nameFields(name, displayName string) (fields []cloud.Field) {
	if !cloud.ValidName(name) {
		fields = append(fields, cloud.Field{Location: "body.name", Message: cloud.NameRule, Value: name})
	}
	if len(displayName) > displayNameMaximum {
		fields = append(fields, cloud.Field{Location: "body.display_name", Message: "at most 200 bytes"})
	}
	return fields
}

// taken turns the refusal of a unique index into the conflict that it is.
func taken(err error, constraint, what, name string) error {
	if postgres.Constraint(err) == constraint {
		return nameTaken(what, name)
	}
	return err
}

func nameTaken(what, name string) error {
	return cloud.E(cloud.KindConflict, "name_taken", "another %s is named %q already", what, name).WithHint("choose another name")
}
