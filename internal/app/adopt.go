package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// NodeCertificateAdopt takes a certificate that this cloud's CA signed and the
// database does not know, if it was issued between a backup and the restore from
// it: a node renews its own every few hours, and none needs a hand after a
// restore. A node that is itself unknown has to join again.
func (a *App) NodeCertificateAdopt(ctx context.Context, id cloud.NodeID, serial string, issued, notAfter time.Time) error {
	var adopted, known bool
	var restored time.Time
	err := a.db.InNode(ctx, id, func(tx *postgres.Tx) (err error) {
		adopted, known, restored, err = postgres.NodeCertificateAdopt(ctx, tx, serial, id, issued, notAfter)
		return err
	})
	switch {
	case err != nil:
		return err
	case adopted:
		a.log.InfoContext(ctx, "took a node's certificate from after the backup", "node", id, "serial", serial)
		return nil
	case !known && !restored.IsZero():
		return cloud.E(cloud.KindUnauthenticated, "node_unknown", "this cloud was restored from a backup of %s and does not know the node", restored.UTC().Format(time.RFC3339)).
			WithHint("a node that joined after the backup has to join again: remove its identity file and give it a new join token")
	}
	return cloud.E(cloud.KindUnauthenticated, "certificate_revoked", "the node's certificate was revoked, or the node was removed")
}
