package recorded

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// viewVGPU shows what a function offers while the vendor's driver has it.
func (m *Model) viewVGPU(root *node, a pci.Address, place string) {
	d := m.state.Devices[a]
	card, ok := m.cardOf(a)
	if !ok {
		return
	}
	if card.VGPU == "vendor" {
		dir := root.dir(place + "/nvidia")
		dir.add("current_vgpu_type", 0o644, strconv.Itoa(d.Current)+"\n", func(s string) error { return m.storeCurrent(a, s) })
		text := "ID    : vGPU Name\n"
		for _, t := range m.creatable(a) {
			text += fmt.Sprintf("%-6s: %s\n", t.ID, t.Name)
		}
		dir.file("creatable_vgpu_types", text)
		return
	}
	m.viewTypes(root, a.String(), place, card.Types)
}

// cardOf gives the card whose vGPU types a function offers now.
func (m *Model) cardOf(a pci.Address) (*Device, bool) {
	d := m.state.Devices[a]
	if d == nil {
		return nil, false
	}
	card := d
	if d.PF != nil {
		card = m.state.Devices[*d.PF]
	}
	if card == nil || card.VGPU == "" || (d.PF == nil) != (card.VGPU == "self") {
		return nil, false
	}
	drv := m.driver(d.Driver)
	return card, drv != nil && drv.SRIOV && (d.PF == nil || card.Driver == d.Driver)
}

// creatable are the vendor's types that can be set on a function now: on one
// card all have the same size.
func (m *Model) creatable(a pci.Address) []Type {
	d := m.state.Devices[a]
	card, ok := m.cardOf(a)
	if !ok || d.Current != 0 {
		return nil
	}
	var out []Type
	for _, t := range card.Types {
		if m.backing != nil {
			if backed, room := m.backing(*d.PF, t.ID); backed {
				for _, v := range m.vfs(*d.PF) {
					if strconv.Itoa(m.state.Devices[v].Current) == t.ID {
						room--
					}
				}
				if room > 0 {
					out = append(out, t)
				}
				continue
			}
		}
		used, other := 0, false
		for _, v := range m.vfs(*d.PF) {
			for _, set := range card.Types {
				if set.ID == strconv.Itoa(m.state.Devices[v].Current) {
					used++
					other = other || set.MiB != t.MiB
				}
			}
		}
		if used < t.Max && !other {
			out = append(out, t)
		}
	}
	return out
}

// BackedBy has a function say which vGPU types a MIG slice each backs, and how many
// of these slices a card has: without one free there is no such type.
func (m *Model) BackedBy(f func(card pci.Address, typeID string) (backed bool, slices int)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backing = f
}

func (m *Model) storeCurrent(a pci.Address, s string) error {
	n, err := number(s)
	if err != nil {
		return err
	}
	d := m.state.Devices[a]
	switch {
	case n == 0 && d.Current == 0:
		return nil
	case d.Owner != "", n != 0 && d.Current != 0:
		return syscall.EBUSY
	case n == 0:
		d.Current = 0
		return nil
	}
	for _, t := range m.creatable(a) {
		if t.ID == strconv.Itoa(n) {
			d.Current = n
			return nil
		}
	}
	return syscall.EINVAL
}

// viewMediated shows the parents that are no PCI functions, and all devices.
func (m *Model) viewMediated(root *node) {
	for _, name := range slices.Sorted(maps.Keys(m.state.Soft)) {
		m.viewTypes(root, name, m.parentPlace(name), m.state.Soft[name].Types)
	}
	for _, id := range slices.Sorted(maps.Keys(m.state.Mediated)) {
		d := m.state.Mediated[id]
		parent := m.parentPlace(d.Parent)
		place := parent + "/" + id
		root.dir(place).add("remove", 0o200, "", func(s string) error { return m.storeMediatedRemove(id, s) })
		root.join("bus/mdev/devices", id, place)
		root.join(place, "mdev_type", parent+"/mdev_supported_types/"+d.Type)
		root.join(parent+"/mdev_supported_types/"+d.Type+"/devices", id, place)
		root.dir("bus/mdev/drivers/" + d.Driver)
		root.join(place, "driver", "bus/mdev/drivers/"+d.Driver)
		group := "kernel/iommu_groups/" + strconv.Itoa(d.Group)
		root.join(place, "iommu_group", group)
		root.join(group+"/devices", id, place)
	}
}

