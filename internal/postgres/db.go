package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The login roles. The owner of the tables is whoever ran Bootstrap.
const (
	RoleAPI    = "tenon_api"
	RoleSystem = "tenon_system"
	RoleNode   = "tenon_node"
)

// Querier is what a query needs: a pool, a connection or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Config says where the database is and how many connections each role may
// hold.
type Config struct {
	// DSN is a URL or a keyword string, without a user: each pool puts its own
	// role there. With a socket folder as host, peer authentication decides.
	DSN string
	// Password gives a role's password; nil where peer authentication decides.
	Password func(role string) string

	// Process names this process among the replicas, as Leadership's holder does: a
	// successor ends the transactions of a leader that has stopped.
	Process string

	APIConns    int32 // 0: 16
	SystemConns int32 // 0: 8
	NodeConns   int32 // 0: 8
	Log         *slog.Logger
}

// DB is the three pools of one process.
type DB struct {
	api    *pgxpool.Pool
	system *pgxpool.Pool
	node   *pgxpool.Pool
	cfg    Config
	log    *slog.Logger
	wakes  *wakes
}

// Open connects the pools and checks that each role can sign in.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	db := &DB{cfg: cfg, log: cfg.Log}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	for _, p := range []struct {
		role  string
		pool  **pgxpool.Pool
		conns int32
		limit time.Duration
	}{
		{RoleAPI, &db.api, orDefault(cfg.APIConns, 16), 15 * time.Second},
		{RoleSystem, &db.system, orDefault(cfg.SystemConns, 8), time.Minute},
		{RoleNode, &db.node, orDefault(cfg.NodeConns, 8), 15 * time.Second},
	} {
		pool, err := openPool(ctx, cfg, p.role, p.conns, p.limit)
		if err != nil {
			db.Close()
			return nil, err
		}
		*p.pool = pool
	}
	db.wakes = newWakes(db.dial, db.log)
	return db, nil
}

func orDefault(n, otherwise int32) int32 {
	if n == 0 {
		return otherwise
	}
	return n
}

func openPool(ctx context.Context, cfg Config, role string, conns int32, limit time.Duration) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	as(pc.ConnConfig, cfg, role)
	pc.MaxConns = conns
	pc.MaxConnIdleTime = 5 * time.Minute
	pc.ConnConfig.RuntimeParams["statement_timeout"] = fmt.Sprint(limit.Milliseconds())
	// A process that is paused inside a transaction must not keep its rows from the
	// other replicas for long.
	pc.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "3000"
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open the pool of %s: %w", role, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect as %s: %w", role, err)
	}
	return pool, nil
}

// dial makes a connection of its own, outside the pools.
func (db *DB) dial(ctx context.Context) (*pgx.Conn, error) {
	cc, err := pgx.ParseConfig(db.cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	as(cc, db.cfg, RoleSystem)
	return pgx.ConnectConfig(ctx, cc)
}

// as puts a role and what every connection has in common into a connection's
// configuration.
func as(cc *pgx.ConnConfig, cfg Config, role string) {
	cc.User, cc.Password = role, ""
	if cfg.Password != nil {
		cc.Password = cfg.Password(role)
	}
	if cc.RuntimeParams == nil {
		cc.RuntimeParams = map[string]string{}
	}
	cc.RuntimeParams["application_name"] = applicationName(cfg.Process)
	cc.RuntimeParams["timezone"] = "UTC"
	cc.RuntimeParams["jit"] = "off" // every query here is short
}

// Close ends the pools.
func (db *DB) Close() {
	if db.wakes != nil {
		db.wakes.close()
	}
	for _, p := range []*pgxpool.Pool{db.api, db.system, db.node} {
		if p != nil {
			p.Close()
		}
	}
}

// Ping asks the database for a sign of life.
func (db *DB) Ping(ctx context.Context) error { return db.system.Ping(ctx) }

// Stat gives the figures of a role's pool, for metrics.
func (db *DB) Stat(role string) *pgxpool.Stat {
	switch role {
	case RoleAPI:
		return db.api.Stat()
	case RoleNode:
		return db.node.Stat()
	}
	return db.system.Stat()
}
