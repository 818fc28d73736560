package devcloud

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/imagebuild"
)

// Options say which cloud is run and with what.
type Options struct {
	State    string
	Programs string // folder that holds tenond and tenon-agent
	Roots    Roots
	// Setup makes the database ready, and the administrator and a token in it;
	// it runs in this process, so that no secret passes through a file.
	Setup func(ctx context.Context, in SetupInput) (SetupResult, error)
	// AdminPassword is used for a new administrator; empty: one is generated.
	AdminPassword string
	// SimulatedNodes is the size of the simulated fleet; 0: there is none.
	SimulatedNodes int
	// Board is the simulated board of the local node; empty: local.
	Board string
	// NodeHosts are more names and addresses for the certificate of the node door,
	// by comma: those by which machines beyond a forwarder reach it.
	NodeHosts string
	// FirstImageOnly: no other images are made beside it.
	FirstImageOnly bool
}

// SetupInput is what Setup is given.
type SetupInput struct {
	CloudID       string
	StateDir      string
	OwnerDSN      string
	MasterKeyFile string
	AdminEmail    string
	AdminPassword string // for a new administrator
	TokenName     string
	TokenLife     time.Duration
}

// SetupResult is what it made.
type SetupResult struct {
	AdminCreated bool
	Token        string
	NodeCA       string // PEM: by which the node knows the door
}

const (
	adminEmail = "admin@tenon.local"
	tokenName  = "make-run"
	tokenLife  = 30 * 24 * time.Hour
)

// Run brings a cloud up, says where it is, and keeps it until ctx ends; then it
// stops everything. hurry: the second interrupt has come.
func Run(ctx context.Context, o Options, console *Console, hurry <-chan struct{}) error {
	if os.Geteuid() != 0 {
		return errors.New("a whole cloud makes containers, bridges and mounts, and needs root: run it with sudo, as `make run` does")
	}
	s, err := Open(o.State, o.Roots, o.agent(), console)
	if err != nil {
		return err
	}
	if err := s.boardFits(o); err != nil {
		if s.survivors { // what an earlier run left may have guests in it: they stay for the earlier board
			s.lock.Release()
			return err
		}
		return errors.Join(err, s.Close())
	}
	go func() {
		select {
		case <-hurry:
			s.Hurry()
		case <-s.closed:
		}
	}()
	if err = s.bringUp(ctx, func() error { return s.up(ctx, o) }); err == nil {
		<-ctx.Done()
	}
	console.Say("")
	done := console.Step("Stopping")
	closeErr := s.Close()
	if closeErr != nil {
		done("not everything could be taken away: the next `make run` or `make clean` tries again")
		return errors.Join(err, closeErr)
	}
	done("everything of this cloud is stopped")
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // interrupted while it came up
	}
	return err
}

// bringUp starts the cloud. What an earlier run left behind may have guests in
// it: no trouble that passes may end them, so it tries until it is told to stop.
func (s *Supervisor) bringUp(ctx context.Context, up func() error) error {
	wait := time.Second
	for {
		err := up()
		if err == nil || ctx.Err() != nil || !s.survivors {
			return err
		}
		s.Console.Say("  %v", err)
		s.Console.Say("  What runs goes on; trying again in %s. Ctrl-C stops the cloud and ends what runs in it.", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, 30*time.Second)
	}
}

