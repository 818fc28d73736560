package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// world is a recorded host with a board on it. The host outlives the board, as a
// kernel outlives an agent.
type world struct {
	tb      testing.TB
	m       *recorded.Model
	cfg     host.Config
	b       *host.Board
	cdi     *cdiFiles
	kill    func()           // called before and after each change; nil: nothing kills
	fails   map[string]error // writes to the host that fail
	wrote   func()           // called after each write to the host
	holders map[string][]host.Process
}

type fataler interface {
	testing.TB
}

func newWorld(t fataler, tree string, change ...func(*world)) *world {
	t.Helper()
	read := recorded.Tree
	if strings.Contains(tree, "\n") { // a host of the test's own
		read = recorded.Parse
	}
	m, err := read(tree)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{tb: t, m: m, cdi: &cdiFiles{of: map[string][]string{}}, holders: map[string][]host.Process{}}
	w.cfg = host.Config{
		Sys: killable{m, w}, StateDir: t.TempDir(), BootID: "boot-1", BusyFor: 20 * time.Millisecond,
		Options:   pci.Options{Allow: []pci.ID{{Vendor: 0x1234, Device: 0x11e8}}},
		Parents:   []string{"mtty"},
		SinceBoot: func() time.Duration { return time.Minute },
		Holders: func(_ context.Context, files []string) (out []host.Process, _ error) {
			for _, f := range files {
				out = append(out, w.holders[f]...)
			}
			return out, nil
		},
	}
	for _, c := range change {
		c(w)
	}
	w.open()
	return w
}

func (w *world) open() {
	w.tb.Helper()
	b, err := host.OpenStruck(context.Background(), w.cfg, func(bool) { w.tick() })
	if err != nil {
		w.tb.Fatal(err)
	}
	w.b = b
}

func (w *world) tick() {
	if w.kill != nil {
		w.kill()
	}
}

// killable passes writes on to the host, and dies around them when told to.
type killable struct {
	*recorded.Model
	w *world
}

func (k killable) WriteFile(name string, data []byte) error {
	k.w.tick()
	if err := k.w.fails[name]; err != nil {
		return err
	}
	err := k.Model.WriteFile(name, data)
	k.w.tick()
	if k.w.wrote != nil {
		k.w.wrote()
	}
	return err
}

// withDriver adds a simulated vendor's driver, which has a card only while the
// kernel's module does.
func withDriver(cards ...simnvml.Card) func(*world) {
	return func(w *world) {
		d, err := simnvml.New(cards...)
		if err != nil {
			w.tb.Fatal(err)
		}
		w.cfg.Driver, w.cfg.CDI = boundDriver{d, w}, w.cdi
	}
}

type boundDriver struct {
	*simnvml.Driver
	w *world
}

func (d boundDriver) bound(card string) bool {
	f, there := d.w.m.Device(address(d.w.tb, card))
	return there && f.Driver == "nvidia"
}

func (d boundDriver) Cards(ctx context.Context) ([]host.DriverCard, error) {
	list, err := d.Driver.Cards(ctx)
	return slices.DeleteFunc(list, func(c host.DriverCard) bool { return !d.bound(c.PCIAddress) }), err
}

func (d boundDriver) around(f func() error) error {
	d.w.tick()
	err := f()
	d.w.tick()
	return err
}

func (d boundDriver) CreateInstance(ctx context.Context, card string, id, start int) error {
	return d.around(func() error { return d.Driver.CreateInstance(ctx, card, id, start) })
}

func (d boundDriver) DestroyInstance(ctx context.Context, card string, id int) error {
	return d.around(func() error { return d.Driver.DestroyInstance(ctx, card, id) })
}

func (d boundDriver) SetMIG(ctx context.Context, card string, on bool) (m host.MIGMode, err error) {
	return m, d.around(func() error { m, err = d.Driver.SetMIG(ctx, card, on); return err })
}

func (d boundDriver) Reset(ctx context.Context, card string) error {
	return d.around(func() error { return d.Driver.Reset(ctx, card) })
}

// cdiFiles keeps what containers were given, as files outlive an agent.
type cdiFiles struct {
	mu sync.Mutex
	of map[string][]string
}

