// Package preflight judges whether a machine can be a node, line by line, and says
// how to mend what it can't. Whoever calls it reads the machine; Judge is pure.
package preflight

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Level is how bad a line is.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // the node works, without something
	Fail Level = "fail" // the node does not work, or not as it is set up
)

// Line is one thing that was looked at.
type Line struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Text  string `json:"text"`         // what is so
	Do    string `json:"do,omitempty"` // how to mend it
}

// Failed reports that a line says so.
func Failed(lines []Line) bool {
	for _, l := range lines {
		if l.Level == Fail {
			return true
		}
	}
	return false
}

// Facts are what was read of a machine. The zero of a field is what a bare machine
// would show.
type Facts struct {
	// As it is set up.
	HostBoard bool // -board host: its own cards are offered
	HugePages bool // -vm-hugepages
	Door      string

	Root        bool
	Denied      map[string]bool // lines of which nothing could be read without being root
	Kernel      string          // as uname prints it
	Cgroups     int             // version; 0: none
	NoCgroup    []string        // controllers that are missing
	UserSpaces  int             // user namespaces that may be made
	FileSystems map[string]bool
	LoopDevice  bool
	NFTables    error
	Tun         bool

	Containerd, Runc, Libvirt, QEMU Program
	QEMUUser                        bool
	Virt, VirtWhy                   string // kvm or tcg, by a probe guest
	Pages                           []Pages
	MemoryLock                      string // empty: as much as is asked for

	StateFS   string // type of the file system of the state folder
	StateFree int64  // bytes

	DoorErr    error
	ClockSaid  bool          // the kernel was asked
	ClockOff   bool          // nothing keeps it right
	ClockError time.Duration // at most, as the kernel says

	IOMMUGroups int
	Remapping   bool // of interrupts
	VFIO        VFIO
	Cards       []Card
	Excluded    []Device
	Unknown     []Device
	Switches    int   // NVSwitches
	ScanErr     error // /sys could not be read
	Parents     []string
	NVIDIA      error // nil: its library answers
	NVIDIACards int   // that it lists
	Fabric      error // nil: Fabric Manager answers
}

// Program is one that has to be installed.
type Program struct {
	Path    string // empty: it is not there
	Version string // empty: it did not say
}

// VFIO is the kernel's driver for passing functions on.
type VFIO struct{ Loaded, Available bool }

// Pages is one size of huge pages.
type Pages struct {
	MiB         int64
	Total, Free int64
}

// Card is a GPU that is offered in some way.
type Card struct {
	Address, Name, Driver string
	NVIDIA                bool
	Whole                 string // why no VM gets it whole; empty: one can
	Reset                 string // why it can't be reset; empty: it can
	VGPU                  string // mediated, vendor, plain; empty: none
	Companions            []string
	Bundle                []string
	Notes                 []string
	Resets                []string // ways to reset it
	Told                  *Told    // what its vendor's driver says; nil: nothing
}

// Told is what a vendor's driver says of a card.
type Told struct {
	Name       string
	MIG        string // empty: it has none; else off, on, going on, going off
	Users      []string
	RowPending bool // a memory row is replaced with the next reset
	RowFailure bool // one could not be replaced
}

// Device is a function with the reason why it is not offered.
type Device struct{ Address, Name, Reason string }

// Judge says what can be said of a machine.
func Judge(f Facts) []Line {
	j := judge{denied: f.Denied}
	j.host(f)
	j.engines(f)
	j.room(f)
	j.network(f)
	if f.HostBoard {
		j.devices(f)
	}
	return j.lines
}

type judge struct {
	denied map[string]bool
	lines  []Line
}

const asRoot = "run `tenon-agent check` as root"

func (j *judge) say(name string, level Level, do, text string, args ...any) {
	if j.denied[name] { // what nobody could look at is neither there nor missing
		level, do, text, args = Warn, asRoot, "not known: only root can look", nil
	}
	if len(args) > 0 {
		text = fmt.Sprintf(text, args...)
	}
	if level == OK {
		do = ""
	}
	j.lines = append(j.lines, Line{name, level, text, do})
}

