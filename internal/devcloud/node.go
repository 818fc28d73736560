package devcloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/durable"
)

// nodeEnv is what every call of tenon-agent needs to know of this cloud.
func (s *Supervisor) nodeEnv() []string { return nodeEnv(s.Layout) }

func nodeEnv(l Layout) []string {
	return []string{
		"TENON_AGENT_CLOUD_ID=" + l.ID,
		"TENON_AGENT_STATE_DIR=" + l.Folder(partNode),
		"TENON_AGENT_RUN_DIR=" + l.Run,
	}
}

func (l Layout) nodeCA() string { return filepath.Join(l.State, "secrets", "node-ca.pem") }

// containerdService is the node's private containerd, configured by the agent,
// which is the one that uses it.
func (s *Supervisor) containerdService(ctx context.Context, o Options) (Service, error) {
	program, err := exec.LookPath("containerd")
	if err != nil {
		return Service{}, errors.New("containerd is not installed: `sudo deploy/setup.sh` installs Debian's")
	}
	if err := os.MkdirAll(s.Folder(partNode), 0o711); err != nil {
		return Service{}, fmt.Errorf("make node folder: %w", err)
	}
	text, err := output(ctx, s.nodeEnv(), o.agent(), "containerd-config")
	if err != nil {
		return Service{}, fmt.Errorf("configure containerd: %w", err)
	}
	path := filepath.Join(s.Run, "containerd.toml")
	if err := durable.WriteFile(path, text, 0o600); err != nil {
		return Service{}, err
	}
	return Service{
		Name:       "containerd",
		Argv:       []string{program, "--config", path},
		StopSignal: syscall.SIGTERM,
		StopGrace:  5 * time.Second,
		Ready:      answersOn(filepath.Join(s.Run, "containerd.sock")),
		ReadyIn:    30 * time.Second,
		Config:     text,
	}, nil
}

// joinToken is needed until the node has its certificate.
func (s *Supervisor) joinToken(ctx context.Context, client *api.Client) (string, error) {
	if exists(filepath.Join(s.Folder(partNode), "identity.json")) {
		return "", nil
	}
	made, err := client.JoinTokenCreate(ctx, api.JoinTokenCreate{})
	if err != nil {
		return "", fmt.Errorf("make a join token for the local node: %w", err)
	}
	return made.JoinToken, nil
}

func (s *Supervisor) agentService(o Options, join string) (Service, error) {
	// The token comes by a file: an environment can be read for as long as the
	// process lives.
	path := filepath.Join(s.Run, "join-token")
	if join != "" {
		if err := durable.WriteFile(path, []byte(join+"\n"), 0o600); err != nil {
			return Service{}, err
		}
	}
	return Service{
		Name: "agent",
		Argv: []string{o.agent(), "run", "-state-dir", s.Folder(partNode)},
		Env: append(append(s.nodeEnv(), virtEnv()...),
			"TENON_AGENT_DOOR_URL=https://"+s.nodeAddress(),
			"TENON_AGENT_NAME=local",
			"TENON_AGENT_CA_FILE="+s.nodeCA(),
			"TENON_AGENT_JOIN_TOKEN_FILE="+path,
			"TENON_AGENT_BOARD=sim:"+o.board(),
			"TENON_AGENT_LOG_FORMAT=json",
		),
		StopSignal: syscall.SIGTERM,
		StopGrace:  10 * time.Second,
	}, nil
}

// boardFits reports whether the local node can start with the board that is asked
// for: its agent would end at once, for as long as a card of another one is held.
func (s *Supervisor) boardFits(o Options) error {
	if err := sim.Fits(filepath.Join(s.Folder(partNode), "sim"), o.board()); err != nil {
		return fmt.Errorf("--board: %w", err)
	}
	return nil
}

func (o Options) board() string { return cmp.Or(o.Board, "local") }

// watchdogService ends guests that may not run without contact when the agent
// can't.
func (s *Supervisor) watchdogService(o Options) Service {
	return Service{
		Name: "watchdog", Argv: []string{o.agent(), "watchdog", "-state-dir", s.Folder(partNode)},
		Env: append(s.nodeEnv(), "TENON_AGENT_LOG_FORMAT=json"), StopSignal: syscall.SIGTERM, StopGrace: 5 * time.Second,
	}
}

func (o Options) agent() string { return filepath.Join(o.Programs, "tenon-agent") }

// purgeGuests ends every guest of a cloud and takes away what they held on the
// host; the agent's own command knows it best.
func purgeGuests(ctx context.Context, l Layout, agent string) error {
	if agent == "" || !exists(agent) || !exists(l.Folder(partNode)) || os.Geteuid() != 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := output(ctx, nodeEnv(l), agent, "purge"); err != nil {
		return fmt.Errorf("stop guests: %w", err)
	}
	return nil
}
