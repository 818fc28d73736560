package recorded

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// WriteFile writes an attribute, with the effect and the errors of the kernel's.
func (m *Model) WriteFile(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write(name, string(data)); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

func (m *Model) write(name, data string) error {
	if m.killed {
		return ErrKilled
	}
	n, err := m.resolve(name, true)
	switch {
	case err != nil:
		return err
	case n.kids != nil:
		return syscall.EISDIR
	case n.mode&0o222 == 0 || n.store == nil:
		return syscall.EACCES
	}
	m.writes++
	if err := m.strike(false); err != nil {
		return err
	}
	err = n.store(data)
	m.changed() // also a reset that failed leaves something
	if err != nil {
		return err
	}
	return m.strike(true)
}

// named finds the function that a write names, with or without a line's end.
func (m *Model) named(s string) (pci.Address, *Device) {
	s = strings.TrimSuffix(s, "\n")
	a, err := pci.ParseAddress(s)
	if err != nil || a.String() != s { // the kernel compares names
		return a, nil
	}
	return a, m.state.Devices[a]
}

// matches: an override names the only driver that may have a device, and makes
// that one match whatever its table says.
func (drv *Driver) matches(d *Device) bool {
	if d.Override != "" {
		return d.Override == drv.Name
	}
	return slices.Contains(drv.Dynamic, d.ID) || slices.Contains(drv.Table, d.ID)
}

// probe has a driver take a device, which it can refuse.
func (m *Model) probe(drv *Driver, a pci.Address, d *Device) error {
	if err := m.probes[drv.Name+" "+a.String()]; err != nil {
		return err
	}
	if drv.Name == VFIO {
		switch {
		case d.Group < 0, d.Class>>8 == 0x0604:
			return syscall.EINVAL
		case d.VFs > 0: // the kernel: "Cannot bind to PF with SRIOV enabled"
			return syscall.EBUSY
		}
	}
	d.Driver = drv.Name
	return nil
}

// VFIO is the driver that gives a function to a guest.
const VFIO = "vfio-pci"

func (m *Model) storeBind(drv *Driver, s string) error {
	a, d := m.named(s)
	if d == nil || !drv.matches(d) {
		return syscall.ENODEV
	}
	if d.Driver != "" {
		return syscall.EBUSY
	}
	return m.probe(drv, a, d)
}

// storeUnbind waits, as drivers do, until whoever has the device open lets go.
func (m *Model) storeUnbind(drv *Driver, s string) error {
	a, d := m.named(s)
	if d == nil || d.Driver != drv.Name {
		return syscall.ENODEV
	}
	for m.state.Devices[a] == d && m.inUse(a) {
		m.let.Wait()
	}
	m.unbind(a, d)
	return nil
}

// inUse: a guest has the function, or a vGPU that its driver made.
func (m *Model) inUse(a pci.Address) bool {
	for _, b := range append(m.vfs(a), a) {
		if m.state.Devices[b].Owner != "" && (b == a || m.state.Devices[b].Current != 0) || m.mediatedOwned(b.String()) {
			return true
		}
	}
	return false
}

// unbind ends the vGPUs that the driver made; virtual functions stay.
func (m *Model) unbind(a pci.Address, d *Device) {
	d.Driver = ""
	for _, b := range append(m.vfs(a), a) {
		m.state.Devices[b].Current = 0
		m.dropMediated(b.String())
	}
}

// storeNewID teaches a driver an id, and it takes all free devices that have it.
func (m *Model) storeNewID(drv *Driver, s string) error {
	id, err := scanID(s)
	if err != nil {
		return err
	}
	if slices.Contains(drv.Table, id) || slices.Contains(drv.Dynamic, id) {
		return syscall.EEXIST
	}
	drv.Dynamic = append(drv.Dynamic, id)
	for _, a := range m.addresses() {
		if d := m.state.Devices[a]; d.Driver == "" && drv.matches(d) {
			_ = m.probe(drv, a, d) // the kernel goes on to the next
		}
	}
	return nil
}

func (m *Model) storeRemoveID(drv *Driver, s string) error {
	id, err := scanID(s)
	if err != nil {
		return err
	}
	n := slices.Index(drv.Dynamic, id)
	if n < 0 {
		return syscall.ENODEV
	}
	drv.Dynamic = slices.Delete(drv.Dynamic, n, n+1)
	return nil
}

func scanID(s string) (pci.ID, error) {
	fields := strings.Fields(s)
	if len(fields) < 2 {
		return pci.ID{}, syscall.EINVAL
	}
	v, errV := strconv.ParseUint(strings.TrimPrefix(fields[0], "0x"), 16, 16)
	d, errD := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 16)
	if errV != nil || errD != nil {
		return pci.ID{}, syscall.EINVAL
	}
	return pci.ID{Vendor: uint16(v), Device: uint16(d)}, nil
}

func (d *Device) storeOverride(s string) error {
	if len(s) >= 4095 {
		return syscall.EINVAL
	}
	s, _, _ = strings.Cut(s, "\n")
	d.Override = s
	return nil
}

// storeProbe looks for a driver. That none matched, or that one refused, is not
// an error to the kernel: only the link "driver" tells.
func (m *Model) storeProbe(s string) error {
	a, d := m.named(s)
	if d == nil {
		return syscall.ENODEV
	}
	m.autoprobe(a, d)
	return nil
}

