package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/migrations"
)

// BackupView is what a database shows at one moment, for a backup.
type BackupView struct {
	Snapshot string // pg_dump takes the same
	CloudID  string
	Era      string
	TakenAt  time.Time
	Schema   int64 // the newest migration that it has
	Server   int   // major version
}

// BackupHold keeps one moment of a database open while f copies it. It locks
// nobody out.
func BackupHold(ctx context.Context, ownerDSN string, f func(BackupView) error) error {
	conn, err := pgx.Connect(ctx, ownerDSN)
	if err != nil {
		return fmt.Errorf("connect as the database's owner: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := restoreDone(ctx, conn); err != nil {
			return err
		}
		// A copy may take longer than any request.
		if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return fmt.Errorf("hold the database's moment: %w", err)
		}
		var v BackupView
		err := tx.QueryRow(ctx, `
			SELECT pg_export_snapshot(), cloud_id, era::text, transaction_timestamp(), (SELECT max(version_id) FROM goose_db_version), current_setting('server_version_num')::int / 10000
			FROM cloud_state`).Scan(&v.Snapshot, &v.CloudID, &v.Era, &v.TakenAt, &v.Schema, &v.Server)
		if err != nil {
			return fmt.Errorf("look at the database: %w", err)
		}
		return f(v)
	})
}

// SchemaVersion is the newest migration that this program knows.
func SchemaVersion() (int64, error) {
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	var newest int64
	for _, f := range files {
		number, _, _ := strings.Cut(path.Base(f), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the number of migration %s: %w", f, err)
		}
		newest = max(newest, n)
	}
	return newest, nil
}

// errHalfRestored keeps a control plane off data whose era is still the old one.
var errHalfRestored = errors.New("the database was restored by half, and nothing may run on it: run `tenond restore` with the same archive again")

// restoreDone refuses a database whose restore was interrupted.
func restoreDone(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) error {
	var half bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('public.restore_unfinished') IS NOT NULL`).Scan(&half); err != nil {
		return fmt.Errorf("look for an unfinished restore: %w", err)
	}
	if half {
		return errHalfRestored
	}
	return nil
}
