package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	checkWithin = 15 * time.Second // how long a registry may take to say whether it takes a password
	imagesNamed = 10               // of those that keep a credential from being deleted
)

// CredentialInput is a user name and password for one registry. It is never
// printed.
type CredentialInput struct{ Host, Username, Password string }

// String keeps the password out of logs.
func (in CredentialInput) String() string { return in.Username + "@" + in.Host }

// CredentialMade is a credential, and what could not be found out about it.
type CredentialMade struct {
	cloud.RegistryCredential
	Warning string
}

// CredentialList lists a project's, without passwords.
func (a *App) CredentialList(ctx context.Context, c Call, project string, p Page) (List[cloud.RegistryCredential], error) {
	limit, err := p.size()
	if err != nil {
		return List[cloud.RegistryCredential]{}, err
	}
	after, err := p.after()
	if err != nil {
		return List[cloud.RegistryCredential]{}, err
	}
	var rows []cloud.RegistryCredential
	err = a.inProject(ctx, c, authz.CredentialList, project, func(tx *postgres.Tx, p cloud.Project) (err error) {
		rows, err = postgres.CredentialList(ctx, tx, p.ID, after, limit+1)
		return err
	})
	return paged(rows, limit, func(c cloud.RegistryCredential) string { return c.Host }), err
}

// CredentialCreate keeps a password for a registry, or replaces the project's
// for that host. The registry is asked first: a password that it refuses is not
// kept, one of a registry that can't be asked is, with a warning.
func (a *App) CredentialCreate(ctx context.Context, c Call, project string, in CredentialInput) (CredentialMade, error) {
	var p cloud.Project
	err := a.inProject(ctx, c, authz.CredentialCreate, project, func(_ *postgres.Tx, found cloud.Project) error {
		p = found
		return nil
	})
	if err != nil {
		return CredentialMade{}, err
	}
	host, fields := in.check()
	if len(fields) > 0 {
		return CredentialMade{}, cloud.Invalid(fields...)
	}
	warning, err := a.checkLogin(ctx, host, RegistryLogin{in.Username, in.Password})
	if err != nil {
		return CredentialMade{}, err
	}
	made := CredentialMade{Warning: warning}
	err = a.db.InAPI(ctx, postgres.Scope{Org: p.OrgID, Operator: c.Actor.Operator}, func(tx *postgres.Tx) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		was, err := postgres.CredentialGet(ctx, tx, p.ID, postgres.Ref{Name: &host})
		replaces := err == nil
		if err != nil && !postgres.Missing(err) {
			return err
		}
		made.RegistryCredential = cloud.RegistryCredential{ID: cloud.CredentialID{}.New(), ProjectID: p.ID, Host: host, Username: in.Username, CreatedAt: now}
		if replaces {
			made.ID = was.ID
		}
		row := postgres.SealedCredential{RegistryCredential: made.RegistryCredential}
		if row.Secret, err = a.keys.Seal(authn.SealCredential, made.ID.String(), []byte(in.Password)); err != nil {
			return err
		}
		if replaces {
			err = postgres.CredentialReplace(ctx, tx, c.Actor.UserID, row)
		} else {
			err = postgres.CredentialAdd(ctx, tx, p.OrgID, c.Actor.UserID, row)
		}
		if err != nil {
			return taken(err, "registry_credential_project_id_host_key", "credential", host)
		}
		return audit(ctx, tx, c, p.OrgID, authz.CredentialCreate, made.ID.String(), map[string]any{"host": host, "username": in.Username, "replaced": replaces})
	})
	return made, err
}

func (in CredentialInput) check() (host string, fields []cloud.Field) {
	host, ok := cloud.RegistryHost(in.Host)
	if !ok {
		fields = append(fields, cloud.Field{Location: "body.host", Message: "a registry's host, with a port if it has one: ghcr.io, registry.example.com:5000", Value: in.Host})
	}
	if strings.ContainsAny(in.Username, ":\r\n\x00") || len(in.Username) > 255 {
		fields = append(fields, cloud.Field{Location: "body.username", Message: "at most 255 characters, without a colon or a line break", Value: in.Username})
	}
	if in.Password == "" || len(in.Password) > 4096 || strings.ContainsAny(in.Password, "\r\n\x00") {
		fields = append(fields, cloud.Field{Location: "body.password", Message: "1 to 4096 characters on one line"})
	}
	return host, fields
}