func (m *Model) autoprobe(a pci.Address, d *Device) {
	for _, drv := range m.state.Drivers {
		if d.Driver == "" && drv.matches(d) {
			_ = m.probe(drv, a, d) // the next may like it
		}
	}
}

func (m *Model) storeAutoprobe(s string) error {
	m.state.NoProbe = strings.HasPrefix(s, "0")
	return nil
}

func (m *Model) storeReset(d *Device, s string) error {
	if n, err := number(s); err != nil || n != 1 {
		return syscall.EINVAL
	}
	if len(d.ResetOn) == 0 {
		return syscall.ENOTTY
	}
	return d.reset()
}

// storeSubordinate resets all that is below a bridge (since Linux 6.13).
func (m *Model) storeSubordinate(bridge pci.Address, s string) error {
	n, err := number(s)
	if err != nil || n == 0 {
		return err
	}
	for _, a := range m.below(bridge) {
		if d := m.state.Devices[a]; d.PF == nil {
			err = errors.Join(err, d.reset())
		}
	}
	if err != nil {
		return syscall.ENOTTY
	}
	return nil
}

func (m *Model) below(bridge pci.Address) []pci.Address {
	var out []pci.Address
	for _, a := range m.addresses() {
		if d := m.state.Devices[a]; d.Under != nil && *d.Under == bridge {
			out = append(append(out, a), m.below(a)...)
		}
	}
	return out
}

func (d *Device) reset() error {
	d.Resets++
	if d.After != Well {
		d.Dead = true
	}
	if d.Dead && d.After != Silent {
		return syscall.ENOTTY // not ready in time
	}
	return nil
}

func (d *Device) storeResetMethod(s string) error {
	ways := strings.Fields(s)
	if len(ways) == 1 && ways[0] == "default" {
		d.ResetOn = slices.Clone(d.Reset)
		return nil
	}
	for _, w := range ways {
		if !slices.Contains(d.Reset, w) {
			return syscall.EINVAL
		}
	}
	d.ResetOn = ways
	return nil
}

// storeRemove waits for the driver as an unbind does.
func (m *Model) storeRemove(a pci.Address, s string) error {
	if n, err := number(s); err != nil || n == 0 {
		return err
	}
	d := m.state.Devices[a]
	for m.state.Devices[a] == d && m.inUse(a) {
		m.let.Wait()
	}
	m.remove(a)
	return nil
}

func (m *Model) storeRescan(s string) error {
	if n, err := number(s); err != nil || n == 0 {
		return err
	}
	for _, a := range slices.SortedFunc(maps.Keys(m.state.Gone), pci.Address.Compare) {
		d := m.state.Gone[a]
		if d.Dead {
			continue
		}
		delete(m.state.Gone, a)
		m.state.Devices[a] = d
		if !m.state.NoProbe {
			m.autoprobe(a, d)
		}
	}
	return nil
}

// storeVFs makes virtual functions, or takes all of them: there is no way from
// one number to another.
func (m *Model) storeVFs(a pci.Address, s string) error {
	n, err := number(s)
	if err != nil {
		return err
	}
	pf := m.state.Devices[a]
	drv := m.driver(pf.Driver)
	switch {
	case n > pf.TotalVFs:
		return syscall.ERANGE
	case n == pf.VFs:
		return nil
	case drv == nil || !drv.SRIOV:
		return syscall.ENOENT
	case n > 0 && pf.VFs > 0:
		return syscall.EBUSY
	case n == 0:
		for _, v := range m.vfs(a) {
			if d := m.state.Devices[v]; d.Current != 0 || m.mediatedOn(v.String()) > 0 {
				return syscall.EBUSY
			}
		}
		for slices.ContainsFunc(m.vfs(a), func(v pci.Address) bool { return m.state.Devices[v].Owner != "" }) {
			m.let.Wait()
		}
		m.dropVFs(a)
		return nil
	}
	m.makeVFs(a, n)
	return nil
}

func (m *Model) dropVFs(a pci.Address) {
	for _, v := range m.vfs(a) {
		m.dropMediated(v.String())
		delete(m.state.Devices, v)
	}
	if pf := m.state.Devices[a]; pf != nil {
		pf.VFs = 0
	}
}

func (m *Model) makeVFs(a pci.Address, n int) {
	pf := m.state.Devices[a]
	pf.VFs = n
	for i := range n {
		rid := int(a.Bus)<<8 | int(a.Slot)<<3 | int(a.Function)
		rid += pf.VFOffset + i*pf.VFStride
		v := pci.Address{Domain: a.Domain, Bus: uint8(rid >> 8), Slot: uint8(rid >> 3 & 0x1f), Function: uint8(rid & 7)} //nolint:gosec // a routing id has 16 bits
		d := &Device{Under: pf.Under, ID: pci.ID{Vendor: pf.ID.Vendor, Device: pf.VFDevice}, Class: pf.Class, Revision: pf.Revision,
			NUMA: pf.NUMA, Group: -1, PF: &a, Index: i, Reset: []string{"flr"}, ResetOn: []string{"flr"}}
		if pf.Group >= 0 {
			d.Group = m.state.NextGroup
			m.state.NextGroup++
		}
		m.state.Devices[v] = d
		if !m.state.NoProbe {
			m.autoprobe(v, d)
		}
	}
}

// number reads as the kernel does: one number, in any base, and a line's end.
func number(s string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "\n"), 0, 16)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, syscall.ERANGE
	case err != nil:
		return 0, syscall.EINVAL
	}
	return int(n), nil //nolint:gosec // 16 bits
}
