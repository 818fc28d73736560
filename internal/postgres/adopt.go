package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// adoptSlack is for clocks: a certificate says when it was issued by the control
// plane's, a backup when it was taken by the database's.
const adoptSlack = time.Minute

// NodeCertificateAdopt writes down a certificate that was issued between the
// backup and the restore from it, as tenon_node. One that is known, revoked say,
// stays as it is. restored is zero when the cloud never was.
func NodeCertificateAdopt(ctx context.Context, q Querier, serial string, node cloud.NodeID, issued, notAfter time.Time) (adopted, known bool, restored time.Time, err error) {
	var b pgx.Batch
	b.Queue(`
		INSERT INTO node_certificate (serial, node_id, not_after)
		SELECT $1, n.id, $3 FROM node n, cloud_state c
		WHERE n.id = $2 AND n.forgotten_at IS NULL AND $4 BETWEEN c.restored_from - $5::interval AND c.restored_at + $5::interval
		ON CONFLICT DO NOTHING`, serial, node, notAfter, issued, adoptSlack)
	b.Queue(`SELECT EXISTS (SELECT FROM node WHERE id = $1), restored_from FROM cloud_state`, node)
	results := q.SendBatch(ctx, &b)
	tag, err := results.Exec()
	var from *time.Time
	if err == nil {
		err = results.QueryRow().Scan(&known, &from)
	}
	if e := results.Close(); err == nil {
		err = e
	}
	if from != nil {
		restored = *from
	}
	return tag.RowsAffected() == 1, known, restored, wrap("adopt certificate", err)
}
