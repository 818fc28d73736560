package recorded_test

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
)

func tree(t interface {
	Helper()
	Fatal(...any)
}, name string) *recorded.Model {
	t.Helper()
	m, err := recorded.Tree(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func at(s string) pci.Address {
	a, err := pci.ParseAddress(s)
	if err != nil {
		panic(err)
	}
	return a
}

func read(m *recorded.Model, name string) string {
	data, err := fs.ReadFile(m, name)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data))
}

func driver(m *recorded.Model, a string) string {
	link, err := m.ReadLink("bus/pci/devices/" + a + "/driver")
	if err != nil {
		return ""
	}
	return path.Base(link)
}

const (
	gpu   = "0000:01:00.0"
	audio = "0000:01:00.1"
	dev   = "bus/pci/devices/" + gpu + "/"
	drv   = "bus/pci/drivers/"
)

type step struct {
	file, data string
	want       error
}

func steps(t *testing.T, m *recorded.Model, all []step) {
	t.Helper()
	for i, s := range all {
		if err := m.WriteFile(s.file, []byte(s.data)); !errors.Is(err, s.want) || (err == nil) != (s.want == nil) {
			t.Errorf("%d: %q to %s gives %v, the kernel %v", i, s.data, s.file, err, s.want)
		}
	}
}

// The view is a file system as others are.
func TestViewIsAFileSystem(t *testing.T) {
	if err := fstest.TestFS(onlyReadable{tree(t, "mi325x-noiommu")}, "bus/pci/devices", "bus/pci/drivers/vfio-pci"); err != nil {
		t.Error(err)
	}
}

// onlyReadable has files that can't be read be empty, since fstest takes a
// refusal for a fault.
type onlyReadable struct{ *recorded.Model }

func (m onlyReadable) Open(name string) (fs.File, error) {
	f, err := m.Model.Open(name)
	if errors.Is(err, syscall.EACCES) {
		return empty{m, name}, nil
	}
	return f, err
}

type empty struct {
	m    onlyReadable
	name string
}

func (e empty) Stat() (fs.FileInfo, error) { return e.m.Stat(e.name) }
func (e empty) Read([]byte) (int, error)   { return 0, io.EOF }
func (e empty) Close() error               { return nil }

func TestBinding(t *testing.T) {
	m := tree(t, "workstation")
	if got := read(m, dev+"driver_override"); got != "(null)" {
		t.Errorf("no override reads as %q", got)
	}
	steps(t, m, []step{
		{drv + "vfio-pci/bind", gpu, syscall.ENODEV}, // it matches nothing of itself
		{dev + "driver_override", "vfio-pci\n", nil},
		{drv + "vfio-pci/bind", gpu, syscall.EBUSY}, // nvidia has it
		{drv + "vfio-pci/unbind", gpu, syscall.ENODEV},
		{drv + "nvidia/unbind", "01:00.0", syscall.ENODEV}, // names are compared
		{drv + "nvidia/unbind", gpu + "\n", nil},
		{drv + "nvidia/bind", gpu, syscall.ENODEV}, // overridden
		{"bus/pci/drivers_probe", gpu, nil},
	})
	if got := driver(m, gpu); got != "vfio-pci" {
		t.Fatalf("after the probe %q has it", got)
	}
	steps(t, m, []step{
		{dev + "driver_override", "\n", nil},
		{"bus/pci/drivers_probe", gpu, nil}, // bound: nothing happens
		{drv + "vfio-pci/unbind", gpu, nil},
		{drv + "nouveau/bind", gpu, nil}, // its table has it too
		{drv + "nouveau/unbind", gpu, nil},
		{"bus/pci/drivers_probe", gpu, nil},
		{"bus/pci/drivers_probe", "0000:77:00.0", syscall.ENODEV},
		{dev + "vendor", "0x1", syscall.EACCES},
		{dev + "reset", "1", fs.ErrNotExist}, // no way to reset it
		{drv + "ast/bind", gpu, fs.ErrNotExist},
	})
	if got := driver(m, gpu); got != "nvidia" {
		t.Errorf("back again %q has it", got)
	}
	if _, err := fs.ReadFile(m, drv+"nvidia/bind"); !errors.Is(err, syscall.EACCES) {
		t.Errorf("bind can be read: %v", err)
	}
}

// A refusal is told by bind, and by drivers_probe not at all.
func TestRefusedProbe(t *testing.T) {
	m := tree(t, "workstation")
	m.Refuse("vfio-pci", at(gpu), syscall.EIO)
	steps(t, m, []step{
		{dev + "driver_override", "vfio-pci", nil},
		{drv + "nvidia/unbind", gpu, nil},
		{drv + "vfio-pci/bind", gpu, syscall.EIO},
		{"bus/pci/drivers_probe", gpu, nil},
	})
	if got := driver(m, gpu); got != "" {
		t.Errorf("%q has it", got)
	}
	none := tree(t, "mi325x-noiommu")
	steps(t, none, []step{
		{"bus/pci/devices/0000:05:00.0/driver_override", "vfio-pci", nil},
		{drv + "amdgpu/unbind", "0000:05:00.0", nil},
		{drv + "vfio-pci/bind", "0000:05:00.0", syscall.EINVAL}, // no IOMMU
	})
}