// must says ok or the level that it is worth.
func (j *judge) must(name string, ok bool, level Level, good, bad, do string) {
	if ok {
		j.say(name, OK, "", "%s", good)
		return
	}
	j.say(name, level, do, "%s", bad)
}

const gib = int64(1) << 30

const (
	leastKernel  = "5.19"
	leastVirt    = "9.0"
	vgpuVirt     = "10.0"
	leastRoomGiB = 20
)

func (j *judge) host(f Facts) {
	j.must("rights", f.Root, Fail, "run as root", "not run as root", "run it as root: the agent makes namespaces, mounts and devices")
	j.must("kernel", atLeast(f.Kernel, leastKernel), Fail, "Linux "+f.Kernel, "Linux "+f.Kernel+" has no id-mapped mounts for overlays",
		"boot Linux "+leastKernel+" or newer")
	switch {
	case f.Cgroups == 0:
		j.say("cgroups", Fail, "mount them: a host with systemd has them by itself", "not mounted")
	case len(f.NoCgroup) > 0:
		j.say("cgroups", Fail, "take cgroup_disable=... from the kernel's command line, and add cgroup_enable=memory where it asks for that",
			"version %d, without %s", f.Cgroups, strings.Join(f.NoCgroup, ", "))
	default:
		j.say("cgroups", OK, "", "version %d", f.Cgroups)
	}
	j.must("user namespaces", f.UserSpaces > 0, Fail, fmt.Sprintf("up to %d", f.UserSpaces), "none may be made",
		"sysctl user.max_user_namespaces=65536 (and in /etc/sysctl.d)")
	var missing []string
	for _, name := range []string{"overlay", "btrfs"} {
		if !f.FileSystems[name] {
			missing = append(missing, name)
		}
	}
	j.must("file systems", len(missing) == 0, Fail, "overlay and btrfs", "the kernel has no "+strings.Join(missing, " and no "),
		"modprobe "+strings.Join(missing, " ")+" (and name them in /etc/modules-load.d)")
	j.must("loop devices", f.LoopDevice, Fail, "/dev/loop-control is there", "there is no /dev/loop-control", "modprobe loop")
	switch {
	case !f.ClockSaid:
	case f.ClockOff:
		j.say("clock", Warn, "install and start chrony or systemd-timesyncd: certificates are judged by the clock", "nothing keeps it right")
	default:
		j.say("clock", OK, "", "kept right, within %s", f.ClockError.Round(time.Millisecond))
	}
}

func (j *judge) engines(f Facts) {
	program := func(name string, p Program, level Level, do string) bool {
		switch {
		case p.Path == "":
			j.say(name, level, do, "not installed")
		case p.Version == "":
			j.say(name, Warn, "run "+p.Path+" --version and see what is wrong with it", "%s does not say its version", p.Path)
		default:
			j.say(name, OK, "", "%s", p.Version)
		}
		return p.Path != ""
	}
	program("containerd", f.Containerd, Fail, "apt install containerd: containers and notebooks need it")
	program("runc", f.Runc, Fail, "apt install runc: containers and notebooks need it")
	const vms = "apt install libvirt-daemon-system qemu-system-x86; without it the node runs no virtual machines"
	virt := program("libvirt", f.Libvirt, Warn, vms)
	qemu := program("qemu", f.QEMU, Warn, vms)
	if !virt || !qemu {
		return
	}
	if f.Libvirt.Version != "" && !atLeast(f.Libvirt.Version, leastVirt) {
		j.say("libvirt for VMs", Warn, "upgrade libvirt to "+leastVirt+" or newer", "%s is older than what this agent was tried with (%s)", f.Libvirt.Version, leastVirt)
	}
	j.must("qemu's user", f.QEMUUser, Warn, "libvirt-qemu", "there is no user libvirt-qemu: no virtual machine can run", "apt install libvirt-daemon-system")
	j.must("tun devices", f.Tun, Warn, "/dev/net/tun is there", "there is no /dev/net/tun: virtual machines have no network", "modprobe tun")
	do := "switch virtualisation on in the firmware (VT-x, AMD-V), modprobe kvm_intel or kvm_amd, and run `tenon-agent check` again"
	if strings.Contains(f.VirtWhy, "Permission denied") { // QEMU's own words, as QEMU's user
		do = "let QEMU's user open /dev/kvm: chgrp kvm /dev/kvm; chmod 660 /dev/kvm; usermod -aG kvm libvirt-qemu"
	}
	j.must("kvm", f.Virt == "kvm", Warn, f.VirtWhy, f.VirtWhy+"; virtual machines are many times slower", do)
	j.pages(f)
	j.must("memory lock", f.MemoryLock == "", Warn, "as much as is asked for", "limited to "+f.MemoryLock+": a virtual machine with a GPU needs all of its memory locked",
		"set LimitMEMLOCK=infinity, or CAP_SYS_RESOURCE, for tenon-libvirtd")
}

