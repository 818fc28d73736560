package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

func good() Facts {
	return Facts{
		HostBoard: true, Door: "https://cloud.example:7481", Root: true, Kernel: "6.1.0-44-amd64", Cgroups: 2, UserSpaces: 4096,
		FileSystems: map[string]bool{"overlay": true, "btrfs": true}, LoopDevice: true, Tun: true,
		Containerd: Program{"/usr/bin/containerd", "1.6.20"}, Runc: Program{"/usr/sbin/runc", "1.1.5"},
		Libvirt: Program{"/usr/sbin/libvirtd", "10.0.0"}, QEMU: Program{"/usr/bin/qemu-system-x86_64", "7.2.22"}, QEMUUser: true,
		Virt: "kvm", VirtWhy: "a probe guest ran", StateFS: "ext4", StateFree: 200 * gib,
		ClockSaid: true, ClockError: 3 * time.Millisecond,
		IOMMUGroups: 40, Remapping: true, VFIO: VFIO{Loaded: true},
		Cards: []Card{{Address: "0000:41:00.0", Name: "NVIDIA 10de:2330", Driver: "nvidia", NVIDIA: true}}, NVIDIACards: 1,
	}
}

// TestEachFaultHasItsLine: every line can go wrong, says how bad that is and what
// to do, and nothing else changes.
func TestEachFaultHasItsLine(t *testing.T) {
	t.Parallel()
	before := Judge(good())
	for _, l := range before {
		if l.Level != OK || l.Do != "" || l.Text == "" || l.Name == "" {
			t.Errorf("a good machine: %+v", l)
		}
	}
	if Failed(before) {
		t.Error("a good machine fails")
	}
	for name, c := range map[string]struct {
		change func(*Facts)
		line   string // level and name
		words  string
	}{
		"no root":             {func(f *Facts) { f.Root = false }, "fail rights", "as root"},
		"an old kernel":       {func(f *Facts) { f.Kernel = "5.10.0-30-amd64" }, "fail kernel", "5.19"},
		"no kernel version":   {func(f *Facts) { f.Kernel = "" }, "fail kernel", "5.19"},
		"no cgroups":          {func(f *Facts) { f.Cgroups = 0 }, "fail cgroups", "mount"},
		"no memory cgroup":    {func(f *Facts) { f.Cgroups, f.NoCgroup = 1, []string{"memory"} }, "fail cgroups", "cgroup_enable=memory"},
		"a shut kvm":          {func(f *Facts) { f.Virt, f.VirtWhy = "tcg", "a probe guest failed: Permission denied" }, "warn kvm", "usermod"},
		"no user namespaces":  {func(f *Facts) { f.UserSpaces = 0 }, "fail user namespaces", "max_user_namespaces"},
		"no btrfs":            {func(f *Facts) { f.FileSystems = map[string]bool{"overlay": true} }, "fail file systems", "modprobe btrfs"},
		"no loop":             {func(f *Facts) { f.LoopDevice = false }, "fail loop devices", "modprobe loop"},
		"a free clock":        {func(f *Facts) { f.ClockOff = true }, "warn clock", "chrony"},
		"no containerd":       {func(f *Facts) { f.Containerd = Program{} }, "fail containerd", "apt install containerd"},
		"a broken runc":       {func(f *Facts) { f.Runc.Version = "" }, "warn runc", "--version"},
		"no libvirt":          {func(f *Facts) { f.Libvirt = Program{} }, "warn libvirt", "no virtual machines"},
		"an old libvirt":      {func(f *Facts) { f.Libvirt.Version = "8.0.0" }, "warn libvirt for VMs", "9.0"},
		"no qemu user":        {func(f *Facts) { f.QEMUUser = false }, "warn qemu's user", "libvirt-daemon-system"},
		"no tun":              {func(f *Facts) { f.Tun = false }, "warn tun devices", "modprobe tun"},
		"no kvm":              {func(f *Facts) { f.Virt, f.VirtWhy = "tcg", "emulated: this host has no /dev/kvm" }, "warn kvm", "slower"},
		"no huge pages":       {func(f *Facts) { f.HugePages = true }, "fail huge pages", "hugepages=N"},
		"idle huge pages":     {func(f *Facts) { f.Pages = []Pages{{1024, 64, 64}} }, "warn huge pages", "-vm-hugepages"},
		"little to lock":      {func(f *Facts) { f.MemoryLock = "64 KiB" }, "warn memory lock", "LimitMEMLOCK"},
		"tmpfs":               {func(f *Facts) { f.StateFS = "tmpfs" }, "fail state folder", "ext4"},
		"a full disk":         {func(f *Facts) { f.StateFree = 3 * gib }, "warn disk room", "20 GiB"},
		"no nf_tables":        {func(f *Facts) { f.NFTables = errors.New("not supported") }, "fail packet rules", "nf_tables"},
		"no door":             {func(f *Facts) { f.DoorErr = errors.New("refused") }, "fail control plane", "refused"},
		"no door set":         {func(f *Facts) { f.Door = "" }, "warn control plane", "-door"},
		"no iommu":            {func(f *Facts) { f.IOMMUGroups = 0 }, "warn iommu", "intel_iommu=on"},
		"no remapping":        {func(f *Facts) { f.Remapping = false }, "warn interrupt remapping", "firmware"},
		"vfio not loaded":     {func(f *Facts) { f.VFIO = VFIO{Available: true} }, "warn vfio-pci", "modules-load.d"},
		"no vfio":             {func(f *Facts) { f.VFIO = VFIO{} }, "warn vfio-pci", "linux-modules-extra"},
		"a shared group":      {func(f *Facts) { f.Cards[0].Whole = "its group has a NIC" }, "warn card 0000:41:00.0", "its group has a NIC"},
		"no reset":            {func(f *Facts) { f.Cards[0].Reset = "the kernel knows no way" }, "warn card 0000:41:00.0", "quarantined"},
		"a card in use":       {func(f *Facts) { f.Cards[0].Told = &Told{MIG: "off", Users: []string{"python (pid 7)"}} }, "warn card 0000:41:00.0", "python (pid 7)"},
		"a row to replace":    {func(f *Facts) { f.Cards[0].Told = &Told{RowPending: true} }, "warn card 0000:41:00.0", "gpu-reset"},
		"a row beyond repair": {func(f *Facts) { f.Cards[0].Told = &Told{RowPending: true, RowFailure: true} }, "warn card 0000:41:00.0", "replaced"},
		"SR-IOV vGPUs":        {func(f *Facts) { f.Cards[0].VGPU, f.Libvirt.Version = "vendor", "9.0.0" }, "warn card 0000:41:00.0", "10.0"},
		"no nvidia driver":    {func(f *Facts) { f.NVIDIA = errors.New("no library") }, "warn nvidia driver", "containers none"},
		"cards at vfio":       {func(f *Facts) { f.NVIDIACards = 0 }, "warn nvidia driver", "lspci -k"},
		"no fabric manager":   {func(f *Facts) { f.Switches, f.Fabric = 4, errors.New("no fmpm") }, "warn fabric manager", "FABRIC_MODE=1"},
		"an unread function":  {func(f *Facts) { f.Unknown = []Device{{"0000:42:00.0", "", "class: permission denied"}} }, "warn card 0000:42:00.0", "permission denied"},
		"an unreadable /sys":  {func(f *Facts) { f.ScanErr = errors.New("no such file") }, "fail PCI", "/sys"},
		"nothing to offer":    {func(f *Facts) { f.Cards = nil }, "warn cards", "-gpu-allow"},
	} {
		f := good()
		c.change(&f)
		lines := Judge(f)
		i := slices.IndexFunc(lines, func(l Line) bool { return string(l.Level)+" "+l.Name == c.line })
		if i < 0 {
			t.Errorf("%s: no line %q in %+v", name, c.line, lines)
			continue
		}
		if l := lines[i]; l.Do == "" || !strings.Contains(l.Text+" "+l.Do, c.words) {
			t.Errorf("%s: %q is not in %+v", name, c.words, l)
		}
		if Failed(lines) != strings.HasPrefix(c.line, "fail") {
			t.Errorf("%s: failed is %v", name, Failed(lines))
		}
		for _, l := range lines {
			if l != lines[i] && l.Level != OK {
				t.Errorf("%s: also %+v", name, l)
			}
		}
	}
}

