package recorded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// node is a file, folder or link of the view.
type node struct {
	name  string
	mode  fs.FileMode
	data  []byte
	link  string
	kids  map[string]*node
	store func(data string) error
}

func (n *node) dir(name string) *node {
	at := n
	for part := range strings.SplitSeq(name, "/") {
		next := at.kids[part]
		if next == nil {
			next = &node{name: part, mode: fs.ModeDir | 0o555, kids: map[string]*node{}}
			at.kids[part] = next
		}
		at = next
	}
	return at
}

func (n *node) file(name, text string) { n.add(name, 0o444, text, nil) }

func (n *node) add(name string, mode fs.FileMode, text string, store func(string) error) {
	n.kids[name] = &node{name: name, mode: mode, data: []byte(text), store: store}
}

// join makes a link in the folder at from to the folder at to, as relative as
// the kernel makes it.
func (n *node) join(from, name, to string) {
	a, b := strings.Split(from, "/"), strings.Split(to, "/")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	n.dir(from).kids[name] = &node{name: name, mode: fs.ModeSymlink | 0o777, link: strings.Repeat("../", len(a)) + strings.Join(b, "/")}
}

// place is the folder of a function below devices.
func (m *Model) place(a pci.Address) string {
	d := m.state.Devices[a]
	if d == nil {
		d = m.state.Gone[a]
	}
	if d.Under == nil {
		bus := a.Bus
		if d.PF != nil { // on its card's root bus
			bus = d.PF.Bus
		}
		return fmt.Sprintf("devices/pci%04x:%02x/%s", a.Domain, bus, a)
	}
	return m.place(*d.Under) + "/" + a.String()
}

func (m *Model) root() *node {
	if m.view != nil {
		return m.view
	}
	root := &node{name: ".", mode: fs.ModeDir | 0o555, kids: map[string]*node{}}
	bus := root.dir("bus/pci")
	bus.dir("devices")
	bus.dir("drivers")
	root.dir("kernel/iommu_groups")
	bus.add("drivers_probe", 0o200, "", m.storeProbe)
	bus.add("rescan", 0o200, "", m.storeRescan)
	bus.add("drivers_autoprobe", 0o644, flag(!m.state.NoProbe), m.storeAutoprobe)
	for _, d := range m.state.Drivers {
		dir := bus.dir("drivers/" + d.Name)
		dir.add("bind", 0o200, "", func(s string) error { return m.storeBind(d, s) })
		dir.add("unbind", 0o200, "", func(s string) error { return m.storeUnbind(d, s) })
		dir.add("new_id", 0o200, "", func(s string) error { return m.storeNewID(d, s) })
		dir.add("remove_id", 0o200, "", func(s string) error { return m.storeRemoveID(d, s) })
	}
	for _, a := range m.addresses() {
		m.viewDevice(root, a)
	}
	m.viewMediated(root)
	m.view = root
	return root
}

func flag(on bool) string {
	if on {
		return "1\n"
	}
	return "0\n"
}

func (m *Model) viewDevice(root *node, a pci.Address) {
	d, place := m.state.Devices[a], m.place(a)
	dir := root.dir(place)
	root.join("bus/pci/devices", a.String(), place)
	dir.file("vendor", fmt.Sprintf("0x%04x\n", d.ID.Vendor))
	dir.file("device", fmt.Sprintf("0x%04x\n", d.ID.Device))
	dir.file("class", fmt.Sprintf("0x%06x\n", d.Class))
	dir.file("revision", fmt.Sprintf("0x%02x\n", d.Revision))
	dir.file("numa_node", strconv.Itoa(d.NUMA)+"\n")
	dir.file("resource", d.resource())
	dir.add("config", 0o644, string(d.config()), nil)
	override := d.Override
	if override == "" {
		override = "(null)"
	}
	dir.add("driver_override", 0o644, override+"\n", func(s string) error { return d.storeOverride(s) })
	if d.PF == nil { // the kernel lets one take a virtual function alone, and then miscounts
		dir.add("remove", 0o200, "", func(s string) error { return m.storeRemove(a, s) })
	}
	if d.BootVGA != nil {
		dir.file("boot_vga", flag(*d.BootVGA))
	}
	if d.Driver != "" {
		root.join(place, "driver", "bus/pci/drivers/"+d.Driver)
		root.join("bus/pci/drivers/"+d.Driver, a.String(), place)
	}
	if d.Group >= 0 {
		group := "kernel/iommu_groups/" + strconv.Itoa(d.Group)
		root.join(place, "iommu_group", group)
		root.join(group+"/devices", a.String(), place)
		root.dir(group).file("type", "DMA-FQ\n")
		if m.state.NoIOMMU {
			root.dir(group).file("name", "vfio-noiommu\n")
		}
	}
	if len(d.Reset) > 0 {
		dir.add("reset", 0o200, "", func(s string) error { return m.storeReset(d, s) })
		dir.add("reset_method", 0o644, strings.Join(d.ResetOn, " ")+"\n", func(s string) error { return d.storeResetMethod(s) })
	}
	if d.Class>>8 == 0x0604 && m.state.Subordinate {
		dir.add("reset_subordinate", 0o200, "", func(s string) error { return m.storeSubordinate(a, s) })
	}
	if d.PF != nil && m.state.Devices[*d.PF] != nil {
		root.join(place, "physfn", m.place(*d.PF))
		root.join(m.place(*d.PF), "virtfn"+strconv.Itoa(d.Index), place)
	}
	if d.TotalVFs > 0 {
		dir.file("sriov_totalvfs", strconv.Itoa(d.TotalVFs)+"\n")
		dir.file("sriov_vf_device", fmt.Sprintf("%x\n", d.VFDevice))
		dir.add("sriov_numvfs", 0o644, strconv.Itoa(d.VFs)+"\n", func(s string) error { return m.storeVFs(a, s) })
	}
	m.viewVGPU(root, a, place)
}

