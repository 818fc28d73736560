package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const imageColumns = `id, org_id, name, kind, ref, digest, size_bytes, description, created_at, embedded, credential_id`

// Image is an image with where it comes from.
type Image struct {
	cloud.Image
	Embedded     bool                // in this cloud's own registry
	CredentialID *cloud.CredentialID // of its registry; nil: anyone may pull
}

// imageScan shows the operator's offers with a zero organisation.
func imageScan(row pgx.CollectableRow) (m Image, err error) {
	err = row.Scan(&m.ID, &m.OrgID, &m.Name, &m.Kind, &m.Ref, &m.Digest, &m.SizeBytes, &m.Description, &m.CreatedAt, &m.Embedded, &m.CredentialID)
	if m.OrgID == OfferedOrg {
		m.OrgID = cloud.OrgID{}
	}
	return m, err
}

// ImageList lists an organisation's images and the offered ones, by name; an
// organisation's own comes before an offer of the same name.
func ImageList(ctx context.Context, q Querier, org cloud.OrgID, afterName string, afterOffered bool, limit int) ([]Image, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+imageColumns+` FROM (
			(SELECT *, false AS offered FROM image WHERE org_id = $1 AND deleted_at IS NULL AND name >= $3 ORDER BY name LIMIT $5)
			UNION ALL
			(SELECT *, true AS offered FROM image WHERE org_id = $2 AND deleted_at IS NULL AND name >= $3 ORDER BY name LIMIT $5)
		) i
		WHERE (name, offered) > ($3, $4)
		ORDER BY name, offered LIMIT $5 - 1`, org, OfferedOrg, afterName, afterOffered, limit+1)
	out, err := pgx.CollectRows(rows, imageScan)
	return out, wrap("list images", err)
}

const imageGetSQL = `
	SELECT ` + imageColumns + ` FROM image
	WHERE org_id IN ($1, $2) AND deleted_at IS NULL AND (id = $3 OR name = $4)
	ORDER BY org_id = $2 LIMIT 1`

// ImageGet finds an organisation's own image, or else an offered one.
func ImageGet(ctx context.Context, q Querier, org cloud.OrgID, ref Ref) (Image, error) {
	rows, _ := q.Query(ctx, imageGetSQL, org, OfferedOrg, ref.ID, ref.Name)
	out, err := pgx.CollectExactlyOneRow(rows, imageScan)
	return out, wrap("get image", err)
}

// ImageAdd inserts one; a zero organisation offers it to everyone.
func ImageAdd(ctx context.Context, q Querier, m Image) error {
	org := m.OrgID
	if org.IsZero() {
		org = OfferedOrg
	}
	_, err := q.Exec(ctx, `
		INSERT INTO image (id, org_id, name, kind, ref, digest, embedded, size_bytes, description, created_at, credential_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		m.ID, org, m.Name, m.Kind, m.Ref, m.Digest, m.Embedded, m.SizeBytes, m.Description, m.CreatedAt, m.CredentialID)
	return wrap("add image", err)
}

// ImageRemove takes an image from the lists; instances keep the digest that they
// were admitted with.
func ImageRemove(ctx context.Context, q Querier, id cloud.ImageID, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE image SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL`, id, at)
	return wrap("remove image", err)
}

// ImageUses counts the instances of anyone that were made from an image and are
// not deleted.
func ImageUses(ctx context.Context, q Querier, id cloud.ImageID) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT image_uses($1)`, id).Scan(&n)
	return n, wrap("count an image's instances", err)
}
