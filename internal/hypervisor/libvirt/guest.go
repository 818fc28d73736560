package libvirt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// exitKilled is reported for a machine that did not switch itself off: it was
// killed, or ended with its host.
const exitKilled = 137

// record is what is known of a machine before it has a domain, when it started,
// and how it ended. It lies in the run folder: after a reboot none of it is true.
type record struct {
	Epoch      int64             `json:"epoch"`
	Generation int64             `json:"generation"`
	Devices    []nodewire.Device `json:"devices,omitempty"`
	StartedAt  time.Time         `json:"started_at"`
	EndedAt    time.Time         `json:"ended_at"`
	ExitCode   int               `json:"exit_code,omitempty"`
	Groups     []string          `json:"groups,omitempty"` // files of IOMMU groups that QEMU may open
}

func (d *Driver) recordPath(id string) string { return filepath.Join(recordsDir(d.cfg), id+".json") }

func (d *Driver) readRecord(id string) (record, bool) {
	var r record
	raw, err := os.ReadFile(d.recordPath(id))
	return r, err == nil && json.Unmarshal(raw, &r) == nil
}

// writeRecord does not sync: the run folder is in memory.
func (d *Driver) writeRecord(id string, r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode machine record: %w", err)
	}
	fresh := d.recordPath(id) + ".new"
	if err := os.WriteFile(fresh, raw, 0o600); err != nil {
		return fmt.Errorf("write machine record: %w", err)
	}
	if err := os.Rename(fresh, d.recordPath(id)); err != nil {
		return fmt.Errorf("write machine record: %w", err)
	}
	return nil
}

// held is a domain of this cloud with what libvirt says of it.
type held struct {
	dom           golibvirt.Domain
	meta          metadata
	state, reason int32
}

// domains lists this cloud's.
func (d *Driver) domains(ctx context.Context) (map[string]held, error) {
	return call(ctx, d.conn, "list domains", func(lv *golibvirt.Libvirt) (map[string]held, error) {
		list, _, err := lv.ConnectListAllDomains(1, golibvirt.ConnectListDomainsActive|golibvirt.ConnectListDomainsInactive)
		if err != nil {
			return nil, err
		}
		found := map[string]held{}
		for _, dom := range list {
			id, ours := strings.CutPrefix(dom.Name, domainPrefix(d.cfg.CloudID))
			if !ours {
				continue
			}
			h, err := describe(lv, dom)
			if golibvirt.IsNotFound(err) {
				continue // it went while we looked
			}
			if err != nil {
				return nil, err
			}
			found[id] = h
		}
		return found, nil
	})
}

// lookup is one machine's domain, or hypervisor.ErrNoGuest.
func (d *Driver) lookup(ctx context.Context, id string) (held, error) {
	h, err := call(ctx, d.conn, "find domain", func(lv *golibvirt.Libvirt) (held, error) {
		dom, err := lv.DomainLookupByName(DomainName(d.cfg.CloudID, id))
		if err != nil {
			return held{}, err
		}
		return describe(lv, dom)
	})
	if golibvirt.IsNotFound(err) {
		return h, hypervisor.ErrNoGuest
	}
	return h, err
}

func describe(lv *golibvirt.Libvirt, dom golibvirt.Domain) (held, error) {
	h := held{dom: dom}
	text, err := lv.DomainGetXMLDesc(dom, golibvirt.DomainXMLInactive)
	if err != nil {
		return h, err
	}
	h.meta, _ = readMetadata(text)
	h.state, h.reason, err = lv.DomainGetState(dom, 0)
	return h, err
}

func (h held) active() bool {
	return golibvirt.DomainState(h.state) != golibvirt.DomainShutoff && golibvirt.DomainState(h.state) != golibvirt.DomainCrashed
}

// started: it is past what can fail a start. Until then its process is there, and
// if it ends it was no run.
func (h held) started() bool {
	return h.active() && (golibvirt.DomainState(h.state) != golibvirt.DomainPaused || golibvirt.DomainPausedReason(h.reason) != golibvirt.DomainPausedStartingUp)
}

// List implements hypervisor.Driver.
func (d *Driver) List(ctx context.Context) ([]hypervisor.Guest, error) {
	if d.unused() {
		return nil, nil
	}
	d.mu.Lock()
	ready := d.ready
	d.mu.Unlock()
	if !ready { // once it was, machines are seen and ended whatever the network is like
		if err := d.ensureHost(ctx); err != nil {
			return nil, err
		}
	}
	all, err := d.domains(ctx)
	if err != nil {
		return nil, err
	}
	running := d.running(len(all) > 0)
	var guests []hypervisor.Guest
	for id, h := range all {
		guests = append(guests, d.guest(id, h, running[id]))
	}
	// Parts without a domain: prepared, left by a crash, or a process that libvirt lost.
	for _, id := range d.parts(running) {
		if _, known := all[id]; !known {
			all[id] = held{}
			guests = append(guests, d.loose(id, running[id]))
		}
	}
	return guests, nil
}

