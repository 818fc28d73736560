package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// baseline is what Postgres itself does with one small insert a transaction.
type baseline struct {
	rate     float64 // transactions a second
	p50, p99 time.Duration
}

// pgbench runs Postgres's own load generator for ten seconds.
func pgbench(ctx context.Context, cloud *target.Target, clients int) (baseline, error) {
	if _, err := cloud.SQL(ctx, `CREATE SCHEMA IF NOT EXISTS proof; CREATE TABLE IF NOT EXISTS proof.row (id bigserial PRIMARY KEY, name text, at timestamptz DEFAULT now())`); err != nil {
		return baseline{}, err
	}
	defer func() { _, _ = cloud.SQL(context.WithoutCancel(ctx), `DROP SCHEMA proof CASCADE`) }()
	dir, err := os.MkdirTemp("", "tenon-pgbench-")
	if err != nil {
		return baseline{}, fmt.Errorf("make a folder for pgbench: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	script := filepath.Join(dir, "insert.sql")
	if err := os.WriteFile(script, []byte("INSERT INTO proof.row (name) VALUES ('one');\n"), 0o644); err != nil {
		return baseline{}, err
	}
	program := "pgbench"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench"); len(found) > 0 {
		program = found[len(found)-1]
	}
	cmd := exec.CommandContext(ctx, program, "-n", "-f", script, "-c", strconv.Itoa(clients), "-j", "2", "-T", "10", "-l", "--log-prefix="+filepath.Join(dir, "log"),
		"-h", cloud.PostgresFolder(), "-U", "tenon_owner", "tenon")
	if out, err := cmd.CombinedOutput(); err != nil {
		return baseline{}, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "log*"))
	if err != nil {
		return baseline{}, err
	}
	var took []time.Duration
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return baseline{}, err
		}
		for line := range strings.Lines(string(text)) {
			// client, transaction, microseconds, script, time
			if f := strings.Fields(line); len(f) > 2 {
				if us, err := strconv.Atoi(f[2]); err == nil {
					took = append(took, time.Duration(us)*time.Microsecond)
				}
			}
		}
	}
	if len(took) == 0 {
		return baseline{}, fmt.Errorf("pgbench logged no transaction")
	}
	slices.Sort(took)
	return baseline{rate: float64(len(took)) / 10, p50: took[len(took)/2], p99: took[len(took)*99/100]}, nil
}
