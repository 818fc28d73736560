package pci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Options are an operator's.
type Options struct {
	// Allow offers functions by their numbers, whatever their class and vendor: a
	// lab's devices, or an integrated GPU that is meant to be given away.
	Allow []ID
}

// Scan reads a host. It fails only where the list of functions can't be had:
// then nothing is known, which is not an empty host.
func Scan(sys fs.FS, options Options) (Inventory, error) {
	entries, err := fs.ReadDir(sys, devicesDir)
	if err != nil {
		return Inventory{}, fmt.Errorf("list PCI functions: %w", err)
	}
	var inv Inventory
	for _, e := range entries {
		address, err := ParseAddress(e.Name())
		if err != nil {
			continue // the kernel names functions no other way
		}
		f, err := ReadFunction(sys, address)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := fs.Stat(sys, devicesDir+"/"+e.Name()); errors.Is(err, fs.ErrNotExist) {
				continue // it left while we read
			}
		}
		if err != nil {
			var ignored []string
			f.readGroup(reader{sys: sys, dir: devicesDir + "/" + e.Name(), unknown: &ignored})
			inv.Unknown = append(inv.Unknown, Unknown{address, err.Error(), f.Group})
			continue
		}
		inv.Functions = append(inv.Functions, f)
	}
	slices.SortFunc(inv.Functions, func(a, b Function) int { return a.Address.Compare(b.Address) })
	inv.IOMMU = slices.ContainsFunc(inv.Functions, func(f Function) bool { return f.Group >= 0 })
	inv.readMediated(sys)
	inv.offer(sys, options)
	return inv, nil
}

// ReadFunction reads one function. An error says that not even its class and
// numbers could be read; what else is unreadable is in Unknown.
func ReadFunction(sys fs.FS, a Address) (Function, error) {
	f := Function{Address: a, NUMANode: -1, Group: -1}
	r := reader{sys: sys, dir: devicesDir + "/" + a.String(), unknown: &f.Unknown}
	class, err := r.number("class")
	if err != nil {
		return f, fmt.Errorf("read class of %s: %w", a, err)
	}
	vendor, err := r.number("vendor")
	if err != nil {
		return f, fmt.Errorf("read vendor of %s: %w", a, err)
	}
	device, err := r.number("device")
	if err != nil {
		return f, fmt.Errorf("read device of %s: %w", a, err)
	}
	f.Class, f.ID = uint16(class>>8), ID{uint16(vendor), uint16(device)} //nolint:gosec // 24 and 16 bits by the kernel
	f.Revision = uint8(r.optional("revision", 0))                        //nolint:gosec // 8 bits by the kernel
	f.NUMANode = int(r.optional("numa_node", -1))
	f.BootVGA = r.optional("boot_vga", 0) == 1
	f.Total = int(r.optional("sriov_totalvfs", 0))
	if link := r.link("driver"); link != "." {
		f.Driver = path.Base(link)
	}
	f.Override = r.text("driver_override")
	if f.Override == "(null)" {
		f.Override = ""
	}
	f.readGroup(r)
	f.readAbove(r)
	f.readReset(r)
	f.readVirtual(r)
	if text := r.text("resource"); text != "" {
		if f.BARs, err = parseResource(text); err != nil {
			f.Unknown = append(f.Unknown, err.Error())
		}
	}
	return f, nil
}

func (f *Function) readGroup(r reader) {
	link := r.link("iommu_group")
	if link == "." {
		return
	}
	// Without an IOMMU, VFIO can be told to make groups that isolate nothing.
	if r.text("iommu_group/name") == "vfio-noiommu" {
		return
	}
	n, err := strconv.Atoi(path.Base(link))
	if err != nil {
		f.Unknown = append(f.Unknown, "iommu_group: "+link+" is no group")
		return
	}
	f.Group = n
}

// readAbove takes the bridges from the path of its folder.
func (f *Function) readAbove(r reader) {
	link, err := fs.ReadLink(r.sys, r.dir)
	if err != nil {
		f.Unknown = append(f.Unknown, "bridges above: "+err.Error())
		return
	}
	for part := range strings.SplitSeq(path.Dir(link), "/") {
		if strings.Count(part, ":") == 2 {
			if a, err := ParseAddress(part); err == nil {
				f.Above = append(f.Above, a)
			}
		}
	}
}

