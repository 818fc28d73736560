package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/migrations"
)

// BootstrapConfig says which database to make ready, and for which cloud.
type BootstrapConfig struct {
	OwnerDSN string                   // as whoever owns the database and may create roles
	Password func(role string) string // set as the roles' passwords; nil with peer authentication
	CloudID  string                   // eight hexadecimal digits; kept if the database has one
	Log      *slog.Logger
}

// Bootstrap makes a database ready: the login roles, the migrations, the legal
// placement shapes and the cloud's own row. It is safe to run at every start and
// from several processes at once.
func Bootstrap(ctx context.Context, cfg BootstrapConfig) error {
	cc, err := pgx.ParseConfig(cfg.OwnerDSN)
	if err != nil {
		return fmt.Errorf("read the database owner's address: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return fmt.Errorf("connect as the database's owner: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := restoreDone(ctx, conn); err != nil {
		return err
	}
	if err := rolesMake(ctx, conn, cfg.Password); err != nil {
		return err
	}
	if err := migrate(ctx, cc); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := shapesFill(ctx, tx); err != nil {
			return err
		}
		if cfg.CloudID == "" {
			return nil
		}
		_, err := tx.Exec(ctx, `INSERT INTO cloud_state (cloud_id, era) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
			cfg.CloudID, uuid.Must(uuid.NewV7()))
		if err != nil {
			return fmt.Errorf("write the cloud's row: %w", err)
		}
		return nil
	})
}

// rolesLock keeps two processes from making the cluster's roles at once.
const rolesLock = 0x74656e6f6e // "tenon"

func rolesMake(ctx context.Context, conn *pgx.Conn, password func(string) string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(rolesLock)); err != nil {
			return fmt.Errorf("lock the roles: %w", err)
		}
		for _, role := range []string{RoleAPI, RoleSystem, RoleNode} {
			var unsafe bool
			err := tx.QueryRow(ctx, `SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = $1`, role).Scan(&unsafe)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				if _, err := tx.Exec(ctx, "CREATE ROLE "+role+" LOGIN"); err != nil {
					return fmt.Errorf("create role %s: %w", role, err)
				}
			case err != nil:
				return fmt.Errorf("look for role %s: %w", role, err)
			case unsafe:
				return fmt.Errorf("role %s is a superuser or bypasses row security: take that from it first", role)
			}
			if password != nil {
				quoted := "'" + strings.ReplaceAll(password(role), "'", "''") + "'"
				if _, err := tx.Exec(ctx, "ALTER ROLE "+role+" PASSWORD "+quoted); err != nil {
					return fmt.Errorf("set the password of %s: %w", role, err)
				}
			}
		}
		return nil
	})
}

func migrate(ctx context.Context, cc *pgx.ConnConfig) error {
	db := stdlib.OpenDB(*cc)
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("make the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// shapesFill adds the shapes that package gpu knows; one that it no longer knows
// stays while claims refer to it.
func shapesFill(ctx context.Context, tx pgx.Tx) error {
	var geometry, mode, profile []string
	var from, to []int32
	for _, s := range gpu.Shapes() {
		geometry, mode, profile = append(geometry, s.Geometry), append(mode, string(s.Mode)), append(profile, s.Profile)
		from, to = append(from, int32(s.Start)), append(to, int32(s.End))
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO placement_shape (geometry, mode, profile, slots)
		SELECT g, m, p, int4range(f, t)
		FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[]) AS s (g, m, p, f, t)
		ON CONFLICT DO NOTHING`, geometry, mode, profile, from, to)
	if err != nil {
		return fmt.Errorf("fill the placement shapes: %w", err)
	}
	return nil
}