// resource has a line for each of six regions, the ROM and six more.
func (d *Device) resource() string {
	lines := make([]string, 13)
	for i := range lines {
		lines[i] = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
	}
	for _, b := range d.BARs {
		flags := uint64(0x40101)
		if b.Memory {
			flags = 0x40200
			if b.Prefetch {
				flags |= 0x2000
			}
			if b.Wide {
				flags |= 0x100000
			}
		}
		lines[b.Index] = fmt.Sprintf("0x%016x 0x%016x 0x%016x", b.Start, b.Start+b.Bytes-1, flags)
	}
	return strings.Join(lines, "\n") + "\n"
}

// config is what the hardware answers, so ones from a dead device.
func (d *Device) config() []byte {
	c := make([]byte, 256)
	if d.Dead {
		return bytes.Repeat([]byte{0xff}, len(c))
	}
	binary.LittleEndian.PutUint16(c, d.ID.Vendor)
	binary.LittleEndian.PutUint16(c[2:], d.ID.Device)
	binary.LittleEndian.PutUint32(c[8:], d.Class<<8|uint32(d.Revision))
	if d.Class>>8 == 0x0604 {
		c[0x0e] = 1
	}
	return c
}

// resolve walks to a name, through links.
func (m *Model) resolve(name string, last bool) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	root := m.root()
	var at []*node
	left := strings.Split(name, "/")
	for hops := 0; len(left) > 0; {
		part := left[0]
		left = left[1:]
		switch part {
		case ".", "":
			continue
		case "..":
			at = at[:max(0, len(at)-1)]
			continue
		}
		here := root
		if len(at) > 0 {
			here = at[len(at)-1]
		}
		if here.kids == nil {
			return nil, syscall.ENOTDIR
		}
		next := here.kids[part]
		if next == nil {
			return nil, syscall.ENOENT
		}
		if next.link == "" || len(left) == 0 && !last {
			at = append(at, next)
			continue
		}
		if hops++; hops > 40 {
			return nil, syscall.ELOOP
		}
		left = append(strings.Split(next.link, "/"), left...)
	}
	if len(at) == 0 {
		return root, nil
	}
	return at[len(at)-1], nil
}

func (m *Model) find(op, name string, last bool) (*node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.killed {
		return nil, &fs.PathError{Op: op, Path: name, Err: ErrKilled}
	}
	n, err := m.resolve(name, last)
	if err == nil {
		err = m.reads[name]
	}
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return n, nil
}

// Open opens for reading.
func (m *Model) Open(name string) (fs.File, error) {
	n, err := m.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.kids == nil && n.mode&0o444 == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	f := &file{node: n, Reader: bytes.NewReader(n.data)}
	for _, k := range slices.Sorted(maps.Keys(n.kids)) {
		f.entries = append(f.entries, fs.FileInfoToDirEntry(info{n.kids[k]}))
	}
	return f, nil
}

// ReadLink gives a link's target.
func (m *Model) ReadLink(name string) (string, error) {
	n, err := m.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if n.link == "" {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL}
	}
	return n.link, nil
}

// Lstat describes without following a last link.
func (m *Model) Lstat(name string) (fs.FileInfo, error) {
	n, err := m.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

// Stat describes what a name leads to, also where it can't be read.
func (m *Model) Stat(name string) (fs.FileInfo, error) {
	n, err := m.find("stat", name, true)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

type file struct {
	*bytes.Reader
	node    *node
	entries []fs.DirEntry
}

func (f *file) Stat() (fs.FileInfo, error) { return info{f.node}, nil }
func (f *file) Close() error               { return nil }

func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	out := f.entries
	if n > 0 {
		if len(out) == 0 {
			return nil, io.EOF
		}
		out = out[:min(n, len(out))]
	}
	f.entries = f.entries[len(out):]
	return out, nil
}

type info struct{ n *node }

func (i info) Name() string       { return path.Base(i.n.name) }
func (i info) Size() int64        { return int64(len(i.n.data)) }
func (i info) Mode() fs.FileMode  { return i.n.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.n.mode.IsDir() }
func (i info) Sys() any           { return nil }
