package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/agent"
)

// config is what the agent is told; every flag has an environment variable.
type config struct {
	stateDir      string
	runDir        string
	engineDir     string
	doorURL       string
	joinTokenFile string
	caFile        string
	caFingerprint string
	name          string
	socket        string
	board         string
	gpuModes      map[int]string
	gpuAllow      gpuAllow
	hugePages     bool
	labels        map[string]string
	cloudID       string
	reserveVCPU   int
	reserveMiB    int64
	poolMiB       int64
	logFormat     string
	logLevel      string
}

func readConfig(args []string, getenv func(string) string) (config, error) {
	var c config
	var modes, labels, allow, huge string
	host, _ := os.Hostname()
	fs := flag.NewFlagSet("tenon-agent", flag.ContinueOnError)
	var bad []error
	text := func(p *string, name, env, fallback, usage string) {
		if v := getenv(env); v != "" {
			fallback = v
		}
		fs.StringVar(p, name, fallback, usage+" ($"+env+")")
	}
	number := func(p *int64, name, env string, fallback int64, usage string) {
		if v := getenv(env); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 {
				bad = append(bad, fmt.Errorf("%s: %q is not a number", env, v))
			}
			fallback = n
		}
		fs.Int64Var(p, name, fallback, usage+" ($"+env+")")
	}
	text(&c.stateDir, "state-dir", "TENON_AGENT_STATE_DIR", "/var/lib/tenon-agent", "folder for what must survive a reboot")
	text(&c.runDir, "run-dir", "TENON_AGENT_RUN_DIR", "/run/tenon-agent", "folder for sockets, namespaces and mounts")
	text(&c.engineDir, "engine-dir", "TENON_AGENT_ENGINE_DIR", "", "folder for images, disks and logs; default: containerd below the state folder")
	text(&c.doorURL, "door", "TENON_AGENT_DOOR_URL", "", "the control plane's node door, https://HOST:PORT")
	text(&c.joinTokenFile, "join-token-file", "TENON_AGENT_JOIN_TOKEN_FILE", "", "file with the join token; needed the first time")
	text(&c.caFile, "ca-file", "TENON_AGENT_CA_FILE", "", "file with the CA certificate of the node door (PEM)")
	text(&c.caFingerprint, "ca-fingerprint", "TENON_AGENT_CA_FINGERPRINT", "", "instead of the file: sha256:<hex> of that certificate")
	text(&c.name, "name", "TENON_AGENT_NAME", strings.ToLower(strings.Split(host, ".")[0]), "name of this node")
	text(&c.socket, "containerd-socket", "TENON_AGENT_CONTAINERD_SOCKET", "", "socket of this cloud's own containerd; default: containerd.sock in the run folder")
	text(&c.board, "board", "TENON_AGENT_BOARD", "none", "where GPUs come from: none, host for this machine's own, or sim:NAME for a simulated board")
	text(&modes, "gpu-modes", "TENON_AGENT_GPU_MODES", "", "modes of simulated cards by index, for instance 0=whole,1=mig")
	text(&allow, "gpu-allow", "TENON_AGENT_GPU_ALLOW", "", "what the host board offers beside the cards of known vendors: PCI vendor:device, or mdev:NAME, for instance 1234:11e8,mdev:mtty")
	text(&huge, "vm-hugepages", "TENON_AGENT_VM_HUGEPAGES", "false", "true: virtual machines have huge pages for memory, which the host must have set aside")
	text(&labels, "labels", "TENON_AGENT_LABELS", "", "what operators know this node by, for instance rack=a1,zone=north")
	text(&c.cloudID, "cloud-id", "TENON_AGENT_CLOUD_ID", "", "id of the cloud, checked against the certificate's; purge needs it")
	text(&c.logFormat, "log-format", "TENON_AGENT_LOG_FORMAT", "text", "text or json")
	text(&c.logLevel, "log-level", "TENON_AGENT_LOG_LEVEL", "info", "debug, info, warn or error")
	var reserveVCPU int64
	number(&reserveVCPU, "reserve-vcpu", "TENON_AGENT_RESERVE_VCPU", 0, "vCPUs that the host keeps for itself")
	number(&c.reserveMiB, "reserve-memory-mib", "TENON_AGENT_RESERVE_MEMORY_MIB", agent.ReserveMemoryMiB, "MiB of memory that the host keeps for itself")
	number(&c.poolMiB, "disk-pool-mib", "TENON_AGENT_DISK_POOL_MIB", 0, "MiB for all writable layers and volumes; all of them reserved; 0: half of the free space, 65536 at most")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		bad = append(bad, fmt.Errorf("unexpected %q", fs.Args()))
	}
	c.reserveVCPU = int(reserveVCPU)
	if c.engineDir == "" {
		c.engineDir = filepath.Join(c.stateDir, "containerd")
	}
	var err error
	if c.gpuModes, err = parseModes(modes); err != nil {
		bad = append(bad, err)
	}
	if c.gpuAllow, err = parseAllow(allow); err != nil {
		bad = append(bad, err)
	}
	if c.hugePages, err = strconv.ParseBool(huge); err != nil {
		bad = append(bad, fmt.Errorf("huge pages: %q is neither true nor false", huge))
	}
	if c.labels, err = parseLabels(labels); err != nil {
		bad = append(bad, err)
	}
	if c.logFormat != "text" && c.logFormat != "json" {
		bad = append(bad, fmt.Errorf("log format %q is neither text nor json", c.logFormat))
	}
	c.doorURL = strings.TrimSuffix(c.doorURL, "/")
	return c, errors.Join(bad...)
}

// parseModes reads 0=whole,1=mig.
func parseModes(s string) (map[int]string, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no modes are an answer
	}
	m := map[int]string{}
	for part := range strings.SplitSeq(s, ",") {
		index, mode, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(index)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("GPU modes %q: write them as 0=whole,1=mig", s)
		}
		m[n] = mode
	}
	return m, nil
}

// parseLabels reads rack=a1,zone=north.
func parseLabels(s string) (map[string]string, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no labels are an answer
	}
	m := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || k == "" || v == "" {
			return nil, fmt.Errorf("labels %q: write them as rack=a1,zone=north", s)
		}
		m[k] = v
	}
	return m, nil
}

// logger writes to standard error; the supervisor keeps it.
func (c config) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		return nil, fmt.Errorf("log level %q: %w", c.logLevel, err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
}