// new_id takes every free device of its kind: why an override is better.
func TestNewID(t *testing.T) {
	m := tree(t, "l40s")
	steps(t, m, []step{
		{drv + "nvidia/unbind", "0000:01:00.0", nil},
		{drv + "vfio-pci/new_id", "10de", syscall.EINVAL},
		{drv + "nvidia/new_id", "10de 26b9", syscall.EEXIST},
		{drv + "vfio-pci/new_id", "10de 26b9", nil},
		{drv + "vfio-pci/new_id", "10de 26b9", syscall.EEXIST},
		{drv + "vfio-pci/remove_id", "10de 26b9", nil},
		{drv + "vfio-pci/remove_id", "10de 26b9", syscall.ENODEV},
	})
	if a, b := driver(m, "0000:01:00.0"), driver(m, "0000:82:00.0"); a != "vfio-pci" || b != "nvidia" {
		t.Errorf("the free one has %q, the other %q", a, b)
	}
}

func TestReset(t *testing.T) {
	m := tree(t, "l40s")
	file := dev + "reset"
	steps(t, m, []step{
		{file, "2", syscall.EINVAL}, {file, "1\n", nil},
		{dev + "reset_method", "pm", syscall.EINVAL}, {dev + "reset_method", "bus", nil},
	})
	if got := read(m, dev+"reset_method"); got != "bus" {
		t.Errorf("methods %q", got)
	}
	steps(t, m, []step{{dev + "reset_method", "", nil}, {file, "1", syscall.ENOTTY}, {dev + "reset_method", "default", nil}, {file, "1", nil}})
	if d, _ := m.Device(at(gpu)); d.Resets != 2 {
		t.Errorf("it was reset %d times", d.Resets)
	}
	for after, want := range map[recorded.Aftermath]error{recorded.Lost: syscall.ENOTTY, recorded.Silent: nil} {
		m := tree(t, "l40s")
		m.Change(at(gpu), func(d *recorded.Device) { d.After = after })
		steps(t, m, []step{{file, "1", want}})
		id, err := pci.LiveID(m, at(gpu))
		if err != nil || id.Vendor != 0xffff || read(m, dev+"vendor") != "0x10de" {
			t.Errorf("%s: the device reads %s, its file %s", after, id, read(m, dev+"vendor"))
		}
	}
	whole := tree(t, "workstation")
	steps(t, whole, []step{{"bus/pci/devices/0000:00:01.0/reset_subordinate", "1", nil}})
	for _, f := range []string{gpu, audio, "0000:01:00.3"} {
		if d, _ := whole.Device(at(f)); d.Resets != 1 {
			t.Errorf("the bridge reset %s %d times", f, d.Resets)
		}
	}
}

func TestVirtualFunctions(t *testing.T) {
	m := tree(t, "a100-vgpu")
	num := func(a string) string { return "bus/pci/devices/" + a + "/sriov_numvfs" }
	const vf = "bus/pci/devices/0000:17:00.4/"
	steps(t, m, []step{
		{num("0000:17:00.0"), "21", syscall.ERANGE},
		{num("0000:17:00.0"), "x", syscall.EINVAL},
		{num("0000:17:00.0"), "20", nil},                         // as it is
		{num("0000:17:00.0"), "4", syscall.EBUSY},                // only by way of none
		{num("0000:17:00.0"), "0", syscall.EBUSY},                // two have a type
		{vf + "nvidia/current_vgpu_type", "0", nil},              // ends one
		{vf + "nvidia/current_vgpu_type", "0", nil},              // there is none
		{vf + "nvidia/current_vgpu_type", "692", syscall.EINVAL}, // all of one size
		{vf + "nvidia/current_vgpu_type", "696\n", nil},
		{vf + "nvidia/current_vgpu_type", "696", syscall.EBUSY},
		{"bus/pci/devices/0000:17:00.6/nvidia/current_vgpu_type", "696", nil},
		{"bus/pci/devices/0000:17:00.7/nvidia/current_vgpu_type", "696", nil},
		{"bus/pci/devices/0000:17:01.0/nvidia/current_vgpu_type", "696", syscall.EINVAL}, // the card holds four
		{"bus/pci/devices/0000:17:00.6/nvidia/current_vgpu_type", "0", nil},
		{"bus/pci/devices/0000:17:00.7/nvidia/current_vgpu_type", "0", nil},
	})
	if err := m.Attach("vm", at("17:00.4")); err != nil {
		t.Fatal(err)
	}
	steps(t, m, []step{{vf + "nvidia/current_vgpu_type", "0", syscall.EBUSY}})
	m.Detach("vm")
	steps(t, m, []step{
		{vf + "nvidia/current_vgpu_type", "0", nil},
		{"bus/pci/devices/0000:17:00.5/nvidia/current_vgpu_type", "0", nil},
		{num("0000:17:00.0"), "0", nil},
		{drv + "nvidia/unbind", "0000:65:00.0", nil},
		{num("0000:65:00.0"), "20", syscall.ENOENT}, // no driver
		{drv + "nvidia/bind", "0000:65:00.0", nil},
		{num("0000:65:00.0"), "2", nil},
		{"bus/pci/devices/0000:65:00.0/driver_override", "vfio-pci", nil},
		{drv + "nvidia/unbind", "0000:65:00.0", nil},
		{drv + "vfio-pci/bind", "0000:65:00.0", syscall.EBUSY}, // it has virtual functions
	})
	if _, err := m.Lstat(strings.TrimSuffix(vf, "/")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a virtual function outlived sriov_numvfs 0: %v", err)
	}
	if got := read(m, "bus/pci/devices/0000:65:00.0/virtfn1/physfn/device"); got != "0x20b5" {
		t.Errorf("through virtfn1 and physfn back: %s", got)
	}
}