func (c *cdiFiles) Present(_ context.Context, owner string, uuids, _ []string) (names []string, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[owner] = slices.Clone(uuids)
	for _, u := range uuids {
		names = append(names, "tenon.test/gpu="+u)
	}
	return names, nil
}

func (c *cdiFiles) Withdraw(_ context.Context, owner string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, owner)
	return nil
}

func address(t testing.TB, s string) pci.Address {
	t.Helper()
	a, err := pci.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *world) inventory() device.Inventory {
	w.tb.Helper()
	inv, err := w.b.Inventory(context.Background())
	if err != nil {
		w.tb.Fatal(err)
	}
	return inv
}

// gpu is a card as reported; nil: it isn't.
func (w *world) gpu(card string) *nodewire.GPU {
	w.tb.Helper()
	for _, g := range w.inventory().GPUs {
		if g.PCIAddress == card {
			return &g
		}
	}
	return nil
}

func (w *world) mustGPU(card string) nodewire.GPU {
	w.tb.Helper()
	g := w.gpu(card)
	if g == nil {
		w.tb.Fatalf("card %s is not reported: %+v", card, w.inventory())
	}
	return *g
}

func (w *world) wholes(cards ...string) (out []nodewire.Device) {
	for _, c := range cards {
		out = append(out, nodewire.Device{GPUUUID: w.mustGPU(c).UUID, Mode: "whole", Profile: "whole", SlotStart: 0, SlotEnd: 8})
	}
	return out
}

func (w *world) vgpu(card string, slot int) nodewire.Device {
	return nodewire.Device{GPUUUID: w.mustGPU(card).UUID, Mode: "vgpu", Profile: "vgpu", SlotStart: slot, SlotEnd: slot + 1}
}

func (w *world) slice(card, profile string, start, end int) nodewire.Device {
	return nodewire.Device{GPUUUID: w.mustGPU(card).UUID, Mode: "mig", Profile: profile, SlotStart: start, SlotEnd: end}
}

func vm(id string, epoch int64, devices ...nodewire.Device) device.Request {
	return device.Request{InstanceID: id, Epoch: epoch, Kind: "vm", Devices: devices}
}

func container(id string, epoch int64, devices ...nodewire.Device) device.Request {
	return device.Request{InstanceID: id, Epoch: epoch, Kind: "container", Devices: devices}
}

func (w *world) prepare(want device.Request) []device.Grant {
	w.tb.Helper()
	g, err := w.b.Prepare(context.Background(), want)
	if err != nil {
		w.tb.Fatal(err)
	}
	return g
}

func (w *world) refused(want device.Request, final bool, words ...string) {
	w.tb.Helper()
	_, err := w.b.Prepare(context.Background(), want)
	if err == nil {
		w.tb.Fatal("it was given out")
	}
	if errors.Is(err, device.ErrImpossible) != final {
		w.tb.Errorf("impossible is %v: %v", !final, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.tb.Errorf("%q is not in: %v", word, err)
		}
	}
	if held, err := w.b.Held(context.Background()); err != nil || final && len(held[want.InstanceID]) > 0 {
		w.tb.Errorf("a refusal holds %v (%v)", held, err)
	}
}

func (w *world) release(id string, epoch int64) {
	w.tb.Helper()
	if err := w.b.Release(context.Background(), id, epoch); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) wish(cards ...nodewire.Card) {
	w.tb.Helper()
	if err := w.b.Wish(context.Background(), cards); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) wants(card, state string, words ...string) {
	w.tb.Helper()
	g := w.mustGPU(card)
	if g.State != state {
		w.tb.Errorf("%s is %s (%s), not %s", card, g.State, g.Reason, state)
	}
	for _, word := range words {
		if !strings.Contains(g.Reason, word) {
			w.tb.Errorf("%s: %q is not in its reason %q", card, word, g.Reason)
		}
	}
}

// drivers lists functions with their drivers and overrides.
func (w *world) drivers(functions ...string) (out []string) {
	for _, f := range functions {
		d, _ := w.m.Device(address(w.tb, f))
		out = append(out, fmt.Sprintf("%s %q %q", f, d.Driver, d.Override))
	}
	return out
}

func (w *world) same(before []string, functions ...string) {
	w.tb.Helper()
	if after := w.drivers(functions...); !slices.Equal(before, after) {
		w.tb.Errorf("functions are\n%s\nand were\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}
