package devcloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// withDatabase does what a backup does, or with alone what a restore does; ran
// says whether it came to the database.
func (c testCloud) withDatabase(alone bool) (ran bool, err error) {
	c.t.Helper()
	err = WithDatabase(c.t.Context(), filepath.Join(c.dir, "checkout", "var"), rootsIn(c.dir), NewConsole(os.Stdout), alone, "", func(p Place) error {
		ran = true
		conn, err := pgx.Connect(c.t.Context(), p.OwnerDSN)
		if err != nil {
			return err
		}
		_, err = conn.Exec(c.t.Context(), `CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES (1)`)
		return errors.Join(err, conn.Close(context.WithoutCancel(c.t.Context())))
	})
	return ran, err
}

func TestABackupHarmsNothingOfACloudWhoseSupervisorWasKilled(t *testing.T) {
	t.Parallel()
	c := newTestCloud(t)
	sup := c.supervise()
	serve, postgres := c.pid("serve"), c.pid("postgres")
	if err := sup.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sup.Wait()
	lives := func(after string, want ...process) {
		t.Helper()
		for _, p := range want {
			if !p.alive() {
				t.Fatalf("process %d did not live through %s", p.PID, after)
			}
		}
		for _, name := range []string{"", "serve.pid", "postgres.pid", "supervisor.pid", identityFile} {
			if _, err := os.Stat(filepath.Join(c.run(), name)); err != nil {
				t.Fatalf("after %s: %v", after, err)
			}
		}
	}
	if ran, err := c.withDatabase(false); err != nil || !ran {
		t.Fatalf("a backup: %v (came to the database: %v)", err, ran)
	}
	lives("a backup", serve, postgres)
	if ran, err := c.withDatabase(true); err == nil || ran || !strings.Contains(err.Error(), fmt.Sprintf("process %d", serve.PID)) {
		t.Fatalf("a restore beside a control plane: %v (came to the database: %v)", err, ran)
	}
	lives("a restore that was refused", serve, postgres)
	if err := serve.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "serve has ended", func() bool { return !serve.alive() })
	if ran, err := c.withDatabase(true); err != nil || !ran {
		t.Fatalf("a restore without a control plane: %v (came to the database: %v)", err, ran)
	}
	lives("a restore", postgres)
	c.end(c.supervise())
}

// What is started for a backup alone ends with it, and nothing else.
func TestABackupOfAStoppedCloudStartsPostgresForItself(t *testing.T) {
	t.Parallel()
	c := newTestCloud(t)
	sup := c.supervise()
	if ran, err := c.withDatabase(false); err != nil || !ran {
		t.Fatalf("a backup of a running cloud: %v (came to the database: %v)", err, ran)
	}
	if ran, err := c.withDatabase(true); err == nil || ran {
		t.Fatalf("a restore of a running cloud: %v (came to the database: %v)", err, ran)
	}
	c.end(sup)
	if ran, err := c.withDatabase(true); err != nil || !ran {
		t.Fatalf("a restore of a stopped cloud: %v (came to the database: %v)", err, ran)
	}
	if _, err := os.Stat(c.run()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run directory is there after it (%v)", err)
	}
	sup = c.supervise()
	serve, postgres := c.pid("serve"), c.pid("postgres")
	if err := sup.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sup.Wait()
	if err := postgres.signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Postgres has ended", func() bool { return !postgres.alive() })
	if ran, err := c.withDatabase(false); err != nil || !ran {
		t.Fatalf("a backup without Postgres: %v (came to the database: %v)", err, ran)
	}
	if _, err := os.Stat(pidFile(c.run(), "serve")); err != nil || !serve.alive() {
		t.Errorf("a child did not live through a backup (%v)", err)
	}
	if _, err := os.Stat(pidFile(c.run(), "postgres")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the Postgres of the backup goes on (%v)", err)
	}
	c.end(c.supervise())
}
