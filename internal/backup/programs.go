package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// programs are Postgres's own, of one version.
type programs struct {
	folder string
	major  int
}

// findPrograms looks for pg_dump and its kin: of the server's own version if they
// are here, or the oldest that is newer, since an older one can't read the server.
func findPrograms(ctx context.Context, server int) (programs, error) {
	var folders []string
	if bin := os.Getenv("PG_BIN"); bin != "" {
		folders = []string{bin}
	} else {
		folders, _ = filepath.Glob("/usr/lib/postgresql/*/bin")
		if path, err := exec.LookPath("pg_dump"); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	var found []programs
	for _, f := range folders {
		out, err := exec.CommandContext(ctx, filepath.Join(f, "pg_dump"), "--version").Output()
		if err != nil {
			continue
		}
		if m := versionForm.FindSubmatch(out); m != nil {
			major, _ := strconv.Atoi(string(m[1]))
			found = append(found, programs{f, major})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].major < found[j].major })
	for _, p := range found {
		if p.major >= server {
			return p, nil
		}
	}
	return programs{}, fmt.Errorf("pg_dump of Postgres %d or newer is not on this machine: install the package postgresql-client-%[1]d, or set PG_BIN to a folder that holds it", server)
}

var versionForm = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

var keywordPassword = regexp.MustCompile(`(?i)password\s*=\s*('(\\.|[^'\\])*'|\S+)`)

// withoutPassword takes the password out of a database's address, so that it is
// in no argument that others can read.
func withoutPassword(dsn string) (address, password string) {
	if u, err := url.Parse(dsn); err == nil && u.Scheme != "" {
		password, _ = u.User.Password()
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
		return u.String(), password
	}
	if m := keywordPassword.FindStringSubmatch(dsn); m != nil {
		password = m[1]
		if strings.HasPrefix(password, "'") {
			password = strings.NewReplacer(`\\`, `\`, `\'`, `'`).Replace(strings.Trim(password, "'"))
		}
	}
	return strings.TrimSpace(keywordPassword.ReplaceAllString(dsn, "")), password
}

// command is one of the programs, on a database.
func (p programs) command(ctx context.Context, name, dsn string, args ...string) *exec.Cmd {
	address, password := withoutPassword(dsn)
	if address != "" {
		args = append(args, "--dbname="+address)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.folder, name), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "PGAPPNAME=tenond", "PGOPTIONS=-c statement_timeout=0 -c lock_timeout=60000", "LC_ALL=C.UTF-8")
	if password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	}
	return cmd
}

// dump writes the database of a snapshot to w's stream.
func (p programs) dump(ctx context.Context, dsn, snapshot string, to func(io.Reader) error) error {
	cmd := p.command(ctx, "pg_dump", dsn, "--format=custom", "--no-owner", "--no-tablespaces", "--lock-wait-timeout=60000", "--snapshot="+snapshot)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start pg_dump: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start pg_dump: %w", err)
	}
	err = to(out)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("dump the database: %w: %s", ended, lastLine(said.Bytes()))
	}
	return err
}

// load puts a dump into a database, in one transaction with what goes before and
// after it.
func (p programs) load(ctx context.Context, dsn, before, after string, dump io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore := p.command(ctx, "pg_restore", "", "--no-owner", "--no-comments", "--exit-on-error", "--file=-")
	psql := p.command(ctx, "psql", dsn, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--output=/dev/null", "--file=-")
	var restoreSaid, psqlSaid bytes.Buffer
	restore.Stdin, restore.Stderr, psql.Stderr = dump, &restoreSaid, &psqlSaid
	script, err := restore.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start pg_restore: %w", err)
	}
	in, err := psql.StdinPipe()
	if err != nil {
		return fmt.Errorf("start psql: %w", err)
	}
	if err := psql.Start(); err != nil {
		return fmt.Errorf("start psql: %w", err)
	}
	if err := restore.Start(); err != nil {
		cancel()
		_ = psql.Wait()
		return fmt.Errorf("start pg_restore: %w", err)
	}
	var feeding sync.WaitGroup
	var fed error
	feeding.Go(func() {
		_, err1 := io.WriteString(in, before)
		_, err2 := io.Copy(in, script)
		ended := restore.Wait()
		if fed = errors.Join(err1, err2, ended); fed != nil {
			// The end of a script is its commit: one that is cut off must not end.
			cancel()
			return
		}
		if _, fed = io.WriteString(in, after); fed != nil {
			cancel()
			return
		}
		fed = in.Close()
	})
	err = psql.Wait()
	feeding.Wait()
	switch {
	case psqlSaid.Len() > 0 && err != nil:
		return fmt.Errorf("restore the database: %w: %s", err, lastLine(psqlSaid.Bytes()))
	case fed != nil:
		return fmt.Errorf("read the database's dump: %w: %s", fed, lastLine(restoreSaid.Bytes()))
	case err != nil:
		return fmt.Errorf("restore the database: %w", err)
	}
	return nil
}

func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	for _, l := range lines { // the first that says what is wrong
		if bytes.Contains(l, []byte("ERROR")) || bytes.Contains(l, []byte("error:")) || bytes.Contains(l, []byte("FATAL")) {
			return string(bytes.TrimSpace(l))
		}
	}
	return string(lines[len(lines)-1])
}
