package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cardParents finds where a card's vGPUs are made: on the card itself, or on
// its virtual functions. Which way it goes is what sysfs shows, not a table of
// driver versions.
func (inv *Inventory) cardParents(sys fs.FS, gpu Function) []Parent {
	var out []Parent
	if p, found := readParent(sys, gpu); found {
		out = append(out, p)
	}
	for _, a := range gpu.Virtual {
		f, found := inv.function(a)
		if !found {
			out = append(out, Parent{Name: a.String(), Address: &a, Path: devicesDir + "/" + a.String(), Backend: Plain,
				Whole: no("it could not be read"), Unknown: []string{"the function could not be read"}})
			continue
		}
		p, found := readParent(sys, f)
		if !found {
			p = Parent{Name: a.String(), Address: &f.Address, Path: devicesDir + "/" + a.String(), Backend: Plain}
		}
		if p.Backend != Mediated { // a mediated device has an IOMMU group of its own
			p.Whole = inv.alone(f)
		}
		out = append(out, p)
	}
	return out
}

// alone: a virtual machine can have this function without any other.
func (inv *Inventory) alone(f Function) Verdict {
	if f.Group < 0 {
		return no("it is in no IOMMU group")
	}
	if s := inv.stranger(f.Group, f, []Function{f}, nil); s != nil {
		return no("IOMMU group %d also has %s", f.Group, s)
	}
	return Verdict{OK: true}
}

// readParent reads what a function offers of vGPUs; false: nothing.
func readParent(sys fs.FS, f Function) (Parent, bool) {
	p := Parent{Name: f.Address.String(), Address: &f.Address, Path: devicesDir + "/" + f.Address.String()}
	r := reader{sys, p.Path, &p.Unknown}
	if _, err := fs.Stat(sys, p.Path+"/nvidia/current_vgpu_type"); err == nil {
		p.Backend = Vendor
		if p.Current = r.text("nvidia/current_vgpu_type"); p.Current == "0" {
			p.Current = ""
		}
		p.Types = parseCreatable(r.text("nvidia/creatable_vgpu_types"))
		return p, true
	}
	return p, p.readTypes(sys)
}

var creatable = regexp.MustCompile(`^\s*(\d+)\s*:\s*(.+?)\s*$`)

// parseCreatable reads lines of "number : name" below a heading.
func parseCreatable(text string) []Type {
	var out []Type
	for line := range strings.SplitSeq(text, "\n") {
		if m := creatable.FindStringSubmatch(line); m != nil {
			out = append(out, Type{ID: m[1], Name: m[2], Available: 1})
		}
	}
	return out
}

var framebuffer = regexp.MustCompile(`framebuffer=(\d+)M`)

// readTypes reads mdev_supported_types; false: the parent has none.
func (p *Parent) readTypes(sys fs.FS) bool {
	entries, err := fs.ReadDir(sys, p.Path+"/mdev_supported_types")
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.Unknown = append(p.Unknown, "mdev_supported_types: "+reason(err))
		}
		return false
	}
	p.Backend = Mediated
	for _, e := range entries {
		r := reader{sys, p.Path + "/mdev_supported_types/" + e.Name(), &p.Unknown}
		t := Type{ID: e.Name(), Name: r.text("name"), Available: int(r.optional("available_instances", 0))}
		if t.Name == "" {
			t.Name = t.ID
		}
		if m := framebuffer.FindStringSubmatch(r.text("description")); m != nil {
			t.MemoryMiB, _ = strconv.ParseInt(m[1], 10, 64)
		}
		p.Types = append(p.Types, t)
	}
	slices.SortFunc(p.Types, func(a, b Type) int { return strings.Compare(a.ID, b.ID) })
	return true
}

// readMediated lists the mediated devices that exist and the parents that are
// no PCI functions.
func (inv *Inventory) readMediated(sys fs.FS) {
	list := func(dir string) []fs.DirEntry {
		entries, err := fs.ReadDir(sys, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			inv.Unread = append(inv.Unread, dir+": "+reason(err))
		}
		return entries
	}
	for _, e := range list(MediatedDir) {
		dir := MediatedDir + "/" + e.Name()
		m := MediatedDevice{UUID: e.Name(), Group: -1}
		r := reader{sys, dir, &m.Unknown}
		if link := r.link("mdev_type"); link != "." {
			m.Type = path.Base(link)
		}
		if link, err := fs.ReadLink(sys, dir); err == nil {
			m.Parent = path.Base(path.Dir(link))
		}
		if link := r.link("driver"); link != "." {
			m.Driver = path.Base(link)
		}
		if n, err := strconv.Atoi(path.Base(r.link("iommu_group"))); err == nil {
			m.Group = n
		}
		inv.Mediated = append(inv.Mediated, m)
	}
	for _, e := range list(parentsDir) {
		if _, err := ParseAddress(e.Name()); err == nil {
			continue
		}
		p := Parent{Name: e.Name(), Path: parentsDir + "/" + e.Name()}
		if p.readTypes(sys) {
			inv.Parents = append(inv.Parents, p)
		}
	}
}

// CreateFile is the attribute to which a mediated device's UUID is written.
func (p Parent) CreateFile(typeID string) string {
	return p.Path + "/mdev_supported_types/" + typeID + "/create"
}

// CurrentFile is the attribute to which the number of a vGPU type is written.
func (p Parent) CurrentFile() string { return p.Path + "/nvidia/current_vgpu_type" }

// RemoveFile is the attribute that ends a mediated device.
func RemoveFile(uuid string) string { return fmt.Sprintf("%s/%s/remove", MediatedDir, uuid) }
