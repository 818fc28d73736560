package devcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// Postgres is this cloud's private server: no TCP, a socket in a folder that
// only it and root can open, peer authentication, never run as root. What makes
// it safe in a crash stays on.
type Postgres struct {
	Bin        string              // folder of postgres and initdb
	Credential *syscall.Credential // nil: as ourselves
	UID        int
	Data       string
	Socket     string
	Users      []string // operating-system users that may be any of the cloud's roles
}

const (
	database  = "tenon"
	ownerRole = "tenon_owner"
	superuser = "postgres"
)

// settings are written anew at each start; changing them restarts the server.
const settings = `# Written by tenond dev; changes are lost.
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 128MB
jit = off
log_line_prefix = '%m [%p] %q%u '
log_timezone = 'UTC'
timezone = 'UTC'
`

// findPostgres looks for a server program and for whom to run it as.
func findPostgres() (Postgres, error) {
	p := Postgres{UID: os.Geteuid(), Bin: os.Getenv("PG_BIN")}
	if p.Bin == "" {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
		if len(found) == 0 {
			return p, errors.New("no Postgres server is installed: `sudo deploy/setup.sh` installs Debian's, or set PG_BIN to a folder that holds one")
		}
		sort.Slice(found, func(i, j int) bool { return versionOf(found[i]) < versionOf(found[j]) })
		p.Bin = filepath.Dir(found[len(found)-1])
	}
	me, err := user.Current()
	if err != nil {
		return p, fmt.Errorf("find the current user: %w", err)
	}
	p.Users = []string{me.Username}
	if caller := os.Getenv("SUDO_USER"); caller != "" && caller != me.Username {
		p.Users = append(p.Users, caller)
	}
	if os.Geteuid() != 0 {
		return p, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return p, fmt.Errorf("there is no user postgres, as whom the database must run: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return p, fmt.Errorf("read the uid of postgres: %w", err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return p, fmt.Errorf("read the gid of postgres: %w", err)
	}
	p.UID, p.Credential = uid, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return p, nil
}

func versionOf(path string) int {
	v, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return v
}

// prepare makes the data folder when there is none, and the configuration.
func (p Postgres) prepare(ctx context.Context) error {
	for _, folder := range []string{p.Data, p.Socket} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("make Postgres folder: %w", err)
		}
		if p.Credential != nil {
			if err := os.Chown(folder, int(p.Credential.Uid), int(p.Credential.Gid)); err != nil {
				return fmt.Errorf("give Postgres its folder: %w", err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(p.Data, "tenon.ok")); errors.Is(err, fs.ErrNotExist) {
		if err := p.initialise(ctx); err != nil {
			return err
		}
	}
	hba := "local all all peer map=tenon\n"
	ident := ""
	for _, name := range p.Users {
		for _, role := range []string{superuser, ownerRole, "tenon_api", "tenon_system", "tenon_node"} {
			ident += fmt.Sprintf("tenon %q %s\n", name, role)
		}
	}
	for name, text := range map[string]string{"pg_hba.conf": hba, "pg_ident.conf": ident, "tenon.conf": settings} {
		if err := p.writeConfig(name, text); err != nil {
			return err
		}
	}
	return nil
}

// initialise runs initdb; a folder left by one that was interrupted is emptied
// first, since nothing can be in it yet.
func (p Postgres) initialise(ctx context.Context) error {
	entries, err := os.ReadDir(p.Data)
	if err != nil {
		return fmt.Errorf("read Postgres folder: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(p.Data, e.Name())); err != nil {
			return fmt.Errorf("empty Postgres folder: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.Bin, "initdb"), "-D", p.Data, "-U", superuser, "-A", "peer", "-E", "UTF8", "--locale=C.UTF-8", "--data-checksums")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.Credential, Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the database folder: %w: %s", err, bytes.TrimSpace(out))
	}
	f, err := os.OpenFile(filepath.Join(p.Data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open Postgres configuration: %w", err)
	}
	_, err = f.WriteString("include 'tenon.conf'\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write Postgres configuration: %w", err)
	}
	return p.writeConfig("tenon.ok", "initdb finished\n")
}

func (p Postgres) writeConfig(name, text string) error {
	path := filepath.Join(p.Data, name)
	if err := durable.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if p.Credential != nil {
		if err := os.Chown(path, int(p.Credential.Uid), int(p.Credential.Gid)); err != nil {
			return fmt.Errorf("give Postgres its configuration: %w", err)
		}
	}
	return nil
}

// DSN is how to reach the database, without a user.
func (p Postgres) DSN() string { return "host=" + p.Socket + " dbname=" + database }

// OwnerDSN reaches it as the owner of its tables.
func (p Postgres) OwnerDSN() string { return p.DSN() + " user=" + ownerRole }

func (p Postgres) service() Service {
	return Service{
		Name:       "postgres",
		Argv:       []string{filepath.Join(p.Bin, "postgres"), "-D", p.Data, "-k", p.Socket},
		Credential: p.Credential,
		StopSignal: syscall.SIGINT, // "fast": ends sessions, writes a checkpoint
		StopGrace:  20 * time.Second,
		Ready:      p.answers,
		ReadyIn:    90 * time.Second, // a recovery after a crash takes its time
		Config:     []byte(settings),
	}
}

func (p Postgres) answers(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, "host="+p.Socket+" dbname=postgres user="+superuser+" connect_timeout=2")
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	return conn.Close(ctx)
}

// ensureDatabase makes the owner and the database on a new server; the tables
// and the other roles are the control plane's own business.
func (p Postgres) ensureDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, "host="+p.Socket+" dbname=postgres user="+superuser)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var owner, made bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1), EXISTS (SELECT FROM pg_database WHERE datname = $2)`, ownerRole, database).Scan(&owner, &made)
	if err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if !owner {
		if _, err := conn.Exec(ctx, "CREATE ROLE "+ownerRole+" LOGIN CREATEROLE"); err != nil {
			return fmt.Errorf("create the database's owner: %w", err)
		}
	}
	if !made {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+database+" OWNER "+ownerRole); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
	}
	return nil
}