func (j *judge) pages(f Facts) {
	var have []string
	for _, p := range f.Pages {
		if p.Total > 0 {
			have = append(have, fmt.Sprintf("%d of %d MiB, %d free", p.Total, p.MiB, p.Free))
		}
	}
	text := strings.Join(have, "; ")
	switch {
	case f.HugePages && text == "":
		j.say("huge pages", Fail, "set some aside (hugepagesz=1G hugepages=N on the kernel's command line), or run without -vm-hugepages",
			"the agent is to use them, and none are set aside")
	case f.HugePages:
		j.say("huge pages", OK, "", "%s", text)
	case text != "":
		j.say("huge pages", Warn, "run the agent with -vm-hugepages, or give them back", "set aside and not used (%s): nobody else can use that memory", text)
	default:
		j.say("huge pages", OK, "", "none, and none are asked for")
	}
}

func (j *judge) room(f Facts) {
	j.must("state folder", f.StateFS == "ext4" || f.StateFS == "xfs" || f.StateFS == "btrfs", Fail, "on "+f.StateFS,
		"on "+or(f.StateFS, "an unknown file system")+", which takes no id-mapped views", "put it on ext4, XFS or btrfs (-state-dir)")
	j.must("disk room", f.StateFree >= leastRoomGiB*gib, Warn, fmt.Sprintf("%d GiB free", f.StateFree/gib),
		fmt.Sprintf("%d GiB free for images, disks and homes", f.StateFree/gib), fmt.Sprintf("make room: at least %d GiB", leastRoomGiB))
}

func (j *judge) network(f Facts) {
	if f.NFTables != nil {
		j.say("packet rules", Fail, "modprobe nf_tables", "the kernel's rules can't be read: %v", f.NFTables)
	} else {
		j.say("packet rules", OK, "", "nf_tables")
	}
	switch {
	case f.Door == "":
		j.say("control plane", Warn, "name the node door: -door https://HOST:PORT", "not set, so not tried")
	case f.DoorErr != nil:
		j.say("control plane", Fail, "open the way from here to that port; the node dials, nothing dials the node", "%s: %v", f.Door, f.DoorErr)
	default:
		j.say("control plane", OK, "", "%s answers", f.Door)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// atLeast compares versions by their numbers; what can't be read is old.
func atLeast(have, want string) bool {
	a, b := numbers(have), numbers(want)
	for i := range b {
		switch {
		case i >= len(a) || a[i] < b[i]:
			return false
		case a[i] > b[i]:
			return true
		}
	}
	return true
}

// numbers are those with which a version begins.
func numbers(version string) (out []int) {
	at := strings.IndexAny(version, "0123456789")
	if at < 0 {
		return nil
	}
	for part := range strings.SplitSeq(version[at:], ".") {
		end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		digits := part
		if end >= 0 {
			digits = part[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return out
		}
		if out = append(out, n); end >= 0 {
			return out
		}
	}
	return out
}
