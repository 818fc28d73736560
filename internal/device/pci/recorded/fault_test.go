package recorded_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
)

// Faults strike at the write that was named, on the side that was named.
func TestFaults(t *testing.T) {
	m := tree(t, "l40s")
	m.Inject(recorded.Fault{Write: 1, Err: syscall.EIO}, recorded.Fault{Write: 2, After: true, Err: syscall.EIO})
	steps(t, m, []step{{drv + "nvidia/unbind", gpu, syscall.EIO}})
	if driver(m, gpu) != "nvidia" {
		t.Error("a write that failed before its effect had one")
	}
	steps(t, m, []step{{drv + "nvidia/unbind", gpu, syscall.EIO}})
	if driver(m, gpu) != "" {
		t.Error("a write that failed after its effect had none")
	}
	for _, after := range []bool{false, true} {
		m := tree(t, "l40s")
		m.Inject(recorded.Fault{Write: 2, After: after})
		reached := 0
		killed := m.Run(func() {
			for _, w := range [][2]string{{dev + "driver_override", "vfio-pci"}, {drv + "nvidia/unbind", gpu}, {drv + "vfio-pci/bind", gpu}} {
				if err := m.WriteFile(w[0], []byte(w[1])); err != nil {
					t.Error(err)
				}
				reached++
			}
		})
		if !killed || reached != 1 {
			t.Errorf("killed %v after %d writes", killed, reached)
		}
		if _, err := m.Open("bus"); !errors.Is(err, recorded.ErrKilled) {
			t.Errorf("a dead process reads: %v", err)
		}
		m.Run(func() {
			if got := driver(m, gpu) == ""; got != after {
				t.Errorf("killed after the effect %v, unbound %v", after, got)
			}
		})
	}
}

func TestVanishedDevice(t *testing.T) {
	m := tree(t, "a100-vgpu")
	m.Vanish(at("17:00.0"))
	inv, err := pci.Scan(m, pci.Options{})
	if err != nil || len(inv.Cards) != 1 || len(inv.Functions) != 3 {
		t.Fatalf("%d functions and %d cards are left, %v", len(inv.Functions), len(inv.Cards), err)
	}
	steps(t, m, []step{{"bus/pci/rescan", "1", nil}})
	if driver(m, "0000:17:00.0") != "nvidia" || read(m, "bus/pci/devices/0000:17:00.0/sriov_numvfs") != "0" {
		t.Error("found again, it is not as after a start")
	}
}

// A kept model goes on where a process that was killed (-9) left it, like a
// kernel: the child is this test.
func TestKeptModelOutlivesItsProcess(t *testing.T) {
	if file := os.Getenv("TENON_RECORDED_MODEL"); file != "" {
		m, err := recorded.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		m.OnKill(func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		m.Inject(recorded.Fault{Write: 2, After: true})
		steps(t, m, []step{{dev + "driver_override", "vfio-pci", nil}, {drv + "nvidia/unbind", gpu, nil}})
		t.Fatal("it lives")
	}
	file := filepath.Join(t.TempDir(), "model")
	if err := tree(t, "l40s").Keep(file); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKeptModelOutlivesItsProcess$")
	child.Env = append(os.Environ(), "TENON_RECORDED_MODEL="+file)
	out, err := child.CombinedOutput()
	if child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended as %v: %s", err, out)
	}
	m, err := recorded.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if driver(m, gpu) != "" || read(m, dev+"driver_override") != "vfio-pci" {
		t.Errorf("driver %q, override %q", driver(m, gpu), read(m, dev+"driver_override"))
	}
	steps(t, m, []step{{drv + "vfio-pci/bind", gpu, nil}})
}

