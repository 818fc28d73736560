package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/device/sim"
)

// fleetConfig is what a fleet of simulated nodes is told.
type fleetConfig struct {
	nodes          int
	stateDir       string
	doorURL        string
	joinTokensFile string
	caFile         string
	seed           string
	log            config // only how it logs
}

func readFleetConfig(args []string, getenv func(string) string) (fleetConfig, error) {
	c := fleetConfig{log: config{logFormat: "text", logLevel: "info"}}
	fs := flag.NewFlagSet("tenon-agent fleet", flag.ContinueOnError)
	text := func(p *string, name, env, fallback, usage string) {
		if v := getenv(env); v != "" {
			fallback = v
		}
		fs.StringVar(p, name, fallback, usage+" ($"+env+")")
	}
	var bad []error
	c.nodes = 12
	if v := getenv("TENON_AGENT_NODES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			bad = append(bad, fmt.Errorf("TENON_AGENT_NODES: %q is not a number", v))
		}
		c.nodes = n
	}
	fs.IntVar(&c.nodes, "nodes", c.nodes, fmt.Sprintf("how many nodes are simulated, at most %d ($TENON_AGENT_NODES)", sim.FleetMax))
	text(&c.stateDir, "state-dir", "TENON_AGENT_STATE_DIR", "/var/lib/tenon-fleet", "folder that keeps each node's identity, ledger and guests")
	text(&c.doorURL, "door", "TENON_AGENT_DOOR_URL", "", "the control plane's node door, https://HOST:PORT")
	text(&c.joinTokensFile, "join-tokens-file", "TENON_AGENT_JOIN_TOKENS_FILE", "", "file with a line NAME TOKEN for each node that has not enrolled")
	text(&c.caFile, "ca-file", "TENON_AGENT_CA_FILE", "", "file with the CA certificate of the node door (PEM)")
	text(&c.seed, "seed", "TENON_AGENT_SEED", "tenon", "makes the cards' ids and all delays the same again")
	text(&c.log.logFormat, "log-format", "TENON_AGENT_LOG_FORMAT", "text", "text or json")
	text(&c.log.logLevel, "log-level", "TENON_AGENT_LOG_LEVEL", "info", "debug, info, warn or error")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		bad = append(bad, fmt.Errorf("unexpected %q", fs.Args()))
	}
	if c.nodes < 1 || c.nodes > sim.FleetMax {
		bad = append(bad, fmt.Errorf("-nodes %d: there can be 1 to %d simulated nodes", c.nodes, sim.FleetMax))
	}
	if !strings.HasPrefix(c.doorURL, "https://") {
		bad = append(bad, errors.New("the node door's address is needed: -door https://HOST:PORT"))
	}
	c.doorURL = strings.TrimSuffix(c.doorURL, "/")
	return c, errors.Join(bad...)
}

// joinTokens reads the tokens by the names of their nodes. A file that is not
// there holds none: all have enrolled.
func (c fleetConfig) joinTokens() (map[string]string, error) {
	out := map[string]string{}
	if c.joinTokensFile == "" {
		return out, nil
	}
	f, err := os.Open(c.joinTokensFile)
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read join tokens: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("read join tokens: line %d is not NAME TOKEN", n)
		}
		out[words[0]] = words[1]
	}
	return out, lines.Err()
}

func (c fleetConfig) logger() (*slog.Logger, error) { return c.log.logger() }