// TestACardThatNobodyGetsFails: without an IOMMU and without a driver.
func TestACardThatNobodyGetsFails(t *testing.T) {
	t.Parallel()
	f := good()
	f.IOMMUGroups, f.NVIDIA, f.NVIDIACards = 0, errors.New("no library"), 0
	if !Failed(Judge(f)) {
		t.Error("it passes")
	}
	f.HostBoard = false // its cards are not offered at all
	if lines := Judge(f); Failed(lines) || strings.Contains(fmt.Sprint(lines), "iommu") {
		t.Errorf("%+v", lines)
	}
}

// TestAHostWithoutCardsTellsOfItsIOMMU: whoever buys cards for it wants to know.
func TestAHostWithoutCardsTellsOfItsIOMMU(t *testing.T) {
	t.Parallel()
	f := good()
	f.Cards, f.NVIDIACards = nil, 0
	if text := fmt.Sprint(Judge(f)); !strings.Contains(text, "iommu ok on, 40 groups") {
		t.Error(text)
	}
	f.IOMMUGroups = 0
	if lines := Judge(f); Failed(lines) || !strings.Contains(fmt.Sprint(lines), "iommu warn off") {
		t.Errorf("off, and nobody misses it yet: %+v", lines)
	}
}

// TestWhatOnlyRootCanSeeIsNotCalledMissing: the line says so, whatever was read, and
// no other cause or cure.
func TestWhatOnlyRootCanSeeIsNotCalledMissing(t *testing.T) {
	t.Parallel()
	f := good()
	f.Root, f.Virt, f.VirtWhy, f.NFTables, f.MemoryLock = false, "tcg", "not tried", errors.New("operation not permitted"), "64 KiB"
	f.StateFS, f.Remapping = "tmpfs", false
	f.Denied = map[string]bool{"kvm": true, "packet rules": true, "memory lock": true, "state folder": true, "interrupt remapping": true, "iommu": false}
	f.Unknown = []Device{{"0000:42:00.0", "", "class: permission denied"}}
	lines := Judge(f)
	for _, l := range lines {
		want := Line{l.Name, Warn, "not known: only root can look", "run `tenon-agent check` as root"}
		switch {
		case f.Denied[l.Name] && l != want:
			t.Errorf("%+v", l)
		case l.Name == "card 0000:42:00.0" && !strings.Contains(l.Do, "as root"):
			t.Errorf("%+v", l)
		case l.Name == "rights" && l.Level != Fail, !f.Denied[l.Name] && l.Level != OK && l.Name != "rights" && l.Name != "card 0000:42:00.0":
			t.Errorf("%+v", l)
		}
	}
	f = good()
	f.Root, f.ScanErr = false, fmt.Errorf("open /sys: %w", fs.ErrPermission)
	if text := fmt.Sprint(Judge(f)); strings.Contains(text, "mount /sys") || !strings.Contains(text, "check` as root") {
		t.Error(text)
	}
}

// TestWhatIsLeftOutIsNamed with its reason, and is no fault.
func TestWhatIsLeftOutIsNamed(t *testing.T) {
	t.Parallel()
	f := good()
	f.Excluded = []Device{{"0000:03:00.0", "GPU 1a03:2000", "on-board graphics"}}
	f.Cards[0].Bundle, f.Cards[0].Companions = []string{"0000:42:00.0"}, []string{"0000:41:00.1 (audio)"}
	lines := Judge(f)
	text := fmt.Sprint(lines)
	if Failed(lines) || !strings.Contains(text, "not offered 0000:03:00.0 ok GPU 1a03:2000: on-board graphics") ||
		!strings.Contains(text, "only together with 0000:42:00.0") || !strings.Contains(text, "with 0000:41:00.1 (audio)") {
		t.Error(text)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for have, want := range map[string]bool{
		"6.1.0-44-amd64": true, "5.19": true, "5.19.0": true, "5.20-rc1": true, "10.0": true, "v6.2": true,
		"5.18.19": false, "5": false, "": false, "abc": false, "4.19.0": false,
	} {
		if atLeast(have, "5.19") != want {
			t.Errorf("%q at least 5.19 is %v", have, !want)
		}
	}
}
