package recorded

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

//go:embed trees/*.txt
var trees embed.FS

// Trees are the names of the recorded hosts.
func Trees() []string {
	files, _ := fs.Glob(trees, "trees/*.txt") // the pattern is good
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".txt")
	}
	return files
}

// Tree is a recorded host.
func Tree(name string) (*Model, error) {
	text, err := trees.ReadFile("trees/" + name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("recorded host %q: %w", name, err)
	}
	m, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("recorded host %q: %w", name, err)
	}
	return m, nil
}

// Parse reads the text form that README.md describes: a line for each
// function, and a few others.
func Parse(text string) (*Model, error) {
	p := parser{state: State{Devices: map[pci.Address]*Device{}, Gone: map[pci.Address]*Device{}, Soft: map[string]*Soft{}, Mediated: map[string]*Mediated{}},
		vfs: map[pci.Address]int{}, sets: map[pci.Address]int{}, wide: 0x380000000000, narrow: 0x90000000, ports: 0x3000}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			if err := p.line(words); err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
		}
	}
	return p.finish()
}

type parser struct {
	state               State
	vfs, sets           map[pci.Address]int
	wide, narrow, ports uint64 // where the next region goes
}

func (p *parser) line(words []string) error {
	switch words[0] {
	case "kernel": // kernel reset_subordinate noiommu
		p.state.Subordinate = slices.Contains(words[1:], "reset_subordinate")
		p.state.NoIOMMU = slices.Contains(words[1:], "noiommu")
		return nil
	case "driver": // driver NAME sriov
		p.driver(words[1]).SRIOV = slices.Contains(words[2:], "sriov")
		return nil
	case "soft": // soft NAME units=N TYPE=N...
		s := &Soft{}
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			n, err := strconv.Atoi(value)
			switch {
			case err != nil:
				return err
			case key == "units":
				s.Units = n
			default:
				s.Types = append(s.Types, Type{ID: key, Name: key, Units: n})
			}
		}
		p.state.Soft[words[1]] = s
		return nil
	}
	if words[0] != "type" && words[0] != "set" {
		return p.function(words)
	}
	a, err := pci.ParseAddress(words[1])
	if err != nil {
		return err
	}
	if words[0] == "set" { // set ADDRESS TYPE
		p.sets[a], err = strconv.Atoi(words[2])
		return err
	}
	d := p.state.Devices[a] // type ADDRESS ID MAX MIB NAME...
	if d == nil || len(words) < 6 {
		return fmt.Errorf("type of %s: no such function, or too short", a)
	}
	limit, err := strconv.Atoi(words[3])
	if err != nil {
		return err
	}
	mib, err := strconv.ParseInt(words[4], 10, 64)
	d.Types = append(d.Types, Type{ID: words[2], Max: limit, MiB: mib, Name: strings.Join(words[5:], " ")})
	return err
}

func (p *parser) driver(name string) *Driver {
	for _, d := range p.state.Drivers {
		if d.Name == name {
			return d
		}
	}
	d := &Driver{Name: name}
	p.state.Drivers = append(p.state.Drivers, d)
	return d
}

func (p *parser) function(words []string) error {
	a, err := pci.ParseAddress(words[0])
	if err != nil {
		return err
	}
	if p.state.Devices[a] != nil {
		return fmt.Errorf("%s is there twice", a)
	}
	d := &Device{NUMA: -1, Group: -1}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		if err := p.field(a, d, key, value); err != nil {
			return fmt.Errorf("%s: %s: %w", a, w, err)
		}
	}
	d.ResetOn = slices.Clone(d.Reset)
	p.state.Devices[a] = d
	p.state.NextGroup = max(p.state.NextGroup, d.Group+1)
	for _, name := range append([]string{d.Driver}, d.Modules...) {
		if name != "" {
			drv := p.driver(name)
			drv.Table = append(drv.Table, d.ID)
			if d.TotalVFs > 0 {
				drv.Table = append(drv.Table, pci.ID{Vendor: d.ID.Vendor, Device: d.VFDevice})
			}
		}
	}
	return nil
}

func (p *parser) field(a pci.Address, d *Device, key, value string) (err error) {
	var n uint64
	switch key {
	case "under":
		var b pci.Address
		b, err = pci.ParseAddress(value)
		d.Under = &b
		if p.state.Devices[b] == nil {
			return fmt.Errorf("no line before has %s", b)
		}
	case "class":
		n, err = strconv.ParseUint(value, 16, 24)
		d.Class = uint32(n) //nolint:gosec // 24 bits
	case "id":
		d.ID, err = pci.ParseID(value)
	case "rev":
		n, err = strconv.ParseUint(value, 16, 8)
		d.Revision = uint8(n) //nolint:gosec // 8 bits
	case "numa":
		d.NUMA, err = strconv.Atoi(value)
	case "group":
		d.Group, err = strconv.Atoi(value)
	case "driver":
		d.Driver = value
	case "modules":
		d.Modules = strings.Split(value, ",")
	case "reset":
		d.Reset = strings.Split(value, ",")
	case "vga":
		on := value == "1"
		d.BootVGA = &on
	case "vgpu":
		d.VGPU = value
	case "numvfs":
		p.vfs[a], err = strconv.Atoi(value)
	case "vfs": // TOTAL/OFFSET/STRIDE/DEVICE
		_, err = fmt.Sscanf(value, "%d/%d/%d/%x", &d.TotalVFs, &d.VFOffset, &d.VFStride, &d.VFDevice)
	case "bars":
		for bar := range strings.SplitSeq(value, ",") {
			if err := p.bar(d, bar); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("no such field")
	}
	return err
}

// bar reads INDEX:SIZE, then p for prefetchable in 64 bits, w for 64 bits alone,
// or io. It lies at an address of its own.
func (p *parser) bar(d *Device, text string) error {
	index, size, _ := strings.Cut(text, ":")
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i > 5 {
		return fmt.Errorf("no region %q", index)
	}
	b := pci.BAR{Index: i, Memory: true}
	at := &p.narrow
	switch {
	case strings.HasSuffix(size, "io"):
		size, b.Memory, at = size[:len(size)-2], false, &p.ports
	case strings.HasSuffix(size, "p"):
		size, b.Prefetch, b.Wide, at = size[:len(size)-1], true, true, &p.wide
	case strings.HasSuffix(size, "w"):
		size, b.Wide, at = size[:len(size)-1], true, &p.wide
	}
	unit := uint64(1)
	if n := strings.IndexByte("KMG", size[len(size)-1]); n >= 0 {
		unit, size = 1<<(10*(n+1)), size[:len(size)-1]
	}
	n, err := strconv.ParseUint(size, 10, 32)
	if err != nil || n == 0 {
		return fmt.Errorf("no size %q", size)
	}
	b.Bytes = n * unit
	b.Start = (*at + b.Bytes - 1) / b.Bytes * b.Bytes
	*at = b.Start + b.Bytes
	d.BARs = append(d.BARs, b)
	return nil
}

// finish adds what every kernel has, and the virtual functions.
func (p *parser) finish() (*Model, error) {
	p.driver(VFIO)
	p.driver("pci-stub")
	m := newModel(p.state)
	for _, a := range m.addresses() {
		if n := p.vfs[a]; n > 0 {
			m.makeVFs(a, n)
		}
	}
	for a, id := range p.sets {
		if err := m.storeCurrent(a, strconv.Itoa(id)); err != nil {
			return nil, fmt.Errorf("set %s to %d: %w", a, id, err)
		}
	}
	return m, nil
}
