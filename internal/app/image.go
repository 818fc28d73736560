package app

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// resolveWithin bounds how long a registry may take to say a digest.
const resolveWithin = 20 * time.Second

// ImageList lists the organisation's images and what the operator offers.
func (a *App) ImageList(ctx context.Context, c Call, p Page) (List[cloud.Image], error) {
	if err := may(c, authz.ImageList, c.Actor.OrgID); err != nil {
		return List[cloud.Image]{}, err
	}
	limit, err := p.size()
	if err != nil {
		return List[cloud.Image]{}, err
	}
	after, err := p.after()
	if err != nil {
		return List[cloud.Image]{}, err
	}
	name, offered := strings.CutSuffix(after, " offered")
	var rows []postgres.Image
	err = a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		rows, err = postgres.ImageList(ctx, tx, c.Actor.OrgID, name, offered, limit+1)
		return err
	})
	out := make([]cloud.Image, len(rows))
	for i, m := range rows {
		out[i] = m.Image
	}
	return paged(out, limit, func(m cloud.Image) string {
		if m.OrgID.IsZero() {
			return m.Name + " offered"
		}
		return m.Name
	}), err
}

// ImageGet shows one.
func (a *App) ImageGet(ctx context.Context, c Call, image string) (cloud.Image, error) {
	if err := may(c, authz.ImageRead, c.Actor.OrgID); err != nil {
		return cloud.Image{}, err
	}
	var m postgres.Image
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		m, err = postgres.ImageGet(ctx, tx, c.Actor.OrgID, postgres.RefOf(cloud.ImageID{}, image))
		return notFound(err, "image", image)
	})
	return m.Image, err
}