// scanEvery is how often a node that knows of no machine looks through all its
// processes for one: each has a domain and a record from before it runs.
const scanEvery = time.Minute

// running finds the machines' processes.
func (d *Driver) running(some bool) map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !some && !d.hasMachines() && time.Since(d.scanned) < scanEvery {
		return nil
	}
	found := Processes(d.cfg.CloudID)
	if d.scanned = time.Now(); len(found) > 0 {
		d.scanned = time.Time{}
	}
	return found
}

// unused says that this node has run no machine since it started, and that no
// libvirtd has either: a node without libvirt is no riddle.
func (d *Driver) unused() bool {
	if _, err := os.Stat(d.conn.socket); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	records, _ := os.ReadDir(recordsDir(d.cfg))
	return len(records) == 0 && len(Processes(d.cfg.CloudID)) == 0
}

// parts is every id that holds a record, a folder, a tap or a process.
func (d *Driver) parts(running map[string]int) []string {
	ids := d.net.AttachedVMs()
	for id := range running {
		ids = append(ids, id)
	}
	entries, _ := os.ReadDir(recordsDir(d.cfg))
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			ids = append(ids, id)
		}
	}
	entries, _ = os.ReadDir(machinesDir(d.cfg))
	for _, e := range entries {
		ids = append(ids, strings.TrimPrefix(e.Name(), ".seed-"))
	}
	return ids
}

// loose is a machine without a domain.
func (d *Driver) loose(id string, pid int) hypervisor.Guest {
	r, _ := d.readRecord(id)
	g := hypervisor.Guest{ID: id, Epoch: r.Epoch, Generation: r.Generation, State: hypervisor.Prepared, Devices: r.Devices}
	if pid != 0 {
		g.State, g.PID, g.StartedAt = hypervisor.Running, pid, r.StartedAt
	}
	if a, ok := d.net.LookupVM(id); ok {
		g.Address = a.Address
	}
	return g
}

// guest joins what libvirt, the record and the kernel say.
func (d *Driver) guest(id string, h held, pid int) hypervisor.Guest {
	r, known := d.readRecord(id)
	known = known && r.Epoch == h.meta.Epoch && r.Generation == h.meta.Generation
	g := hypervisor.Guest{
		ID: id, Epoch: h.meta.Epoch, Generation: h.meta.Generation, Devices: h.meta.Devices, Address: h.meta.Address, PID: pid, StartedAt: r.StartedAt,
	}
	reason := golibvirt.DomainShutoffReason(h.reason)
	switch {
	case h.active() || pid != 0:
		g.State = hypervisor.Running
		if known && r.StartedAt.IsZero() && h.started() { // a crash came between the start and its record
			r.StartedAt = time.Now()
			_ = d.writeRecord(id, r)
			g.StartedAt = r.StartedAt
		}
		return g
	case known && r.StartedAt.IsZero() && (reason == golibvirt.DomainShutoffUnknown || reason == golibvirt.DomainShutoffFailed):
		g.State = hypervisor.Prepared
		return g
	case known && !r.EndedAt.IsZero():
		g.ExitCode, g.ExitedAt = r.ExitCode, r.EndedAt
	case known:
		// Written down at once: a restarted daemon no longer knows how it ended.
		r.EndedAt, r.ExitCode = time.Now(), exitKilled
		if reason == golibvirt.DomainShutoffShutdown {
			r.ExitCode = 0
		}
		_ = d.writeRecord(id, r)
		g.ExitCode, g.ExitedAt = r.ExitCode, r.EndedAt
	default:
		g.ExitCode = exitKilled // with its host
	}
	g.State = hypervisor.Exited
	return g
}

// find is one machine, or hypervisor.ErrNoGuest.
func (d *Driver) find(ctx context.Context, id string) (hypervisor.Guest, error) {
	h, err := d.lookup(ctx, id)
	pid := d.pid(id)
	switch {
	case isNoGuest(err):
		if _, ok := d.readRecord(id); ok || pid != 0 {
			return d.loose(id, pid), nil
		}
		return hypervisor.Guest{ID: id}, hypervisor.ErrNoGuest
	case err != nil:
		return hypervisor.Guest{ID: id}, err
	}
	return d.guest(id, h, pid), nil
}

func isNoGuest(err error) bool { return errors.Is(err, hypervisor.ErrNoGuest) }
