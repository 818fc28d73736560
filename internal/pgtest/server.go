package pgtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenon-cloud/tenon/internal/postgres"
	"github.com/tenon-cloud/tenon/migrations"
)

// server is this process's own Postgres.
type server struct {
	dir      string // also the socket's folder
	template string
	stdin    *os.File // its closing, by us or by our death, ends the server

	once   sync.Once
	pool   *pgxpool.Pool
	poolEr error
}

// keeper runs the server until its standard input ends, which it does when the
// test process has gone however it went, and leaves nothing behind.
const keeper = `
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c synchronous_commit=off \
  -c full_page_writes=off -c jit=off -c max_connections=400 -c shared_buffers=64MB -c autovacuum=off \
  -c wal_level=minimal -c max_wal_senders=0 -c max_locks_per_transaction=256 -c log_min_messages=fatal >"$2/log" 2>&1 &
pid=$!
cat >/dev/null
kill -QUIT $pid
wait $pid
cd / && rm -rf "$2"`

func start() (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "tenon-pg-")
	if err != nil {
		return nil, fmt.Errorf("make the server's folder: %w", err)
	}
	cred, err := credential(dir)
	if err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres",
		"-A", "trust", "-E", "UTF8", "--locale=C", "-N", "--wal-segsize=4")
	initdb.Dir, initdb.SysProcAttr = "/", cred
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the keeper's pipe: %w", err)
	}
	keep := exec.Command("sh", "-c", keeper, "sh", bin, dir)
	attr := *cred
	attr.Setpgid = true // an interrupt at the terminal is ours to pass on
	keep.Dir, keep.SysProcAttr, keep.Stdin = "/", &attr, r
	if err := keep.Start(); err != nil {
		return nil, fmt.Errorf("start Postgres: %w", err)
	}
	r.Close()
	s := &server{dir: dir, stdin: w}
	return s, s.prepare()
}

// binaries finds Postgres: $PG_BIN, PATH, or where Debian puts it.
func binaries() (string, error) {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", errors.New("no Postgres found: install the Debian package postgresql, or set PG_BIN to its bin folder")
	}
	sort.Strings(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// credential gives the folder to the user postgres when we are root, as whom
// Postgres refuses to run.
func credential(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find the user postgres, as whom the server must run: %w", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, fmt.Errorf("give the server its folder: %w", err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func (s *server) dsn(database string) string {
	return "host=" + s.dir + " dbname=" + database
}

// prepare waits for the server and makes the template, named by what is in it.
func (s *server) prepare() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := s.exec(ctx, "CREATE ROLE tenon_owner LOGIN CREATEROLE CREATEDB")
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("wait for Postgres: %w: %s", err, bytes.TrimSpace(log))
		case <-time.After(10 * time.Millisecond):
		}
	}
	hash, err := migrationsHash()
	if err != nil {
		return err
	}
	s.template = "template_" + hash
	if err := s.exec(ctx, "CREATE DATABASE "+s.template+" OWNER tenon_owner"); err != nil {
		return err
	}
	return postgres.Bootstrap(ctx, postgres.BootstrapConfig{OwnerDSN: s.dsn(s.template) + " user=tenon_owner", CloudID: "7e57c10d"})
}

func migrationsHash() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(migrations.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(migrations.Files, path)
		fmt.Fprintf(h, "%s\x00%d\x00%s", path, len(b), b)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the migrations: %w", err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), nil
}

// exec runs one statement as the cluster's superuser.
func (s *server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.dsn("postgres")+" user=postgres")
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", strings.SplitN(sql, " ", 3)[0], err)
	}
	return nil
}

func (s *server) clone(ctx context.Context, name string) error {
	running.clone.Lock()
	defer running.clone.Unlock()
	return s.exec(ctx, "CREATE DATABASE "+name+" OWNER tenon_owner TEMPLATE "+s.template+" STRATEGY FILE_COPY")
}

// shared is one database for all tests that roll back.
func (s *server) shared(ctx context.Context) (*pgxpool.Pool, error) {
	s.once.Do(func() {
		if s.poolEr = s.clone(ctx, "rolled_back"); s.poolEr == nil {
			s.pool, s.poolEr = pgxpool.New(ctx, s.dsn("rolled_back")+" user=tenon_owner pool_max_conns=32")
		}
	})
	return s.pool, s.poolEr
}