// up starts the parts in order; what is started already is left alone.
func (s *Supervisor) up(ctx context.Context, o Options) error {
	s.Console.Say("Tenon cloud %s, state in %s", s.ID, s.State)
	if len(s.Elsewhere) > 0 {
		s.Console.Say("  %s can't live there and is in %s", strings.Join(s.Elsewhere, " and "), s.Far)
	}
	if err := s.StartPostgres(ctx); err != nil {
		return err
	}
	password, result, err := s.setup(ctx, o)
	if err != nil {
		return err
	}
	if password != "" {
		// At once: if anything after this fails or is interrupted, it is known all the same.
		s.Console.Say("  Administrator          %s, password %s", adminEmail, password)
	}
	if err := s.start(ctx, "Control plane", s.serveService(o)); err != nil {
		return err
	}
	if err := s.writeEnv(result.Token); err != nil {
		return err
	}
	client := api.NewClient(s.URL(), result.Token)
	if err := s.startNode(ctx, client, o, result.NodeCA); err != nil {
		return err
	}
	if err := s.ensureImage(ctx, client, result.Token, imagebuild.Debian); err != nil {
		return err
	}
	if err := s.waitForNode(ctx, client); err != nil {
		return err
	}
	if err := s.startFleet(ctx, client, o); err != nil {
		return err
	}
	s.announce(password)
	if !o.FirstImageOnly {
		s.moreImages(ctx, client, result.Token)
	}
	return nil
}

// startNode makes this machine a node of its own cloud.
func (s *Supervisor) startNode(ctx context.Context, client *api.Client, o Options, ca string) error {
	if err := durable.WriteFile(s.nodeCA(), []byte(ca), 0o600); err != nil {
		return err
	}
	containerd, err := s.containerdService(ctx, o)
	if err != nil {
		return err
	}
	if err := s.start(ctx, "containerd", containerd); err != nil {
		return err
	}
	if err := s.startLibvirt(ctx, o); err != nil {
		return err
	}
	if err := s.start(ctx, "Watchdog", s.watchdogService(o)); err != nil {
		return err
	}
	join, err := s.joinToken(ctx, client)
	if err != nil {
		return err
	}
	agent, err := s.agentService(o, join)
	if err != nil {
		return err
	}
	return s.start(ctx, "Node agent", agent)
}

// URL is the console's address.
func (s *Supervisor) URL() string { return "http://" + s.consoleAddress() }

func (s *Supervisor) consoleAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ConsolePort))
}

func (s *Supervisor) nodeAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.NodePort))
}

// setup makes the database ready and this run's token; the password is not
// empty when the administrator is new.
func (s *Supervisor) setup(ctx context.Context, o Options) (string, SetupResult, error) {
	done := s.Console.Step("Database")
	password := o.AdminPassword
	if password == "" {
		password = newPassword()
	}
	result, err := o.Setup(ctx, SetupInput{CloudID: s.ID, StateDir: s.State, OwnerDSN: s.Postgres.OwnerDSN(), MasterKeyFile: s.masterKey(),
		AdminEmail: adminEmail, AdminPassword: password, TokenName: tokenName, TokenLife: tokenLife})
	if err != nil {
		done("failed")
		return "", result, err
	}
	done("ready")
	if !result.AdminCreated {
		password = ""
	}
	return password, result, nil
}

// newPassword is 100 random bits in letters and digits that can't be mistaken.
func newPassword() string {
	b := make([]byte, 13)
	_, _ = rand.Read(b) // never fails
	text := strings.ToLower(base32.NewEncoding("ABCDEFGHJKLMNPQRSTUVWXYZ23456789").WithPadding(base32.NoPadding).EncodeToString(b))[:20]
	return text[:5] + "-" + text[5:10] + "-" + text[10:15] + "-" + text[15:]
}

func serveArgs(state string) []string { return []string{"serve", "--state", state} }

func (s *Supervisor) serveService(o Options) Service {
	program := filepath.Join(o.Programs, "tenond")
	return Service{
		Name: "serve",
		// The state folder in the arguments tells this cloud's process from another's.
		Argv: append([]string{program}, serveArgs(s.State)...),
		Env: []string{
			"TENON_CLOUD_ID=" + s.ID,
			"TENON_STATE_DIR=" + s.State,
			"TENON_DATABASE_URL=" + s.Postgres.OwnerDSN(),
			"TENON_MASTER_KEY_FILE=" + s.masterKey(),
			"TENON_LISTEN=" + s.consoleAddress(),
			"TENON_NODE_LISTEN=" + s.nodeAddress(),
			"TENON_NODE_HOSTS=" + o.NodeHosts,
		},
		StopSignal: syscall.SIGTERM,
		StopGrace:  8 * time.Second,
		Ready:      httpReady(s.URL() + "/readyz"),
		ReadyIn:    60 * time.Second,
	}
}

