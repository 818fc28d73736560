// Package target is how the proofs reach a cloud that `tenond dev` runs: by its
// API, by Postgres's own client and by containerd's, never through Tenon's code,
// so that a proof shares no mistake with what it proves.
package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tenon-cloud/tenon/api"
)

// Project is where the proofs work.
const Project = "default"

// Target is a running cloud.
type Target struct {
	ID     string // 8 hexadecimal digits
	State  string // its state folder
	Run    string // its run directory
	Client *api.Client

	NodePorts []string // of the node door, one for each replica

	token atomic.Value
}

// present sends the present token: each start of the cloud makes a new one.
type present struct {
	t    *Target
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p *present) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+p.t.token.Load().(string))
	return p.next.RoundTrip(r)
}

// Reload reads the token again, after one was refused.
func (t *Target) Reload() {
	if values, err := environment(t.State); err == nil && values["TENON_TOKEN"] != "" {
		t.token.Store(values["TENON_TOKEN"])
	}
}

// environment is what a cloud leaves for scripts.
func environment(state string) (map[string]string, error) {
	env, err := os.ReadFile(filepath.Join(state, "tenon.env"))
	if err != nil {
		return nil, fmt.Errorf("read the cloud's address (does `make run` run?): %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(env)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		if key, value, ok := strings.Cut(line, "="); ok {
			values[key] = strings.Trim(value, `'"`)
		}
	}
	return values, nil
}

// Open finds the cloud of a state folder.
func Open(state string) (*Target, error) {
	values, err := environment(state)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(state, "cloud.json"))
	if err != nil {
		return nil, fmt.Errorf("read the cloud's identity: %w", err)
	}
	var identity struct {
		ID       string `json:"id"`
		NodePort int    `json:"node_port"`
	}
	if err := json.Unmarshal(text, &identity); err != nil || identity.ID == "" {
		return nil, fmt.Errorf("cloud.json has no id: %v", err)
	}
	t := &Target{ID: identity.ID, State: state, Run: "/run/tenon-" + identity.ID, Client: api.NewClient(values["TENON_URL"], values["TENON_TOKEN"])}
	t.token.Store(values["TENON_TOKEN"])
	t.Client.HTTP.Transport = &present{t, t.Client.HTTP.Transport}
	t.NodePorts = []string{strconv.Itoa(identity.NodePort)}
	if t.Client.BaseURL == "" || t.Client.Token == "" {
		return nil, fmt.Errorf("%s/tenon.env lacks TENON_URL or TENON_TOKEN", state)
	}
	return t, nil
}

// PID reads the process of a child from the supervisor's own notes.
func (t *Target) PID(child string) (int, error) {
	text, err := os.ReadFile(filepath.Join(t.Run, child+".pid"))
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", child, err)
	}
	var p struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(text, &p); err != nil || p.PID <= 1 {
		return 0, fmt.Errorf("read %s.pid: no process in it", child)
	}
	return p.PID, nil
}

// PostgresFolder is where its socket is.
func (t *Target) PostgresFolder() string { return filepath.Join(t.Run, "pg") }

// SQL asks Postgres with its own client, as the owner of the tables; one row a
// line, columns separated by "|".
func (t *Target) SQL(ctx context.Context, query string) ([]string, error) {
	out, err := output(exec.CommandContext(ctx, "psql", "-h", t.PostgresFolder(), "-U", "tenon_owner", "-d", "tenon", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", query))
	if err != nil {
		return nil, err
	}
	return lines(out), nil
}

// Number asks for one number.
func (t *Target) Number(ctx context.Context, query string) (int, error) {
	rows, err := t.SQL(ctx, query)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 {
		return 0, fmt.Errorf("ask %q: %d rows, want one", query, len(rows))
	}
	return strconv.Atoi(rows[0])
}

// ContainerdSocket is its daemon's address.
func (t *Target) ContainerdSocket() (string, error) {
	for _, pattern := range []string{"containerd*.sock", "containerd*/*.sock"} {
		found, err := filepath.Glob(filepath.Join(t.Run, pattern))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("no containerd socket under %s", t.Run)
}

// Namespace is where containerd keeps this cloud's containers.
func (t *Target) Namespace() string { return "tenon-" + t.ID }

// Ctr asks containerd with its own client.
func (t *Target) Ctr(ctx context.Context, args ...string) ([]byte, error) {
	socket, err := t.ContainerdSocket()
	if err != nil {
		return nil, err
	}
	return output(exec.CommandContext(ctx, "ctr", append([]string{"--address", socket, "--namespace", t.Namespace()}, args...)...))
}

func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

func lines(out []byte) []string {
	var all []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// LibvirtURI is where this cloud's libvirt listens; empty: it has none.
func (t *Target) LibvirtURI() string {
	for _, pattern := range []string{"libvirt*/*libvirt-sock", "libvirt*/*/libvirt-sock", "*libvirt-sock"} {
		if found, err := filepath.Glob(filepath.Join(t.Run, pattern)); err == nil && len(found) > 0 {
			return "qemu+unix:///system?socket=" + found[0]
		}
	}
	return ""
}