var (
	hostForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})|[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(:[0-9]{1,5})?|localhost)$`)
	repoForm = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	tagForm  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	sumForm  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// reference takes a reference apart. One without a registry's host is in the
// embedded registry.
func reference(ref string) (host, repository, problem string) {
	rest, digest, pinned := strings.Cut(ref, "@")
	if pinned && !sumForm.MatchString(digest) {
		return "", "", "after @ there must be sha256: and 64 hexadecimal digits"
	}
	repository = rest
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		repository = rest[:i]
		if !tagForm.MatchString(rest[i+1:]) {
			return "", "", "the tag after : is not one"
		}
	}
	if first, more, ok := strings.Cut(repository, "/"); ok && hostForm.MatchString(first) {
		host, repository = first, more
	}
	if len(ref) > 400 || !repoForm.MatchString(repository) {
		return "", "", "not of the form [host/]repository[:tag][@sha256:…], in lower case"
	}
	return host, repository, ""
}

// ImageCreate adds an image by its reference; the digest that the registry gives
// now is what will run, whatever the tag means later.
func (a *App) ImageCreate(ctx context.Context, c Call, in ImageInput) (cloud.Image, error) {
	action := authz.ImageCreate
	if in.Offered {
		action = authz.ImagePublish
	}
	if err := may(c, action, c.Actor.OrgID); err != nil {
		return cloud.Image{}, err
	}
	if in.Kind == "" {
		in.Kind = cloud.KindContainer
	}
	fields := nameFields(in.Name, in.Description)
	switch in.Kind {
	case cloud.KindContainer, cloud.KindNotebook, cloud.KindVM:
	default:
		fields = append(fields, cloud.Field{Location: "body.kind", Message: "one of container, notebook, vm", Value: in.Kind})
	}
	host, repository, problem := reference(in.Ref)
	if problem != "" {
		fields = append(fields, cloud.Field{Location: "body.ref", Message: problem, Value: in.Ref})
	}
	if in.Project != "" && in.Offered {
		fields = append(fields, cloud.Field{Location: "body.project", Message: "what is offered to everyone is pulled without a project's password", Value: in.Project})
	}
	if in.Project != "" && host == "" && problem == "" {
		fields = append(fields, cloud.Field{Location: "body.project", Message: "this cloud's own registry needs no password of a project's", Value: in.Project})
	}
	if len(fields) > 0 {
		return cloud.Image{}, cloud.Invalid(fields...)
	}
	if host == "" {
		if err := a.mayUseRepository(ctx, c, repository, false); err != nil {
			return cloud.Image{}, err
		}
	}
	return once(ctx, a, c, "image.create", in, func(keep func(*postgres.Tx, cloud.Image) error) (cloud.Image, error) {
		m := postgres.Image{Embedded: host == "", Image: cloud.Image{ID: cloud.ImageID{}.New(), OrgID: c.Actor.OrgID, Name: in.Name, Kind: in.Kind, Ref: in.Ref, Description: in.Description}}
		if in.Offered {
			m.OrgID = cloud.OrgID{}
		}
		var login *RegistryLogin
		if in.Project != "" {
			credential, found, err := a.credentialFor(ctx, c, in.Project, host, in.Ref)
			if err != nil {
				return cloud.Image{}, err
			}
			m.CredentialID, login = &credential, found
		}
		found, err := a.resolve(ctx, in.Ref, m.Embedded, login)
		if err != nil {
			return cloud.Image{}, err
		}
		m.Digest, m.SizeBytes = found.Digest, found.SizeBytes
		err = a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
			if m.CreatedAt, err = postgres.Now(ctx, tx); err != nil {
				return err
			}
			if err := postgres.ImageAdd(ctx, tx, m); err != nil {
				if postgres.Constraint(err) == "image_org_id_credential_id_fkey" {
					return cloud.E(cloud.KindConflict, "credential_gone", "the registry credential was deleted in the meantime").WithHint("try again")
				}
				return taken(err, "image_name", "image", in.Name)
			}
			if err := audit(ctx, tx, c, m.OrgID, action, m.ID.String(), map[string]any{"name": m.Name, "ref": m.Ref, "digest": m.Digest}); err != nil {
				return err
			}
			return keep(tx, m.Image)
		})
		return m.Image, err
	})
}

// resolve asks the registry. Its reason is the user's to read.
func (a *App) resolve(ctx context.Context, ref string, embedded bool, login *RegistryLogin) (Resolved, error) {
	if a.cfg.Resolve == nil {
		return Resolved{}, cloud.E(cloud.KindUnavailable, "registry_unavailable", "this control plane has no registry to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	found, err := a.cfg.Resolve(ctx, ref, embedded, login)
	if err == nil && !sumForm.MatchString(found.Digest) {
		return Resolved{}, cloud.Invalid(cloud.Field{Location: "body.ref", Message: "its registry gave no sha256 digest for it", Value: ref})
	}
	if err != nil {
		return Resolved{}, cloud.Invalid(cloud.Field{Location: "body.ref", Message: "its registry does not give it: " + err.Error(), Value: ref}).Wrap(err)
	}
	return found, nil
}

// ImageDelete takes an image from the list. It is refused while an instance that
// is not deleted was made from it, since a start would have to pull it again.
func (a *App) ImageDelete(ctx context.Context, c Call, image string) error {
	if err := may(c, authz.ImageDelete, c.Actor.OrgID); err != nil && !c.Actor.Operator {
		return err
	}
	return a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		m, err := postgres.ImageGet(ctx, tx, c.Actor.OrgID, postgres.RefOf(cloud.ImageID{}, image))
		if err != nil {
			return notFound(err, "image", image)
		}
		action := authz.ImageDelete
		if m.OrgID.IsZero() {
			action = authz.ImageUnpublish
		}
		if err := may(c, action, c.Actor.OrgID); err != nil {
			return err
		}
		n, err := postgres.ImageUses(ctx, tx, m.ID)
		if err != nil {
			return err
		}
		if n > 0 {
			return cloud.E(cloud.KindConflict, "image_in_use", "image %q is what %d instances were made from", m.Name, n).
				WithHint("delete them first").With("instances", n)
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := postgres.ImageRemove(ctx, tx, m.ID, now); err != nil {
			return err
		}
		return audit(ctx, tx, c, m.OrgID, action, m.ID.String(), map[string]any{"name": m.Name})
	})
}
