package libvirt

import (
	"encoding/xml"
	"fmt"
	"path/filepath"

	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// metadata is all that recovery needs, kept by libvirt with the domain.
type metadata struct {
	XMLName    xml.Name          `xml:"https://tenon.cloud/libvirt/1 instance"`
	Cloud      string            `xml:"cloud,attr"`
	ID         string            `xml:"id,attr"`
	Org        string            `xml:"org,attr"`
	Epoch      int64             `xml:"epoch,attr"`
	Generation int64             `xml:"generation,attr"`
	Image      string            `xml:"image,attr"`
	Address    string            `xml:"address,attr"`
	Devices    []nodewire.Device `xml:"device"`
}

// domainUUID is another one for each epoch, so that no epoch is taken for another.
func domainUUID(cloudID, id string, epoch int64) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "https://tenon.cloud/libvirt/%s/%s/%d", cloudID, id, epoch))
}

// Emulated GPUs are devices of QEMU's own on the root bus, from this slot on;
// libvirt fills the slots below.
const firstGPUSlot, lastGPUSlot = 0x10, 0x1e

// gpuDevice is a PCI device that does nothing for the guest but be there.
const gpuDevice = "edu"

// cards is how many GPUs a machine gets.
func cards(devices []nodewire.Device) int {
	seen := map[string]bool{}
	for _, dev := range devices {
		seen[dev.GPUUUID] = true
	}
	return len(seen)
}

// emulated is how many of them are simulated cards, which QEMU emulates.
func emulated(grants []device.Grant) (n int) {
	for _, g := range grants {
		if g.Emulated {
			n++
		}
	}
	return n
}

