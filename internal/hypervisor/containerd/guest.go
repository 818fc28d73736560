package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Labels of a container; everything that recovery needs is in them.
const (
	labelEpoch      = "tenon/epoch"
	labelGeneration = "tenon/generation"
	labelOrg        = "tenon/org"
	labelDevices    = "tenon/devices"
	labelAddress    = "tenon/address"
	labelSignal     = "tenon/stop-signal"
)

// exitUnknown is reported when a guest ended unseen: with its host or its shim.
const exitUnknown = 137

// record is what is known of a guest before it has a container, and when it
// started. It lies in the run folder: after a reboot none of it is true.
type record struct {
	Epoch      int64             `json:"epoch"`
	Generation int64             `json:"generation"`
	Org        string            `json:"org"`
	Devices    []nodewire.Device `json:"devices,omitempty"`
	IDs        network.IDRange   `json:"ids"`
	StartedAt  time.Time         `json:"started_at"`
	OOMKilled  bool              `json:"oom_killed,omitempty"`
}

func (d *Driver) guestDir(id string) string   { return filepath.Join(guestsDir(d.cfg), id) }
func (d *Driver) rootfsPath(id string) string { return filepath.Join(rootfsDir(d.cfg), id) }
func (d *Driver) cgroupPath(id string) string { return "/" + Namespace(d.cfg.CloudID) + "/" + id }

func (d *Driver) readRecord(id string) (record, bool) {
	var r record
	raw, err := os.ReadFile(filepath.Join(d.guestDir(id), "guest.json"))
	return r, err == nil && json.Unmarshal(raw, &r) == nil
}

// writeRecord does not sync: the run folder is in memory.
func (d *Driver) writeRecord(id string, r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode guest record: %w", err)
	}
	path := filepath.Join(d.guestDir(id), "guest.json")
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return fmt.Errorf("write guest record: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write guest record: %w", err)
	}
	return nil
}

// List implements hypervisor.Driver.
func (d *Driver) List(ctx context.Context) ([]hypervisor.Guest, error) {
	held, err := d.client.ContainerService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	answer, err := d.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", errgrpc.ToNative(err))
	}
	running := map[string]*tasktypes.Process{}
	for _, t := range answer.Tasks {
		running[t.ID] = t
	}
	seen := map[string]bool{}
	var guests []hypervisor.Guest
	for _, c := range held {
		seen[c.ID] = true
		guests = append(guests, d.guest(c, running[c.ID]))
	}
	// Parts without a container: prepared, or left by a crash.
	for _, id := range d.parts() {
		if !seen[id] {
			seen[id] = true
			guests = append(guests, d.preparedGuest(id))
		}
	}
	return guests, nil
}

// parts is every id that holds a folder, a disk or a namespace.
func (d *Driver) parts() []string {
	ids := append(d.disks.list(), d.net.Attached()...)
	for _, dir := range []string{guestsDir(d.cfg), rootfsDir(d.cfg), devicesDir(d.cfg)} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				ids = append(ids, e.Name())
			}
		}
	}
	return ids
}

func (d *Driver) preparedGuest(id string) hypervisor.Guest {
	r, _ := d.readRecord(id)
	g := hypervisor.Guest{ID: id, Epoch: r.Epoch, Generation: r.Generation, State: hypervisor.Prepared, Devices: r.Devices}
	if a, ok := d.net.Lookup(id); ok {
		g.Address = a.Address
	}
	return g
}

// guest joins a container's labels with its task, if it has one.
func (d *Driver) guest(c containers.Container, t *tasktypes.Process) hypervisor.Guest {
	r, known := d.readRecord(c.ID)
	g := hypervisor.Guest{ID: c.ID, State: hypervisor.Exited, ExitCode: exitUnknown, Address: c.Labels[labelAddress], StartedAt: r.StartedAt}
	g.Epoch, _ = strconv.ParseInt(c.Labels[labelEpoch], 10, 64)
	g.Generation, _ = strconv.ParseInt(c.Labels[labelGeneration], 10, 64)
	_ = json.Unmarshal([]byte(c.Labels[labelDevices]), &g.Devices)
	if g.StartedAt.IsZero() {
		g.StartedAt = c.CreatedAt
	}
	switch {
	case t == nil && known && r.StartedAt.IsZero():
		g.State, g.ExitCode, g.StartedAt = hypervisor.Prepared, 0, time.Time{}
	case t == nil:
		g.OOMKilled = r.OOMKilled
	case t.Status == tasktypes.Status_STOPPED:
		g.ExitCode, g.ExitedAt = int(t.ExitStatus), t.ExitedAt.AsTime()
		g.OOMKilled = r.OOMKilled || (g.ExitCode != 0 && d.oomKills(c.ID) > 0)
	case t.Status == tasktypes.Status_CREATED:
		g.State, g.ExitCode, g.StartedAt = hypervisor.Prepared, 0, time.Time{}
	default:
		g.State, g.ExitCode, g.PID = hypervisor.Running, 0, int(t.Pid)
	}
	return g
}

// find is one guest, or hypervisor.ErrNoGuest.
func (d *Driver) find(ctx context.Context, id string) (hypervisor.Guest, error) {
	c, err := d.client.ContainerService().Get(ctx, id)
	if errdefs.IsNotFound(err) {
		if _, ok := d.readRecord(id); ok {
			return d.preparedGuest(id), nil
		}
		return hypervisor.Guest{ID: id}, hypervisor.ErrNoGuest
	}
	if err != nil {
		return hypervisor.Guest{ID: id}, fmt.Errorf("find container: %w", err)
	}
	answer, err := d.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
	if err = errgrpc.ToNative(err); err != nil && !errdefs.IsNotFound(err) {
		return hypervisor.Guest{ID: id}, fmt.Errorf("find task: %w", err)
	}
	return d.guest(c, answer.GetProcess()), nil
}

// task is a guest's task, or nil when it has none.
func (d *Driver) task(ctx context.Context, id string) (client.Container, client.Task, error) {
	c, err := d.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, nil, hypervisor.ErrNoGuest
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find container: %w", err)
	}
	t, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return c, nil, nil
	}
	if err != nil {
		return c, nil, fmt.Errorf("find task: %w", err)
	}
	return c, t, nil
}

// oomKills reads how many of a guest's processes the kernel killed for memory;
// the cgroup stays until the task is deleted.
func (d *Driver) oomKills(id string) int64 {
	for _, path := range []string{
		filepath.Join(cgroupRoot, "memory", d.cgroupPath(id), "memory.oom_control"), // v1
		filepath.Join(cgroupRoot, d.cgroupPath(id), "memory.events"),                // v2
	} {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(raw) {
			if value, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("oom_kill ")); ok {
				n, _ := strconv.ParseInt(string(value), 10, 64)
				return n
			}
		}
	}
	return 0
}

func isNoGuest(err error) bool { return errors.Is(err, hypervisor.ErrNoGuest) }