// httpReady asks a health page.
func httpReady(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("make request: %w", err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("it does not answer: %w", err)
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, res.Status)
		}
		return nil
	}
}

// writeEnv leaves the address and this run's token for scripts, for the user
// who called and nobody else.
func (s *Supervisor) writeEnv(token string) error {
	path := filepath.Join(s.State, "tenon.env")
	text := fmt.Sprintf("# Written by each `make run`; source it: . %s\nexport TENON_URL=%s\nexport TENON_TOKEN=%s\n", path, s.URL(), token)
	if err := durable.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	s.giveToCaller(path)
	return nil
}

// buildFolder is where the image is built: debootstrap can't work below a folder
// whose name a shell would split or expand.
func (s *Supervisor) buildFolder() (string, error) {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
	if strings.Trim(s.State, plain) == "" {
		return filepath.Join(s.State, "tmp"), nil
	}
	return filepath.Join(s.Far, "tmp"), s.makeFar("tmp")
}

// ProgressText puts a step and how far it is into a few words.
func ProgressText(step string, n, total int64) string {
	switch {
	case total >= 1<<20: // bytes
		return fmt.Sprintf("%s, %d of %d MiB", step, n>>20, total>>20)
	case n >= 1<<16:
		return fmt.Sprintf("%s, %d MiB", step, n>>20)
	case total > 0 && n <= total:
		return fmt.Sprintf("%s, %d of %d", step, n, total)
	case n > 0:
		return fmt.Sprintf("%s, %d", step, n)
	}
	return step
}

// waitForNode waits until the local node has reported its cards.
func (s *Supervisor) waitForNode(ctx context.Context, client *api.Client) error {
	done := s.Console.Step("Local node")
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		page, err := client.NodeList(limit, api.PageOptions{})
		if last = err; err == nil {
			for _, n := range page.Items {
				if n.Name == "local" && n.State == "ready" && len(n.GPUs) > 0 {
					done(fmt.Sprintf("%s, %d vCPU, %d GPUs%s", n.Name, n.VCPU, len(n.GPUs), simulated(n.GPUs)))
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			done("interrupted")
			return ctx.Err()
		case <-limit.Done():
			done("failed")
			return fmt.Errorf("the local node has not reported after a minute (%v); %s says:\n%s", last, s.logFile("agent"), strings.Join(tailLines(s.logFile("agent"), 6), "\n"))
		case <-tick.C:
		}
	}
}

func simulated(gpus []api.GPU) string {
	for _, g := range gpus {
		if g.Simulated {
			return " (simulated)"
		}
	}
	return ""
}

// announce is what the person was waiting for.
func (s *Supervisor) announce(password string) {
	s.Console.Say("")
	s.Console.Say("  Console                %s", s.URL())
	if password != "" {
		s.Console.Say("  Sign in                %s, password %s", adminEmail, password)
		s.Console.Say("                         The password is shown this once.")
	} else {
		s.Console.Say("  Sign in                %s, with the password shown by the first run", adminEmail)
	}
	s.Console.Say("  Command line           . %s && bin/tenon instance list", relative(filepath.Join(s.State, "tenon.env")))
	s.Console.Say("")
	s.Console.Say("  Ctrl-C stops the cloud and ends what runs in it; disks, homes, images and books are kept.")
}

func relative(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return path
}

// output runs a short command of the agent's and returns what it printed.
func output(ctx context.Context, env []string, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is ours to deal with
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out.Bytes(), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