// invariants hold whatever was written: seen through the files alone.
func invariants(m *recorded.Model) error {
	devices, err := fs.ReadDir(m, "bus/pci/devices")
	if err != nil {
		return err
	}
	drivers, err := fs.ReadDir(m, "bus/pci/drivers")
	if err != nil {
		return err
	}
	for _, e := range devices {
		dir := "bus/pci/devices/" + e.Name() + "/"
		var has []string
		for _, d := range drivers {
			if _, err := m.Lstat(drv + d.Name() + "/" + e.Name()); err == nil {
				has = append(has, d.Name())
			}
		}
		if name := driver(m, e.Name()); len(has) > 1 || len(has) == 1 && has[0] != name || len(has) == 0 && name != "" {
			return fmt.Errorf("%s: its link says %q, the drivers %v", e.Name(), name, has)
		}
		if group, err := m.ReadLink(dir + "iommu_group"); err == nil {
			if _, err := m.Lstat("kernel/iommu_groups/" + filepath.Base(group) + "/devices/" + e.Name()); err != nil {
				return fmt.Errorf("%s is not in its group: %w", e.Name(), err)
			}
		}
		links := 0
		entries, err := fs.ReadDir(m, strings.TrimSuffix(dir, "/"))
		if err != nil {
			return err
		}
		for _, a := range entries {
			if strings.HasPrefix(a.Name(), "virtfn") {
				links++
				if back, err := m.ReadLink(dir + a.Name() + "/physfn"); err != nil || filepath.Base(back) != e.Name() {
					return fmt.Errorf("%s of %s leads back to %q, %w", a.Name(), e.Name(), back, err)
				}
			}
		}
		if text, err := fs.ReadFile(m, dir+"sriov_numvfs"); err == nil && strings.TrimSpace(string(text)) != fmt.Sprint(links) {
			return fmt.Errorf("%s: sriov_numvfs %s, %d links", e.Name(), text, links)
		}
	}
	inv, err := pci.Scan(m, pci.Options{})
	if err != nil {
		return err
	}
	for _, c := range inv.Cards {
		if c.Whole.OK && c.Partitioned || c.Partitioned != (len(c.Function.Virtual) > 0) {
			return fmt.Errorf("%s is offered whole and cut", c.Function.Address)
		}
		set := map[string]int{}
		for _, p := range c.Parents {
			if p.Current != "" {
				set[p.Current]++
			}
		}
		if len(set) > 1 || set["696"] > 4 || set["697"] > 2 || set["698"] > 1 {
			return fmt.Errorf("%s has types %v", c.Function.Address, set)
		}
	}
	made := map[string]int{}
	for _, d := range inv.Mediated {
		made[d.Parent]++
		if made[d.Parent] > 1 {
			return fmt.Errorf("%s has %d mediated devices", d.Parent, made[d.Parent])
		}
	}
	if len(made) > 20 {
		return fmt.Errorf("%d mediated devices on one card", len(made))
	}
	return nil
}

// After any sequence of writes the model is one that a kernel could be in, and a
// write that failed changed nothing.
func TestAnyWrites(t *testing.T) {
	names := []string{"a100-vgpu", "a100-mdev", "workstation"}
	rapid.Check(t, func(t *rapid.T) {
		m := tree(t, rapid.SampledFrom(names).Draw(t, "tree"))
		for range rapid.IntRange(1, 25).Draw(t, "writes") {
			var devices []string
			entries, err := fs.ReadDir(m, "bus/pci/devices")
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				devices = append(devices, e.Name())
			}
			a := rapid.SampledFrom(devices).Draw(t, "device")
			d := rapid.SampledFrom([]string{"nvidia", "vfio-pci", "nouveau", "pcieport", driver(m, a)}).Draw(t, "driver")
			id := rapid.SampledFrom([]string{"b1914f0a-15cf-416e-8967-55fc7cb68e20", "c1914f0a-15cf-416e-8967-55fc7cb68e20", "x"}).Draw(t, "uuid")
			own := "bus/pci/devices/" + a + "/"
			w := rapid.SampledFrom([][2]string{
				{drv + d + "/bind", a}, {drv + d + "/unbind", a}, {own + "driver_override", d}, {own + "driver_override", "\n"},
				{"bus/pci/drivers_probe", a}, {own + "reset", "1"}, {own + "sriov_numvfs", "0"}, {own + "sriov_numvfs", "20"}, {own + "sriov_numvfs", "3"},
				{own + "nvidia/current_vgpu_type", "0"}, {own + "nvidia/current_vgpu_type", "696"}, {own + "nvidia/current_vgpu_type", "692"},
				{own + "mdev_supported_types/nvidia-697/create", id}, {own + "mdev_supported_types/nvidia-692/create", id}, {pci.RemoveFile(id), "1"},
				{drv + d + "/new_id", "10de 20b5"}, {drv + d + "/remove_id", "10de 20b5"}, {own + "remove", "1"}, {"bus/pci/rescan", "1"},
			}).Draw(t, "write")
			before := m.Dump()
			err = m.WriteFile(w[0], []byte(w[1]))
			if own+"reset" != w[0] && err != nil && m.Dump() != before {
				t.Fatalf("%q to %s failed (%v) and changed something", w[1], w[0], err)
			}
			if err := invariants(m); err != nil {
				t.Fatalf("after %q to %s: %v", w[1], w[0], err)
			}
		}
	})
}
