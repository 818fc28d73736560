package devcloud

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// DumpSchema makes a database on a server that lives for this call only, lets
// fill make its tables, and writes them down as pg_dump does, without what
// differs between servers.
func DumpSchema(ctx context.Context, fill func(ownerDSN string) error) (text []byte, err error) {
	p, err := findPostgres()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "tenon-schema-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	p.Data, p.Socket = filepath.Join(dir, "data"), filepath.Join(dir, "s")
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	server := newChild(p.service(), dir, filepath.Join(dir, "log"), func(string, ...any) {})
	defer func() { server.stop(nil) }()
	if err := server.start(ctx); err != nil {
		return nil, err
	}
	if err := p.ensureDatabase(ctx); err != nil {
		return nil, err
	}
	if err := fill(p.OwnerDSN()); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.Bin, "pg_dump"), "--schema-only", "--no-owner", "--no-tablespaces", "--exclude-table=goose_*", "-h", p.Socket, "-U", superuser, database)
	cmd.Dir = "/" // as ourselves: the socket's map lets us be the superuser
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("dump schema: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return plainDump(out), nil
}

// plainDump drops versions, session settings and psql's own commands.
func plainDump(dump []byte) []byte {
	var b strings.Builder
	blank := true
	for line := range strings.Lines(string(dump)) {
		if strings.HasPrefix(line, "--") || strings.HasPrefix(line, "SET ") || strings.HasPrefix(line, `\`) || strings.HasPrefix(line, "SELECT pg_catalog.set_config") {
			continue
		}
		if strings.TrimSpace(line) == "" {
			if !blank {
				b.WriteString("\n")
			}
			blank = true
			continue
		}
		blank = false
		b.WriteString(line)
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}
