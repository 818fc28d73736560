package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// checked is a cloud whose books are compared.
type checked struct{ *target.Target }

// guest is one that an engine runs or keeps, as the engine tells of it.
type guest struct {
	engine   string // containerd, libvirt, or the name of a simulated node
	id       string // as the engine calls it
	instance string // printed id
	epoch    int64
	running  bool
	devices  []string // what it holds, named so that the same device has the same name
}

func (g guest) String() string { return g.engine + "/" + g.instance }

var instanceForm = regexp.MustCompile(`inst_[0-9a-z]{26}`)

// guests asks every engine.
func (t checked) guests(ctx context.Context) ([]guest, error) {
	containers, err := t.containers(ctx)
	if err != nil {
		return nil, err
	}
	domains, err := t.domains(ctx)
	if err != nil {
		return nil, err
	}
	simulated, err := t.simulated()
	return append(append(containers, domains...), simulated...), err
}

func (t checked) containers(ctx context.Context) ([]guest, error) {
	list, err := t.Ctr(ctx, "containers", "list", "-q")
	if err != nil {
		return nil, err
	}
	running := map[string]bool{}
	tasks, err := t.Ctr(ctx, "tasks", "list")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(tasks)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "RUNNING" {
			running[f[0]] = true
		}
	}
	var all []guest
	for _, id := range strings.Fields(string(list)) {
		text, err := t.Ctr(ctx, "containers", "info", id)
		if err != nil {
			return nil, err
		}
		var info struct {
			Labels map[string]string
			Spec   struct {
				Linux struct {
					Devices []struct{ Major, Minor int64 }
				}
			}
		}
		if err := json.Unmarshal(text, &info); err != nil {
			return nil, fmt.Errorf("read container %s: %w", id, err)
		}
		g := guest{engine: "containerd", id: id, instance: instanceForm.FindString(id), running: running[id]}
		for _, v := range info.Labels {
			if m := instanceForm.FindString(v); m != "" && g.instance == "" {
				g.instance = m
			}
		}
		for _, d := range info.Spec.Linux.Devices {
			if d.Major == 4 { // simulated GPUs are tty minors; the rest is everyone's
				g.devices = append(g.devices, fmt.Sprintf("%d:%d", d.Major, d.Minor))
			}
		}
		all = append(all, g)
	}
	return all, nil
}

// domains are the VMs, as libvirt's own client lists them.
func (t checked) domains(ctx context.Context) ([]guest, error) {
	uri := t.LibvirtURI()
	if uri == "" {
		return nil, nil
	}
	virsh := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "virsh", append([]string{"-q", "-c", uri}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("virsh %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
		return string(out), err
	}
	names, err := virsh("list", "--all", "--name")
	if err != nil {
		return nil, err
	}
	var all []guest
	for _, name := range strings.Fields(names) {
		xml, err := virsh("dumpxml", name)
		if err != nil {
			if strings.Contains(err.Error(), "not found") || strings.Contains(err.Error(), "no domain") {
				continue // it went meanwhile
			}
			return nil, err
		}
		state, err := virsh("domstate", name)
		if err != nil {
			continue
		}
		if !strings.Contains(xml, t.ID) {
			continue // another cloud's
		}
		s := strings.TrimSpace(state)
		all = append(all, guest{engine: "libvirt", id: name, instance: instanceForm.FindString(xml), running: s != "shut off" && s != "crashed"})
	}
	return all, nil
}

// simulatedNodes are the folders of the fleet's nodes.
func (t checked) simulatedNodes() []string {
	found, _ := filepath.Glob(filepath.Join(t.State, "fleet", "*", "guests.json"))
	return found
}

func (b *breaker) simulated() []string { return checked{b.cloud}.simulatedNodes() }

// simulated are the guests of the simulated nodes, from the files in which each
// node keeps its own.
func (t checked) simulated() ([]guest, error) {
	var all []guest
	for _, path := range t.simulatedNodes() {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var file struct {
			Guests []struct {
				ID      string
				Epoch   int64
				State   string
				Devices []struct {
					UUID  string `json:"gpu_uuid"`
					Start int    `json:"slot_start"`
					End   int    `json:"slot_end"`
				}
			} `json:"guests"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		node := filepath.Base(filepath.Dir(path))
		for _, f := range file.Guests {
			g := guest{engine: node, id: f.ID, instance: f.ID, epoch: f.Epoch, running: f.State == "running"}
			for _, d := range f.Devices {
				for slot := d.Start; slot < d.End; slot++ {
					g.devices = append(g.devices, fmt.Sprintf("%s#%d", d.UUID, slot))
				}
			}
			all = append(all, g)
		}
	}
	return all, nil
}