// domain describes the machine: what is not in it, QEMU does not get.
func (d *Driver) domain(spec hypervisor.Spec, at network.Attachment, v virt) (string, error) {
	meta, err := xml.Marshal(metadata{
		Cloud: d.cfg.CloudID, ID: spec.ID, Org: spec.OrgID, Epoch: spec.Epoch, Generation: spec.Generation,
		Image: spec.Image.Digest, Address: at.Address, Devices: spec.Devices,
	})
	if err != nil {
		return "", fmt.Errorf("write metadata: %w", err)
	}
	no, boot := "no", uint(1)
	dom := libvirtxml.Domain{
		Type: map[string]string{virtKVM: "kvm", virtTCG: "qemu"}[v.mode],
		Name: DomainName(d.cfg.CloudID, spec.ID), UUID: domainUUID(d.cfg.CloudID, spec.ID, spec.Epoch).String(),
		Metadata: &libvirtxml.DomainMetadata{XML: string(meta)},
		Memory:   &libvirtxml.DomainMemory{Value: uint(spec.MemoryMiB), Unit: "MiB"},
		VCPU:     &libvirtxml.DomainVCPU{Value: uint(spec.VCPU), Placement: "static"},
		CPUTune: &libvirtxml.DomainCPUTune{
			Shares: &libvirtxml.DomainCPUTuneShares{Value: uint(1024 * spec.VCPU)},
			// Half a CPU beyond its own, for QEMU's work on its behalf.
			GlobalPeriod: &libvirtxml.DomainCPUTunePeriod{Value: 100_000},
			GlobalQuota:  &libvirtxml.DomainCPUTuneQuota{Value: int64(100_000*spec.VCPU + 50_000)},
		},
		OS:         &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "q35", Type: "hvm"}},
		CPU:        &libvirtxml.DomainCPU{Mode: map[string]string{virtKVM: "host-passthrough", virtTCG: "maximum"}[v.mode], Check: "none"},
		Features:   &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		Clock:      &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy", OnReboot: "restart", OnCrash: "destroy",
		PM: &libvirtxml.DomainPM{SuspendToMem: &libvirtxml.DomainPMPolicy{Enabled: no}, SuspendToDisk: &libvirtxml.DomainPMPolicy{Enabled: no}},
		Devices: &libvirtxml.DomainDeviceList{
			Disks: []libvirtxml.DomainDisk{
				{
					Device: "disk",
					Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2", Cache: "writeback", Discard: "unmap", ErrorPolicy: "report"},
					Source: fileSource(d.diskPath(spec.ID)),
					// Named in full, so that nothing follows what a header says.
					BackingStore: &libvirtxml.DomainDiskBackingStore{
						Format: &libvirtxml.DomainDiskFormat{Type: "qcow2"}, Source: fileSource(d.basePath(spec.ID)),
						BackingStore: &libvirtxml.DomainDiskBackingStore{},
					},
					Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"}, Boot: &libvirtxml.DomainDeviceBoot{Order: boot},
				},
				{
					Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"}, Source: fileSource(d.seedPath(spec.ID)),
					Target: &libvirtxml.DomainDiskTarget{Dev: "vdb", Bus: "virtio"}, ReadOnly: &libvirtxml.DomainDiskReadOnly{},
				},
			},
			Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
			Interfaces: []libvirtxml.DomainInterface{{
				Source: &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}},
				Target: &libvirtxml.DomainInterfaceTarget{Dev: at.Port, Managed: no}, MAC: &libvirtxml.DomainInterfaceMAC{Address: at.MAC},
				Model: &libvirtxml.DomainInterfaceModel{Type: "virtio"}, ROM: &libvirtxml.DomainROM{Enabled: no},
				MTU: &libvirtxml.DomainInterfaceMTU{Size: uint(d.net.MTU())},
			}},
			Serials: []libvirtxml.DomainSerial{{
				Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: d.serialPath(spec.ID)}},
				Log:    &libvirtxml.DomainChardevLog{File: d.serialLog(spec.ID), Append: "on"},
				Target: &libvirtxml.DomainSerialTarget{Type: "isa-serial"},
			}},
			Graphics: []libvirtxml.DomainGraphic{{VNC: &libvirtxml.DomainGraphicVNC{
				SharePolicy: "ignore",
				Listeners:   []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{Socket: d.screenPath(spec.ID)}}},
			}}},
			Videos:     []libvirtxml.DomainVideo{{Model: libvirtxml.DomainVideoModel{Type: "vga"}}},
			MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio", Stats: &libvirtxml.DomainMemBalloonStats{Period: 10}},
			RNGs: []libvirtxml.DomainRNG{{
				Model: "virtio", Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
			}},
		},
	}
	if v.mode == virtTCG {
		// Else translated code may take a quarter of the machine's memory again.
		dom.Features.TCG = &libvirtxml.DomainFeatureTCG{TBCache: &libvirtxml.DomainFeatureTCGTBCache{Unit: "MiB", Size: 256}}
	}
	if n := emulated(spec.Grants); n > 0 {
		args := &libvirtxml.DomainQEMUCommandline{}
		for i := range n {
			args.Args = append(args.Args, libvirtxml.DomainQEMUCommandlineArg{Value: "-device"},
				libvirtxml.DomainQEMUCommandlineArg{Value: fmt.Sprintf("%s,id=gpu%d,bus=pcie.0,addr=0x%x", gpuDevice, i, firstGPUSlot+i)})
		}
		dom.QEMUCommandline = args
	}
	if err := d.shape(&dom, spec, v); err != nil {
		return "", err
	}
	text, err := dom.Marshal()
	if err != nil {
		return "", fmt.Errorf("write domain: %w", err)
	}
	return text, nil
}

func fileSource(path string) *libvirtxml.DomainDiskSource {
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}}
}

// readMetadata finds ours in a domain's description.
func readMetadata(text string) (metadata, bool) {
	var dom libvirtxml.Domain
	var m metadata
	if dom.Unmarshal(text) != nil || dom.Metadata == nil {
		return m, false
	}
	return m, xml.Unmarshal([]byte(dom.Metadata.XML), &m) == nil && m.ID != ""
}

func (d *Driver) diskPath(id string) string   { return filepath.Join(d.machineDir(id), "disk") }
func (d *Driver) basePath(id string) string   { return filepath.Join(d.machineDir(id), "base") }
func (d *Driver) serialPath(id string) string { return filepath.Join(d.machineDir(id), "tty") }
func (d *Driver) screenPath(id string) string { return filepath.Join(d.machineDir(id), "vnc") }
func (d *Driver) serialLog(id string) string  { return filepath.Join(d.logDir(id), "serial.log") }
