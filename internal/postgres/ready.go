package postgres

import (
	"context"
	"errors"
	"fmt"
)

// Prepared reports a database that Bootstrap has not made ready.
func (db *DB) Prepared(ctx context.Context) error {
	var ok bool
	err := db.system.QueryRow(ctx, `SELECT EXISTS (SELECT FROM cloud_state) AND EXISTS (SELECT FROM placement_shape)`).Scan(&ok)
	switch {
	case err != nil:
		return fmt.Errorf("look whether the database is ready: %w", err)
	case !ok:
		return errors.New("the migrations have not run to their end")
	}
	return nil
}

// LeaderKnown reports that nobody leads, so that nothing is placed or metered.
func (db *DB) LeaderKnown(ctx context.Context, name string) error {
	var ok bool
	err := db.system.QueryRow(ctx, `SELECT EXISTS (SELECT FROM leader WHERE name = $1 AND expires_at > now())`, name).Scan(&ok)
	switch {
	case err != nil:
		return fmt.Errorf("look for the leader: %w", err)
	case !ok:
		return fmt.Errorf("no process leads %s now", name)
	}
	return nil
}
