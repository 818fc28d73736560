package main

// The devices of the host that stand for GPUs. QEMU's edu has registers by which a
// guest can tell that it works; the kernel resets one that is alone below its port
// by its bus.
const (
	eduModel     = "qemu-edu"
	testdevModel = "pci-1b36-0005"
	allow        = "1234:11e8,1b36:0005,mdev:mtty"
	hdaDriver    = "snd_hda_intel"
)

// Ports and what is below each; a test leaves some out.
const (
	portFirst  = "first"  // an edu alone, on NUMA node 0
	portSecond = "second" // the same, on node 1
	portNoWay  = "noway"  // a card on the root bus with a companion that has a driver: no way to reset it
	portShared = "shared" // an edu that shares its group with a network card
)

// topology gives QEMU's arguments. Each port is on a bus of its own, so that the
// addresses are the same whatever is left out.
func topology(without []string) []string {
	args := []string{
		"-device", "pxb-pcie,id=numa0,bus_nr=0x40,numa_node=0,bus=pcie.0,addr=0x10",
		"-device", "pxb-pcie,id=numa1,bus_nr=0x80,numa_node=1,bus=pcie.0,addr=0x11",
		"-device", "pcie-root-port,id=first,bus=numa0,chassis=1,slot=1,addr=0x0",
		"-device", "pcie-root-port,id=second,bus=numa1,chassis=2,slot=1,addr=0x0",
		"-device", "pcie-root-port,id=shared,bus=pcie.0,chassis=4,slot=1,addr=0x13",
	}
	for _, d := range []struct {
		port    string
		devices []string
	}{
		{portFirst, []string{"edu,bus=first,addr=0x0"}},
		{portSecond, []string{"edu,bus=second,addr=0x0"}},
		{portNoWay, []string{"pci-testdev,bus=pcie.0,addr=0x12,multifunction=on", "intel-hda,id=hda,bus=pcie.0,addr=0x12.0x1"}},
		{portShared, []string{"edu,bus=shared,addr=0x0,multifunction=on", "e1000,bus=shared,addr=0x0.0x1,romfile="}},
	} {
		if left(without, d.port) {
			continue
		}
		for _, device := range d.devices {
			args = append(args, "-device", device)
		}
	}
	if !left(without, portNoWay) {
		args = append(args, "-audiodev", "none,id=quiet", "-device", "hda-duplex,bus=hda.0,audiodev=quiet")
	}
	return args
}