// readReset: the file "reset" is there exactly where a way is known.
func (f *Function) readReset(r reader) {
	_, err := fs.Stat(r.sys, r.dir+"/reset")
	switch {
	case err == nil:
		f.CanReset = true
	case !errors.Is(err, fs.ErrNotExist):
		f.Unknown = append(f.Unknown, "reset: "+err.Error())
		return
	}
	if _, err := fs.Stat(r.sys, r.dir+"/reset_method"); err == nil {
		f.Reset = strings.Fields(r.text("reset_method"))
		f.CanReset = len(f.Reset) > 0 // an operator can switch all of them off
	}
}

func (f *Function) readVirtual(r reader) {
	if pf := r.link("physfn"); pf != "." {
		if a, err := ParseAddress(path.Base(pf)); err == nil {
			f.PF = &a
		}
	}
	if f.Total == 0 {
		return
	}
	n := int(r.optional("sriov_numvfs", 0))
	for i := range n {
		if vf := r.link("virtfn" + strconv.Itoa(i)); vf != "." {
			if a, err := ParseAddress(path.Base(vf)); err == nil {
				f.Virtual = append(f.Virtual, a)
				continue
			}
		}
		f.Unknown = append(f.Unknown, fmt.Sprintf("virtual function %d of %d: its address could not be read", i, n))
	}
}

// LiveID reads vendor and device from the configuration space, so from the
// hardware: ffff:ffff is a function that no longer answers.
func LiveID(sys fs.FS, a Address) (ID, error) {
	file, err := sys.Open(DeviceFile(a, "config"))
	if err != nil {
		return ID{}, fmt.Errorf("read configuration of %s: %w", a, err)
	}
	defer file.Close()
	var head [4]byte
	if _, err := io.ReadFull(file, head[:]); err != nil {
		return ID{}, fmt.Errorf("read configuration of %s: %w", a, err)
	}
	return ID{binary.LittleEndian.Uint16(head[:2]), binary.LittleEndian.Uint16(head[2:])}, nil
}

// Flags of a region in the file "resource".
const (
	flagIO       = 0x100
	flagMemory   = 0x200
	flagPrefetch = 0x2000
	flagWide     = 0x100000
)

// parseResource reads the first six lines: the regions. The ROM and the regions
// of virtual functions come after.
func parseResource(text string) ([]BAR, error) {
	var out []BAR
	for i, line := range strings.Split(text, "\n") {
		if i == 6 {
			break
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return out, fmt.Errorf("resource: line %d is %q", i+1, line)
		}
		var n [3]uint64
		for k, field := range fields {
			v, ok := hex(strings.TrimPrefix(field, "0x"))
			if !ok {
				return out, fmt.Errorf("resource: line %d is %q", i+1, line)
			}
			n[k] = v
		}
		if n[2]&(flagIO|flagMemory) == 0 || n[1] < n[0] {
			continue
		}
		out = append(out, BAR{Index: i, Start: n[0], Bytes: n[1] - n[0] + 1,
			Memory: n[2]&flagMemory != 0, Prefetch: n[2]&flagPrefetch != 0, Wide: n[2]&flagWide != 0})
	}
	return out, nil
}

// reader reads the attributes of one folder and notes what it couldn't read.
// An attribute that isn't there is not unreadable: the kernel has no such thing.
type reader struct {
	sys     fs.FS
	dir     string
	unknown *[]string
}

func (r reader) note(name string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		*r.unknown = append(*r.unknown, name+": "+reason(err))
	}
}

func (r reader) text(name string) string {
	data, err := fs.ReadFile(r.sys, r.dir+"/"+name)
	if err != nil {
		r.note(name, err)
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (r reader) number(name string) (int64, error) {
	data, err := fs.ReadFile(r.sys, r.dir+"/"+name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 0, 64)
}

func (r reader) optional(name string, missing int64) int64 {
	n, err := r.number(name)
	if err != nil {
		r.note(name, err)
		return missing
	}
	return n
}

// link gives a link's target, "." where there is none.
func (r reader) link(name string) string {
	target, err := fs.ReadLink(r.sys, r.dir+"/"+name)
	if err != nil {
		r.note(name, err)
		return "."
	}
	return target
}

// reason is an error without the path, which the reader has said.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
