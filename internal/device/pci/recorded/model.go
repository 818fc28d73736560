// Package recorded is the kernel's PCI side without the hardware: hosts that
// were written down from public listings, and a model that can be written to as
// sysfs can. It is what device code is tested against where there is no GPU.
package recorded

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/durable"
)

// Device is one PCI function of the model.
type Device struct {
	Under    *pci.Address `json:",omitempty"` // the bridge above; nil: on a root bus
	ID       pci.ID
	Class    uint32 // 24 bits
	Revision uint8
	NUMA     int
	Group    int       // -1: none
	BARs     []pci.BAR `json:",omitempty"`
	BootVGA  *bool     `json:",omitempty"` // nil: no VGA device

	Driver   string   `json:",omitempty"`
	Modules  []string `json:",omitempty"` // other drivers that know it
	Override string   `json:",omitempty"`

	Reset   []string `json:",omitempty"` // the ways that there are
	ResetOn []string `json:",omitempty"` // those that are switched on
	Resets  int      `json:",omitempty"` // how often it was reset
	After   Aftermath
	Dead    bool `json:",omitempty"` // its configuration space reads as ones

	PF       *pci.Address `json:",omitempty"`
	Index    int          `json:",omitempty"` // of a virtual function
	TotalVFs int          `json:",omitempty"`
	VFs      int          `json:",omitempty"`
	VFOffset int          `json:",omitempty"`
	VFStride int          `json:",omitempty"`
	VFDevice uint16       `json:",omitempty"`

	VGPU    string `json:",omitempty"` // of a card: "vendor" or "mediated" on its virtual functions, "self" on itself
	Types   []Type `json:",omitempty"`
	Current int    `json:",omitempty"` // of a virtual function: its vGPU type
	Owner   string `json:",omitempty"` // a guest has it open
}

// Aftermath is what a reset leaves.
type Aftermath string

// What a reset leaves.
const (
	Well   Aftermath = ""
	Lost   Aftermath = "lost"   // the device doesn't come back, and the kernel says so
	Silent Aftermath = "silent" // the kernel reports success and the device reads as ones
)

// Type is a vGPU type of a card, or of a parent that is no PCI function.
type Type struct {
	ID, Name string
	Max      int   // at most so many on the card
	MiB      int64 `json:",omitempty"`
	Units    int   `json:",omitempty"` // of a Soft parent: what one takes
}

// Driver is a PCI driver that is loaded.
type Driver struct {
	Name    string
	Table   []pci.ID `json:",omitempty"`
	Dynamic []pci.ID `json:",omitempty"` // by new_id
	SRIOV   bool     `json:",omitempty"` // it can make virtual functions
}

// Soft is a parent of mediated devices that is no PCI function, like mtty.
type Soft struct {
	Units int
	Types []Type
}

// Mediated is a mediated device.
type Mediated struct {
	Parent, Type, Driver string
	Group                int
	Owner                string `json:",omitempty"`
}

// State is all that the model knows.
type State struct {
	Devices   map[pci.Address]*Device
	Gone      map[pci.Address]*Device `json:",omitempty"` // removed; a rescan finds them again
	Drivers   []*Driver
	Soft      map[string]*Soft     `json:",omitempty"`
	Mediated  map[string]*Mediated `json:",omitempty"` // by UUID
	NoProbe   bool                 `json:",omitempty"` // drivers_autoprobe is off
	NextGroup int

	NoIOMMU     bool `json:",omitempty"` // the groups are VFIO's own and isolate nothing
	Subordinate bool `json:",omitempty"` // bridges can reset what is below them (since Linux 6.13)
}

// Model is a host that can be read and written as /sys.
type Model struct {
	mu     sync.Mutex
	let    *sync.Cond // a guest let go of something
	state  State
	view   *node // nil: to be made anew
	keep   string
	writes int
	faults []Fault
	killed bool
	onKill func()
	probes map[string]error
	reads  map[string]error
	// backing is told of by BackedBy.
	backing func(card pci.Address, typeID string) (backed bool, slices int)
}

var _ pci.Sys = (*Model)(nil)

func newModel(s State) *Model {
	m := &Model{state: s, probes: map[string]error{}, reads: map[string]error{}}
	m.let = sync.NewCond(&m.mu)
	return m
}

// Keep writes the state to a file after each write, before the write returns, so
// that it outlives the process like a kernel.
func (m *Model) Keep(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep = path
	return m.save()
}

// Open goes on with a model that was kept.
func Open(path string) (*Model, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	m := newModel(s)
	m.keep = path
	return m, nil
}

func (m *Model) save() error {
	if m.keep == "" {
		return nil
	}
	return durable.WriteFile(m.keep, m.dump(), 0o600)
}

func (m *Model) dump() []byte {
	data, err := json.Marshal(m.state)
	if err != nil {
		panic(err) // plain data
	}
	return data
}

// Dump is the whole state, to be compared.
func (m *Model) Dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.dump())
}

// Device is a copy of a function's state.
func (m *Model) Device(a pci.Address) (Device, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.state.Devices[a]
	if d == nil {
		return Device{}, false
	}
	return *d, true
}

// Change alters a function as something outside would: an operator, a fault.
func (m *Model) Change(a pci.Address, change func(*Device)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.state.Devices[a]; d != nil {
		change(d)
		m.changed()
	}
}

// Vanish takes a function off the bus, as a pulled plug does.
func (m *Model) Vanish(a pci.Address) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(a)
	m.changed()
}

// remove takes a function with all that hangs on it.
func (m *Model) remove(a pci.Address) {
	d := m.state.Devices[a]
	if d == nil {
		return
	}
	m.dropVFs(a)
	m.dropMediated(a.String())
	d.Driver, d.Override, d.Owner, d.ResetOn = "", "", "", slices.Clone(d.Reset)
	delete(m.state.Devices, a)
	if d.PF == nil {
		m.state.Gone[a] = d
	}
}

func (m *Model) changed() {
	m.view = nil
	if err := m.save(); err != nil {
		panic(err)
	}
	m.let.Broadcast()
}

func (m *Model) addresses() []pci.Address {
	return slices.SortedFunc(maps.Keys(m.state.Devices), pci.Address.Compare)
}

func (m *Model) driver(name string) *Driver {
	for _, d := range m.state.Drivers {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// vfs are a card's virtual functions in order.
func (m *Model) vfs(pf pci.Address) []pci.Address {
	var out []pci.Address
	for _, a := range m.addresses() {
		if d := m.state.Devices[a]; d.PF != nil && *d.PF == pf {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b pci.Address) int { return m.state.Devices[a].Index - m.state.Devices[b].Index })
	return out
}
