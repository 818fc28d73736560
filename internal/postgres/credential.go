package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// SealedCredential is a registry credential with its password under the master
// key.
type SealedCredential struct {
	cloud.RegistryCredential
	Secret []byte
}

const credentialColumns = `id, project_id, host, username, created_at`

// CredentialList lists a project's, by host, after one.
func CredentialList(ctx context.Context, q Querier, project cloud.ProjectID, after string, limit int) ([]cloud.RegistryCredential, error) {
	rows, _ := q.Query(ctx, `SELECT `+credentialColumns+` FROM registry_credential WHERE project_id = $1 AND host > $2 ORDER BY host LIMIT $3`, project, after, limit)
	return all[cloud.RegistryCredential](rows, "list registry credentials")
}

// CredentialGet finds a project's by its host, or by its id as the ref says.
func CredentialGet(ctx context.Context, q Querier, project cloud.ProjectID, ref Ref) (SealedCredential, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+credentialColumns+`, secret FROM registry_credential WHERE project_id = $1 AND (id = $2 OR host = $3)`, project, ref.ID, ref.Name)
	out, err := pgx.CollectExactlyOneRow(rows, credentialScan)
	return out, wrap("get registry credential", err)
}

func credentialScan(row pgx.CollectableRow) (c SealedCredential, err error) {
	err = row.Scan(&c.ID, &c.ProjectID, &c.Host, &c.Username, &c.CreatedAt, &c.Secret)
	return c, err
}

// CredentialAdd inserts one.
func CredentialAdd(ctx context.Context, q Querier, org cloud.OrgID, by cloud.UserID, c SealedCredential) error {
	_, err := q.Exec(ctx, `
		INSERT INTO registry_credential (id, org_id, project_id, host, username, secret, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, c.ID, org, c.ProjectID, c.Host, c.Username, c.Secret, by, c.CreatedAt)
	return wrap("add registry credential", err)
}

// CredentialReplace gives one another password, under the same id, so that the
// images that are pulled with it go on being.
func CredentialReplace(ctx context.Context, q Querier, by cloud.UserID, c SealedCredential) error {
	_, err := q.Exec(ctx, `UPDATE registry_credential SET username = $2, secret = $3, created_by = $4, created_at = $5 WHERE id = $1`,
		c.ID, c.Username, c.Secret, by, c.CreatedAt)
	return wrap("replace registry credential", err)
}

// CredentialLock keeps images from being added with one until it is deleted.
func CredentialLock(ctx context.Context, q Querier, id cloud.CredentialID) error {
	_, err := q.Exec(ctx, `SELECT FROM registry_credential WHERE id = $1 FOR UPDATE`, id)
	return wrap("lock registry credential", err)
}

// CredentialRemove deletes one. What still runs of a deleted image that was pulled
// with it has none from then on, as its node is told.
func CredentialRemove(ctx context.Context, q Querier, id cloud.CredentialID) error {
	if _, err := q.Exec(ctx, `
		SELECT node_touch(n.id) FROM (SELECT DISTINCT i.node_id AS id FROM image m JOIN instance i ON i.image_org_id = m.org_id AND i.image_id = m.id
			WHERE m.credential_id = $1 AND i.node_id IS NOT NULL ORDER BY 1) n`, id); err != nil {
		return wrap("raise nodes' generations", err)
	}
	_, err := q.Exec(ctx, `DELETE FROM registry_credential WHERE id = $1`, id)
	return wrap("remove registry credential", err)
}

// CredentialImages names the images that are pulled with a credential, the
// first few.
func CredentialImages(ctx context.Context, q Querier, id cloud.CredentialID, limit int) ([]string, error) {
	rows, _ := q.Query(ctx, `SELECT name FROM image WHERE credential_id = $1 AND deleted_at IS NULL ORDER BY name LIMIT $2`, id, limit)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return out, wrap("list a credential's images", err)
}

// InstanceSecrets is what an instance needs and its node's ledger must not hold,
// as it is stored.
type InstanceSecrets struct {
	UserData   []byte // sealed; nil: none
	Credential *SealedCredential
}

// InstanceSecretsGet reads them for an instance of the node, as tenon_node.
func InstanceSecretsGet(ctx context.Context, q Querier, node cloud.NodeID, id cloud.InstanceID) (out InstanceSecrets, err error) {
	var c struct {
		id       *cloud.CredentialID
		host     *string
		username *string
		secret   []byte
	}
	err = q.QueryRow(ctx, `
		SELECT i.user_data, k.id, k.host, k.username, k.secret
		FROM instance i JOIN image m ON m.org_id = i.image_org_id AND m.id = i.image_id LEFT JOIN registry_credential k ON k.id = m.credential_id
		WHERE i.id = $1 AND i.node_id = $2`, id, node).Scan(&out.UserData, &c.id, &c.host, &c.username, &c.secret)
	if err != nil {
		return out, wrap("read an instance's secrets", err)
	}
	if c.id != nil {
		out.Credential = &SealedCredential{Secret: c.secret}
		out.Credential.ID, out.Credential.Host, out.Credential.Username = *c.id, *c.host, *c.username
	}
	return out, nil
}
