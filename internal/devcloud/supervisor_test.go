package devcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The test binary is also the supervisor that the tests start and kill: a real
// process with a real Postgres and one more child.
const (
	asSupervisor = "TENON_TEST_SUPERVISOR"
	asChild      = "TENON_TEST_CHILD"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asChild) != "":
		select {}
	case os.Getenv(asSupervisor) != "":
		if err := superviseForTest(os.Getenv(asSupervisor)); err != nil {
			fmt.Println("FAILED", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func superviseForTest(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := Open(filepath.Join(dir, "checkout", "var"), rootsIn(dir), "", NewConsole(os.Stdout))
	if err != nil {
		return err
	}
	tries := 0
	err = s.bringUp(ctx, func() error {
		if err := s.StartPostgres(ctx); err != nil {
			return err
		}
		tries++
		if s.survivors && tries == 1 { // the registry, say, has no answer yet
			return errors.New("trouble that passes")
		}
		return s.start(ctx, "Child", Service{Name: "serve", Argv: []string{os.Args[0], s.Run}, Env: []string{asChild + "=1"}, StopSignal: syscall.SIGTERM, StopGrace: time.Second})
	})
	if err == nil {
		fmt.Println("RUNNING")
		<-ctx.Done()
	}
	return errors.Join(err, s.Close())
}

func rootsIn(dir string) Roots {
	return Roots{Run: filepath.Join(dir, "run"), Lib: filepath.Join(dir, "lib")}
}

// testCloud is a folder in which clouds of one test live.
type testCloud struct {
	t   *testing.T
	dir string
}

func newTestCloud(t *testing.T) testCloud {
	t.Helper()
	if _, err := findPostgres(); err != nil {
		t.Skipf("no private Postgres can be started: %v", err)
	}
	// Not t.TempDir: its parents are closed to the user postgres, and its paths
	// are too long for sockets.
	dir, err := os.MkdirTemp("/tmp", "tn-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Clean(filepath.Join(dir, "checkout", "var"), rootsIn(dir), "", t.Logf); err != nil {
			t.Errorf("clean: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	return testCloud{t, dir}
}

// supervise starts a supervisor process and waits until it says that all runs.
func (c testCloud) supervise() *exec.Cmd {
	c.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asSupervisor+"="+c.dir)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	running := make(chan bool, 1)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := pipe.Read(buf)
			out.Write(buf[:n])
			if strings.Contains(out.String(), "RUNNING") {
				running <- true
				_, _ = out.ReadFrom(pipe)
				return
			}
			if err != nil {
				running <- false
				return
			}
		}
	}()
	select {
	case ok := <-running:
		if !ok {
			c.t.Fatalf("the supervisor ended:\n%s", out.String())
		}
	case <-time.After(60 * time.Second):
		_ = cmd.Process.Kill()
		c.t.Fatal("the supervisor did not come up in a minute")
	}
	return cmd
}

func (c testCloud) run() string {
	c.t.Helper()
	id, err := readIdentity(filepath.Join(c.dir, "checkout", "var"))
	if err != nil {
		c.t.Fatal(err)
	}
	return filepath.Join(c.dir, "run", "tenon-"+id.ID)
}

func (c testCloud) pid(name string) process {
	c.t.Helper()
	var p process
	text, err := os.ReadFile(pidFile(c.run(), name))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c testCloud) query(sql string) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(c.run(), "pg")+" dbname=tenon user=tenon_owner")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not in 30 s: %s", what)
		case <-tick.C:
		}
	}
}

func TestKilledChildrenAreRestarted(t *testing.T) {
	t.Parallel()
	c := newTestCloud(t)
	sup := c.supervise()
	if err := c.query(`CREATE TABLE kept (n int)`); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"serve", "postgres"} {
		before := c.pid(name)
		if err := before.signal(syscall.SIGKILL); err != nil {
			t.Fatalf("kill %s: %v", name, err)
		}
		eventually(t, name+" runs again", func() bool { now := c.pid(name); return now != before && now.alive() })
	}
	eventually(t, "Postgres answers, with its data", func() bool { return c.query(`INSERT INTO kept VALUES (1)`) == nil })
	c.end(sup)
}

// end stops a supervisor as Ctrl-C does and checks that it left nothing.
func (c testCloud) end(sup *exec.Cmd) {
	c.t.Helper()
	run, children := c.run(), []process{c.pid("serve"), c.pid("postgres")}
	if err := sup.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := sup.Wait(); err != nil {
		c.t.Fatalf("the supervisor's end: %v", err)
	}
	for _, p := range children {
		if p.alive() {
			c.t.Errorf("process %d outlived its cloud", p.PID)
		}
	}
	if _, err := os.Stat(run); !errors.Is(err, os.ErrNotExist) {
		c.t.Errorf("the run directory is still there (%v)", err)
	}
}

// Also when the second supervisor's start meets trouble, it ends none of them.
func TestSurvivorsOfAKilledSupervisorAreAdopted(t *testing.T) {
	t.Parallel()
	c := newTestCloud(t)
	first := c.supervise()
	serve, postgres := c.pid("serve"), c.pid("postgres")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	if !serve.alive() || !postgres.alive() {
		t.Fatal("a child died with its supervisor")
	}
	// The second finds one by its pid file and, as if the first had died before
	// writing it, the other by its command line.
	if err := os.Remove(pidFile(c.run(), "postgres")); err != nil {
		t.Fatal(err)
	}
	second := c.supervise()
	if now := c.pid("serve"); now != serve {
		t.Errorf("serve is process %d, was %d: it was not adopted", now.PID, serve.PID)
	}
	if err := c.query(`SELECT 1`); err != nil {
		t.Errorf("Postgres after adoption: %v", err)
	}
	// An adopted child is kept like any other.
	if err := serve.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an adopted child that was killed runs again", func() bool { now := c.pid("serve"); return now != serve && now.alive() })
	c.end(second)
}

func TestTwoSupervisorsOfOneFolderDoNotFight(t *testing.T) {
	t.Parallel()
	c := newTestCloud(t)
	sup := c.supervise()
	_, err := Open(filepath.Join(c.dir, "checkout", "var"), rootsIn(c.dir), "", NewConsole(os.Stdout))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", sup.Process.Pid)) {
		t.Errorf("the second says %v, want the first's process number %d", err, sup.Process.Pid)
	}
	c.end(sup)
}

func TestPruneTakesWhatAGoneCheckoutLeft(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"its supervisor was killed": true, "its supervisor still runs": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pruneAfter(t, killed)
		})
	}
}

func pruneAfter(t *testing.T, killed bool) {
	c := newTestCloud(t)
	first := c.supervise()
	run, serve, postgres := c.run(), c.pid("serve"), c.pid("postgres")
	if killed {
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = first.Wait() }()
	if err := os.RemoveAll(filepath.Join(c.dir, "checkout")); err != nil {
		t.Fatal(err)
	}
	second := c.supervise() // the same folder, made anew: another cloud
	if serve.alive() || postgres.alive() {
		t.Error("children of the old cloud still run")
	}
	if _, err := os.Stat(run); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old cloud's run directory is still there (%v)", err)
	}
	c.end(second)
}
