package recorded

import (
	"errors"
	"slices"
	"syscall"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// ErrKilled is all that a process that was killed sees of the model.
var ErrKilled = errors.New("the process was killed")

// Fault strikes at one write.
type Fault struct {
	Write int   // 1: the next one
	After bool  // after its effect, not before
	Err   error // what the write gives; nil: the process is killed there
}

// Inject adds faults to come.
func (m *Model) Inject(faults ...Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range faults {
		f.Write += m.writes
		m.faults = append(m.faults, f)
	}
}

// Writes counts the writes that reached an attribute, so that a test can strike
// at each in turn.
func (m *Model) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

type killed struct{}

// strike carries out a fault that is due.
func (m *Model) strike(after bool) error {
	i := slices.IndexFunc(m.faults, func(f Fault) bool { return f.Write == m.writes && f.After == after })
	if i < 0 {
		return nil
	}
	f := m.faults[i]
	m.faults = slices.Delete(m.faults, i, i+1)
	if f.Err != nil {
		return f.Err
	}
	if m.onKill != nil {
		m.onKill()
	}
	m.killed = true
	panic(killed{})
}

// OnKill is called where a fault kills, before the model does it its own way: a
// child process ends itself there.
func (m *Model) OnKill(end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onKill = end
}

// Run runs a piece of a process, which may be killed in it: then it ends there,
// and the model answers nothing more until the next Run.
func (m *Model) Run(process func()) (wasKilled bool) {
	m.mu.Lock()
	m.killed = false
	m.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			wasKilled = true
		}
	}()
	process()
	return false
}

// Refuse has a driver refuse a function; nil ends it.
func (m *Model) Refuse(driver string, a pci.Address, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probes[driver+" "+a.String()] = err
}

// Attach opens functions for a guest, with VFIO's rules: each is bound to
// vfio-pci or has a vGPU type, is nobody's, and no driver of the host's has
// another of its IOMMU group.
func (m *Model) Attach(owner string, functions ...pci.Address) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range functions {
		d := m.state.Devices[a]
		switch {
		case d == nil:
			return syscall.ENODEV
		case d.Owner != "" && d.Owner != owner:
			return syscall.EBUSY
		case d.Driver != VFIO && d.Current == 0:
			return syscall.ENODEV
		}
		for _, b := range m.addresses() {
			o := m.state.Devices[b]
			if o.Group != d.Group || o.Class>>8 == 0x0604 || o == d {
				continue
			}
			if o.Driver != "" && o.Driver != VFIO && o.Driver != "pci-stub" || o.Owner != "" && o.Owner != owner {
				return syscall.EPERM // "group is not viable"
			}
		}
	}
	for _, a := range functions {
		m.state.Devices[a].Owner = owner
	}
	m.changed()
	return nil
}

// AttachMediated opens a mediated device for a guest.
func (m *Model) AttachMediated(owner, uuid string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.state.Mediated[uuid]
	switch {
	case d == nil:
		return syscall.ENODEV
	case d.Owner != "" && d.Owner != owner:
		return syscall.EBUSY
	}
	d.Owner = owner
	m.changed()
	return nil
}

// Detach closes what a guest has. VFIO resets what it can as it closes.
func (m *Model) Detach(owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.state.Devices {
		if d.Owner == owner {
			d.Owner = ""
			if d.Driver == VFIO && len(d.ResetOn) > 0 {
				_ = d.reset() // nobody is told
			}
		}
	}
	for _, d := range m.state.Mediated {
		if d.Owner == owner {
			d.Owner = ""
		}
	}
	m.changed()
}
