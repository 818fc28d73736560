package pci_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
)

var update = flag.Bool("update", false, "write the tables anew")

// table is an inventory as an operator would want it told.
func table(inv pci.Inventory) string {
	var b strings.Builder
	verdict := func(v pci.Verdict) string {
		if v.OK {
			return "yes"
		}
		return "no: " + v.Reason
	}
	for _, c := range inv.Cards {
		f := c.Function
		fmt.Fprintf(&b, "card %s %s driver=%q group=%d numa=%d MiB=%d\n", f.Address, f.ID, f.Driver, f.Group, f.NUMANode, f.MemoryBytes()>>20)
		fmt.Fprintf(&b, "  whole to a VM: %s\n", verdict(c.Whole))
		if c.Reset.OK {
			fmt.Fprintf(&b, "  reset: %s %v\n", c.ResetFile, f.Reset)
		} else {
			fmt.Fprintf(&b, "  reset: no: %s\n", c.Reset.Reason)
		}
		for _, k := range c.Companions {
			fmt.Fprintf(&b, "  with %s driver=%q\n", k, k.Driver)
		}
		if len(c.Bundle) > 0 {
			fmt.Fprintf(&b, "  bundle %v\n", c.Bundle)
		}
		for _, n := range append(c.Notes, f.Unknown...) {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
		if f.Total > 0 {
			fmt.Fprintf(&b, "  virtual functions: %d of %d\n", len(f.Virtual), f.Total)
		}
		for _, p := range c.Parents {
			fmt.Fprintf(&b, "  %s %s set=%q", p.Backend, p.Name, p.Current)
			if p.Backend != pci.Mediated {
				fmt.Fprintf(&b, " to a VM: %s", verdict(p.Whole))
			}
			for _, t := range p.Types {
				fmt.Fprintf(&b, " [%s %s free=%d MiB=%d]", t.ID, t.Name, t.Available, t.MemoryMiB)
			}
			b.WriteString("\n")
		}
	}
	for _, p := range inv.Parents {
		fmt.Fprintf(&b, "parent %s %s %v\n", p.Name, p.Backend, p.Types)
	}
	for _, s := range inv.Switches {
		fmt.Fprintf(&b, "NVSwitch %s driver=%q group=%d\n", s.Address, s.Driver, s.Group)
	}
	for _, e := range inv.Excluded {
		fmt.Fprintf(&b, "not offered %s: %s\n", e.Function, e.Reason)
	}
	for _, u := range inv.Unknown {
		fmt.Fprintf(&b, "unknown %s: %s\n", u.Address, u.Reason)
	}
	return b.String()
}

var lab = pci.Options{Allow: []pci.ID{{Vendor: 0x1234, Device: 0x11e8}}}

// Each recorded host yields its table of what is offered, bundled and excluded.
func TestTables(t *testing.T) {
	for _, name := range recorded.Trees() {
		t.Run(name, func(t *testing.T) {
			m := tree(t, name)
			options := pci.Options{}
			if name == "lab" {
				options = lab
			}
			got := table(scan(t, m, options))
			file := "testdata/" + name + ".table"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // a table to read
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func tree(t *testing.T, name string) *recorded.Model {
	t.Helper()
	m, err := recorded.Tree(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func host(t *testing.T, lines ...string) *recorded.Model {
	t.Helper()
	m, err := recorded.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func scan(t *testing.T, m *recorded.Model, o pci.Options) pci.Inventory {
	t.Helper()
	inv, err := pci.Scan(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func card(t *testing.T, inv pci.Inventory, address string) pci.Card {
	t.Helper()
	c, found := inv.Card(at(t, address))
	if !found {
		t.Fatalf("%s is no card", address)
	}
	return c
}

func at(t *testing.T, s string) pci.Address {
	t.Helper()
	a, err := pci.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// C1: an Instinct MI210 of class 0380 is a GPU. C2: the bridge 8086:a33d, in
// whose name a search for "3d" finds a hit, is none.
func TestClassesDecide(t *testing.T) {
	inv := scan(t, host(t,
		"00:1c.5 class=060400 id=8086:a33d driver=pcieport group=5",
		"03:00.0 under=00:1c.5 class=038000 id=1002:740f driver=amdgpu group=9 bars=0:64Gp reset=flr",
	), pci.Options{})
	if len(inv.Cards) != 1 || len(inv.Excluded) != 0 {
		t.Fatalf("cards and exclusions: %s", table(inv))
	}
	c := card(t, inv, "03:00.0")
	if c.Function.ID.Vendor != pci.VendorAMD || !c.Whole.OK {
		t.Errorf("the MI210: %s", table(inv))
	}
}

// C4: a card with 16 virtual functions is offered whole, or by them; never both.
func TestCutCardIsNotOfferedWhole(t *testing.T) {
	m := host(t, "driver nvidia sriov",
		"16:02.0 class=060400 id=8086:347a driver=pcieport group=1",
		"17:00.0 under=16:02.0 class=030200 id=10de:20f1 driver=nvidia group=2 vfs=16/4/1/20f1 vgpu=vendor reset=flr",
		"type 17:00.0 471 16 2048 GRID A100-2C")
	whole := card(t, scan(t, m, pci.Options{}), "17:00.0")
	if !whole.Whole.OK || len(whole.Parents) != 0 {
		t.Errorf("not cut, it offers %+v and %d places", whole.Whole, len(whole.Parents))
	}
	if err := m.WriteFile(pci.DeviceFile(at(t, "17:00.0"), "sriov_numvfs"), []byte("16\n")); err != nil {
		t.Fatal(err)
	}
	inv := scan(t, m, pci.Options{})
	cut := card(t, inv, "17:00.0")
	if len(inv.Cards) != 1 || len(inv.Excluded) != 0 || len(cut.Parents) != 16 || cut.Whole.OK || !cut.Partitioned {
		t.Errorf("cut, the host offers %d cards, %d places and whole %+v", len(inv.Cards), len(cut.Parents), cut.Whole)
	}
}

// What can't be read is unknown, with the reason; never absent and never good.
func TestUnreadableIsUnknown(t *testing.T) {
	const gpu = "0000:01:00.0"
	for _, c := range []struct{ attribute, want string }{
		{"class", "unknown 0000:01:00.0: read class of 0000:01:00.0"},
		{"vendor", "unknown 0000:01:00.0: read vendor of 0000:01:00.0"},
		{"iommu_group", "whole to a VM: no: its IOMMU group is unknown (iommu_group: input/output error)"},
		{"reset", "reset: no: whether it can be reset is unknown"},
		{"config", "note: config: input/output error"},
		{"numa_node", "numa=-1"},
		{"resource", "note: resource: input/output error"},
	} {
		m := tree(t, "l40s")
		m.Unreadable("bus/pci/devices/"+gpu+"/"+c.attribute, syscall.EIO)
		got := table(scan(t, m, pci.Options{}))
		if !strings.Contains(got, c.want) || !strings.Contains(got, gpu) {
			t.Errorf("%s unreadable: want %q in\n%s", c.attribute, c.want, got)
		}
	}
	m := tree(t, "l40s")
	m.Unreadable("bus/pci/devices", syscall.EIO)
	if inv, err := pci.Scan(m, pci.Options{}); err == nil {
		t.Errorf("an unreadable bus is an empty one: %s", table(inv))
	}
}

// The file "vendor" is what the kernel read at the start; a dead card shows in
// its configuration space alone.
func TestDeadCardIsTold(t *testing.T) {
	m := tree(t, "l40s")
	m.Change(at(t, "01:00.0"), func(d *recorded.Device) { d.Dead = true })
	c := card(t, scan(t, m, pci.Options{}), "01:00.0")
	if !c.Function.Dead || c.Whole.OK || c.Function.ID.Vendor != pci.VendorNVIDIA {
		t.Errorf("a dead card: %+v", c.Whole)
	}
	if id, err := pci.LiveID(m, at(t, "82:00.0")); err != nil || id.Vendor != pci.VendorNVIDIA {
		t.Errorf("the other card answers %s, %v", id, err)
	}
}

// Integrated graphics are told by where they are, and allowed ones are offered.
func TestIntegratedGraphics(t *testing.T) {
	apu := host(t,
		"00:08.0 class=060000 id=1022:1632 group=5",
		"00:08.1 class=060400 id=1022:1635 driver=pcieport group=5",
		"04:00.0 under=00:08.1 class=030000 id=1002:1638 driver=amdgpu group=5",
		"04:00.1 under=00:08.1 class=040300 id=1002:1637 driver=snd_hda_intel group=5",
		"04:00.2 under=00:08.1 class=108000 id=1022:15df driver=ccp group=5",
		"04:00.3 under=00:08.1 class=0c0330 id=1022:1639 driver=xhci_hcd group=5")
	if inv := scan(t, apu, pci.Options{}); len(inv.Cards) != 0 || !strings.Contains(table(inv), "0000:04:00.2 (encryption, 1022:15df)") {
		t.Errorf("a processor's graphics: %s", table(inv))
	}
	guest := host(t, "00:1e.0 class=030200 id=10de:20b0 driver=nvidia") // as a cloud's machine has it
	if inv := scan(t, guest, pci.Options{}); len(inv.Cards) != 1 {
		t.Errorf("a passed-through GPU on a machine's root bus: %s", table(inv))
	}
	intel := tree(t, "workstation")
	off := false // headless, or booted on the other card: it is the processor's all the same
	intel.Change(at(t, "00:02.0"), func(d *recorded.Device) { d.BootVGA = &off })
	if inv := scan(t, intel, pci.Options{}); len(inv.Excluded) != 1 {
		t.Errorf("the processor's graphics without a monitor: %s", table(inv))
	}
	intel = tree(t, "workstation")
	inv := scan(t, intel, pci.Options{Allow: []pci.ID{{Vendor: 0x8086, Device: 0x3e9b}}})
	if c := card(t, inv, "00:02.0"); !c.Whole.OK || len(c.Notes) != 1 {
		t.Errorf("an allowed integrated GPU: %s", table(inv))
	}
}

// A host bridge that a driver of the host's holds makes its group unfit; VFIO
// would say "group is not viable" only at the start of the guest.
func TestHostBridgeWithDriver(t *testing.T) {
	lines := func(driver string) []string {
		return []string{
			"00:03.0 class=060000 id=1022:1482 group=2" + driver,
			"00:03.1 class=060400 id=1022:1483 driver=pcieport group=2",
			"09:00.0 under=00:03.1 class=030000 id=10de:1e84 driver=nvidia group=2",
		}
	}
	if c := card(t, scan(t, host(t, lines("")...), pci.Options{}), "09:00.0"); !c.Whole.OK {
		t.Errorf("beside a bridge without a driver: %s", c.Whole.Reason)
	}
	c := card(t, scan(t, host(t, lines(" driver=ie31200_edac")...), pci.Options{}), "09:00.0")
	if c.Whole.OK || !strings.Contains(c.Whole.Reason, "0000:00:03.0") || !strings.Contains(c.Whole.Reason, "ie31200_edac") {
		t.Errorf("beside a bridge with a driver: %+v", c.Whole)
	}
}

// With a separate group for each function, companions still go along.
func TestCompanionsOfSeparateGroups(t *testing.T) {
	inv := scan(t, host(t,
		"00:01.1 class=060400 id=1022:14db driver=pcieport group=1",
		"05:00.0 under=00:01.1 class=030000 id=10de:1e84 driver=nvidia group=20",
		"05:00.1 under=00:01.1 class=040300 id=10de:10f8 driver=snd_hda_intel group=21",
		"05:00.2 under=00:01.1 class=0c0330 id=10de:1ad8 driver=xhci_hcd group=22",
		"05:00.3 under=00:01.1 class=0c8000 id=10de:1ad9 driver=nvidia-gpu group=23"), pci.Options{})
	if c := card(t, inv, "05:00.0"); !c.Whole.OK || len(c.Functions()) != 4 {
		t.Errorf("%s", table(inv))
	}
}

// VFIO's groups without an IOMMU isolate nothing, so they are none.
func TestNoIOMMUGroupsAreNone(t *testing.T) {
	inv := scan(t, host(t, "kernel noiommu", "01:00.0 class=030200 id=10de:26b9 driver=nvidia group=0 reset=flr"), pci.Options{})
	if c := card(t, inv, "01:00.0"); inv.IOMMU || c.Whole.OK || c.Function.Group != -1 {
		t.Errorf("%s", table(inv))
	}
}

// Where ports don't isolate, a virtual function is in one group with its card,
// which the host's driver keeps.
func TestVirtualFunctionsWithoutIsolation(t *testing.T) {
	m := tree(t, "a100-vgpu")
	m.Change(at(t, "17:00.6"), func(d *recorded.Device) { d.Group = 21 })
	for _, p := range card(t, scan(t, m, pci.Options{}), "17:00.0").Parents {
		if bad := p.Name == "0000:17:00.6"; p.Whole.OK == bad || bad && !strings.Contains(p.Whole.Reason, "0000:17:00.0") {
			t.Errorf("%s: %+v", p.Name, p.Whole)
		}
	}
}

// What is written is what a scan shows next.
func TestScanAfterWrites(t *testing.T) {
	m, a := tree(t, "l40s"), at(t, "01:00.0")
	if f := card(t, scan(t, m, pci.Options{}), "01:00.0").Function; f.Override != "" || f.Driver != "nvidia" {
		t.Errorf("at the start: driver %q, override %q", f.Driver, f.Override)
	}
	for _, w := range [][2]string{
		{pci.DeviceFile(a, "driver_override"), "vfio-pci"}, {pci.DriverFile("nvidia", "unbind"), a.String()},
		{pci.DriversProbe, a.String()}, {pci.DeviceFile(a, "reset_method"), ""},
	} {
		if err := m.WriteFile(w[0], []byte(w[1])); err != nil {
			t.Fatal(err)
		}
	}
	c := card(t, scan(t, m, pci.Options{}), "01:00.0")
	if f := c.Function; f.Override != "vfio-pci" || f.Driver != "vfio-pci" || f.CanReset || c.Reset.OK {
		t.Errorf("driver %q, override %q, reset %v %v", f.Driver, f.Override, f.Reset, c.Reset)
	}
	if !pci.HasDriver(m, "vfio-pci") || pci.HasDriver(m, "amdgpu") {
		t.Error("which drivers there are")
	}
}