func (a *App) checkLogin(ctx context.Context, host string, login RegistryLogin) (warning string, err error) {
	if a.cfg.CheckLogin == nil {
		return "", nil
	}
	asking, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	err = a.cfg.CheckLogin(asking, host, login)
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, ErrLoginRefused):
		return "", cloud.Invalid(cloud.Field{Location: "body.password", Message: "the registry at " + host + " refuses this user name and password"}).
			WithHint("an access token often takes the place of a password; it needs the right to read").Wrap(err)
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	return "kept, but not checked: " + err.Error(), nil
}

// CredentialDelete forgets a password, unless an image is pulled with it: each
// start of it would fail from then on.
func (a *App) CredentialDelete(ctx context.Context, c Call, project, credential string) error {
	return a.inProject(ctx, c, authz.CredentialDelete, project, func(tx *postgres.Tx, p cloud.Project) error {
		ref := postgres.RefOf(cloud.CredentialID{}, credential)
		if ref.Name != nil {
			host, _ := cloud.RegistryHost(credential)
			ref.Name = &host
		}
		k, err := postgres.CredentialGet(ctx, tx, p.ID, ref)
		if err != nil {
			return notFound(err, "registry credential", credential)
		}
		if err := postgres.CredentialLock(ctx, tx, k.ID); err != nil {
			return err
		}
		names, err := postgres.CredentialImages(ctx, tx, k.ID, imagesNamed)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return cloud.E(cloud.KindConflict, "credential_in_use", "the credential for %s is what images are pulled with: %s", k.Host, strings.Join(names, ", ")).
				WithHint("remove those images first, or create the credential again to replace its password").With("images", names)
		}
		if err := postgres.CredentialRemove(ctx, tx, k.ID); err != nil {
			return err
		}
		return audit(ctx, tx, c, p.OrgID, authz.CredentialDelete, k.ID.String(), map[string]any{"host": k.Host})
	})
}

// credentialFor opens a project's credential for the host of a reference.
func (a *App) credentialFor(ctx context.Context, c Call, project, host, ref string) (cloud.CredentialID, *RegistryLogin, error) {
	var k postgres.SealedCredential
	host, _ = cloud.RegistryHost(host)
	err := a.inProject(ctx, c, authz.CredentialList, project, func(tx *postgres.Tx, p cloud.Project) (err error) {
		if p.OrgID != c.Actor.OrgID {
			return cloud.NotFound("project", project)
		}
		k, err = postgres.CredentialGet(ctx, tx, p.ID, postgres.Ref{Name: &host})
		if postgres.Missing(err) {
			return cloud.Invalid(cloud.Field{Location: "body.project", Message: fmt.Sprintf("project %q has no credential for %s", p.Name, host), Value: project}).
				WithHint("add one with `tenon credential add %s`, or leave the project out if anyone may read %s", host, ref)
		}
		return err
	})
	if err != nil {
		return cloud.CredentialID{}, nil, err
	}
	password, err := a.keys.Open(authn.SealCredential, k.ID.String(), k.Secret)
	if err != nil {
		return cloud.CredentialID{}, nil, err
	}
	return k.ID, &RegistryLogin{k.Username, string(password)}, nil
}

// NodeSecrets is what an instance needs and the node's ledger must not hold. Row
// security and the query both keep it to instances that are placed on the node.
func (a *App) NodeSecrets(ctx context.Context, id cloud.NodeID, instance string) (nodewire.Secrets, error) {
	var which cloud.InstanceID
	if which.UnmarshalText([]byte(instance)) != nil {
		return nodewire.Secrets{}, cloud.NotFound("instance", instance)
	}
	var sealed postgres.InstanceSecrets
	err := a.db.InNode(ctx, id, func(tx *postgres.Tx) (err error) {
		sealed, err = postgres.InstanceSecretsGet(ctx, tx, id, which)
		return notFound(err, "instance", instance)
	})
	if err != nil {
		return nodewire.Secrets{}, err
	}
	var out nodewire.Secrets
	if len(sealed.UserData) > 0 {
		if out.UserData, err = a.keys.Open(authn.SealUserData, which.String(), sealed.UserData); err != nil {
			return nodewire.Secrets{}, err
		}
	}
	if k := sealed.Credential; k != nil {
		password, err := a.keys.Open(authn.SealCredential, k.ID.String(), k.Secret)
		if err != nil {
			return nodewire.Secrets{}, err
		}
		out.Registry = &nodewire.RegistryPassword{Host: k.Host, Username: k.Username, Password: string(password)}
	}
	return out, nil
}