func TestMediatedDevices(t *testing.T) {
	const one, two = "b1914f0a-15cf-416e-8967-55fc7cb68e20", "c1914f0a-15cf-416e-8967-55fc7cb68e20"
	m := tree(t, "lab")
	types := "class/mdev_bus/mtty/mdev_supported_types/"
	steps(t, m, []step{
		{types + "mtty-2/create", "not-a-uuid", syscall.EINVAL},
		{types + "mtty-2/create", one + "\n", nil},
		{types + "mtty-1/create", one, syscall.EEXIST},
	})
	if a, b := read(m, types+"mtty-1/available_instances"), read(m, types+"mtty-2/available_instances"); a != "22" || b != "11" {
		t.Errorf("left are %s of mtty-1 and %s of mtty-2", a, b)
	}
	inv, err := pci.Scan(m, pci.Options{})
	if err != nil || len(inv.Mediated) != 1 || inv.Mediated[0].Parent != "mtty" || inv.Mediated[0].Type != "mtty-2" || inv.Mediated[0].Driver != "mtty" {
		t.Errorf("a scan sees %+v, %v", inv.Mediated, err)
	}
	steps(t, m, []step{{pci.RemoveFile(one), "0", nil}, {pci.RemoveFile(one), "1", nil}, {pci.RemoveFile(one), "1", fs.ErrNotExist}})

	card := tree(t, "a100-mdev")
	on := func(vf, typ string) string {
		return "bus/pci/devices/0000:" + vf + "/mdev_supported_types/nvidia-" + typ + "/create"
	}
	steps(t, card, []step{
		{on("17:00.4", "697"), one, nil},
		{on("17:00.4", "697"), two, syscall.ENOSPC}, // a virtual function has one
		{on("17:00.5", "692"), two, syscall.ENOSPC}, // all of one size
		{on("17:00.5", "697"), two, nil},
		{on("17:00.6", "697"), "d1914f0a-15cf-416e-8967-55fc7cb68e20", syscall.ENOSPC}, // the card holds two
	})
}

// A write that waits for a guest ends when the guest lets go, as in the kernel.
func TestUnbindWaitsForTheGuest(t *testing.T) {
	m := tree(t, "l40s")
	steps(t, m, []step{{dev + "driver_override", "vfio-pci", nil}, {drv + "nvidia/unbind", gpu, nil}, {drv + "vfio-pci/bind", gpu, nil}})
	if err := m.Attach("vm", at(gpu)); err != nil {
		t.Fatal(err)
	}
	if err := m.Attach("other", at(gpu)); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a second owner: %v", err)
	}
	done := make(chan error)
	go func() { done <- m.WriteFile(drv+"vfio-pci/unbind", []byte(gpu)) }()
	select {
	case err := <-done:
		t.Fatalf("unbound under a guest: %v", err)
	default:
	}
	m.Detach("vm")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if d, _ := m.Device(at(gpu)); d.Resets != 1 || d.Driver != "" {
		t.Errorf("after the guest: %+v", d)
	}
}

// VFIO gives a group to a guest only if no driver of the host's is in it.
func TestGroupMustBeViable(t *testing.T) {
	m := tree(t, "workstation")
	steps(t, m, []step{{dev + "driver_override", "vfio-pci", nil}, {drv + "nvidia/unbind", gpu, nil}, {drv + "vfio-pci/bind", gpu, nil}})
	if err := m.Attach("vm", at(gpu)); !errors.Is(err, syscall.EPERM) {
		t.Errorf("with the audio function at its driver: %v", err)
	}
	for _, f := range []string{audio, "0000:01:00.2", "0000:01:00.3"} {
		steps(t, m, []step{{drv + driver(m, f) + "/unbind", f, nil}})
	}
	if err := m.Attach("vm", at(gpu)); err != nil {
		t.Error(err)
	}
}