func (m *Model) parentPlace(name string) string {
	if a, err := pci.ParseAddress(name); err == nil {
		return m.place(a)
	}
	return "devices/virtual/" + name + "/" + name
}

func (m *Model) viewTypes(root *node, parent, place string, types []Type) {
	root.join("class/mdev_bus", parent, place)
	for _, t := range types {
		dir := root.dir(place + "/mdev_supported_types/" + t.ID)
		dir.dir("devices")
		dir.file("name", t.Name+"\n")
		dir.file("device_api", "vfio-pci\n")
		dir.file("available_instances", strconv.Itoa(m.available(parent, t))+"\n")
		if t.MiB > 0 {
			dir.file("description", fmt.Sprintf("num_heads=1, frl_config=60, framebuffer=%dM, max_resolution=4096x2160, max_instance=%d\n", t.MiB, t.Max))
		}
		dir.add("create", 0o200, "", func(s string) error { return m.storeCreate(parent, t, s) })
	}
}

// available says how many more of a type can be made on a parent.
func (m *Model) available(parent string, t Type) int {
	if soft := m.state.Soft[parent]; soft != nil {
		free := soft.Units
		for _, d := range m.state.Mediated {
			if d.Parent != parent {
				continue
			}
			for _, other := range soft.Types {
				if other.ID == d.Type {
					free -= other.Units
				}
			}
		}
		return free / t.Units
	}
	a, err := pci.ParseAddress(parent)
	card, ok := m.cardOf(a)
	if err != nil || !ok {
		return 0
	}
	parents := []string{parent}
	if pf := m.state.Devices[a].PF; pf != nil {
		if m.mediatedOn(parent) > 0 { // a virtual function has one
			return 0
		}
		parents = nil
		for _, v := range m.vfs(*pf) {
			parents = append(parents, v.String())
		}
	}
	used := 0
	for _, d := range m.state.Mediated {
		if !slices.Contains(parents, d.Parent) {
			continue
		}
		used++
		for _, other := range card.Types {
			if other.ID == d.Type && other.MiB != t.MiB {
				return 0 // all of one size
			}
		}
	}
	if m.state.Devices[a].PF != nil {
		return min(1, max(0, t.Max-used))
	}
	return max(0, t.Max-used)
}

func (m *Model) storeCreate(parent string, t Type, s string) error {
	if len(s) < 36 || len(s) > 37 {
		return syscall.EINVAL
	}
	id, err := uuid.Parse(strings.TrimSuffix(s, "\n"))
	if err != nil {
		return syscall.EINVAL
	}
	if m.state.Mediated[id.String()] != nil {
		return syscall.EEXIST
	}
	if m.available(parent, t) == 0 {
		return syscall.ENOSPC
	}
	driver := "nvidia-vgpu-vfio"
	if m.state.Soft[parent] != nil {
		driver = parent
	}
	m.state.Mediated[id.String()] = &Mediated{Parent: parent, Type: t.ID, Driver: driver, Group: m.state.NextGroup}
	m.state.NextGroup++
	return nil
}

func (m *Model) storeMediatedRemove(id, s string) error {
	if n, err := number(s); err != nil || n == 0 {
		return err
	}
	d := m.state.Mediated[id]
	for m.state.Mediated[id] == d && d.Owner != "" {
		m.let.Wait()
	}
	delete(m.state.Mediated, id)
	return nil
}

func (m *Model) dropMediated(parent string) {
	maps.DeleteFunc(m.state.Mediated, func(_ string, d *Mediated) bool { return d.Parent == parent })
}

func (m *Model) mediatedOn(parent string) (n int) {
	for _, d := range m.state.Mediated {
		if d.Parent == parent {
			n++
		}
	}
	return n
}

func (m *Model) mediatedOwned(parent string) bool {
	for _, d := range m.state.Mediated {
		if d.Parent == parent && d.Owner != "" {
			return true
		}
	}
	return false
}

// Unreadable has every read of a name fail; nil ends it.
func (m *Model) Unreadable(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !fs.ValidPath(name) {
		panic("no path in /sys: " + name)
	}
	m.reads[name] = err
}
