// Package simnvml is a simulated driver: MIG as the hardware does it, at the
// starts and sizes of real cards, with all that makes it hard: modes that stay
// pending, calls that succeed and do nothing, instances that vanish at a reboot,
// and a process that dies between any two changes.
//
// It may import device/host, nodewire and gpu.
package simnvml

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Card is a simulated card.
type Card struct {
	Model      string // key of gpu.Models
	PCIAddress string
	// Spelt are a driver's own names of profiles, by class.
	Spelt map[string]string
	// Resets: a change of MIG mode stays pending until a reset, as on an A100.
	Resets bool
	// Keeps its MIG mode over a reboot, as an A100 does and an H100 does not.
	Keeps  bool
	NVLink []string
	Module int
	// VGPUs are the vGPU types of its driver; none: it is no vGPU driver.
	VGPUs []host.VGPUType
	// InUse says that a vGPU is on some instance of a profile: how many are.
	InUse func(profileID int) int
	// Functions are the virtual ones that it has: MIG mode isn't switched beside any.
	Functions func() int
}

// Call is a call that changes something.
type Call string

const (
	Create  Call = "create"
	Destroy Call = "destroy"
	SetMIG  Call = "set mode"
	Reset   Call = "reset"
	// Compute is the second half of Create.
	Compute Call = "create compute instance"
)

// Crash is what a simulated death of the process panics with.
type Crash struct{ Point int }

// Driver is a host.Driver.
type Driver struct {
	mu      sync.Mutex
	cards   []*card
	boot    int
	points  int
	crashAt int
	lies    map[Call]int
	fails   map[Call]fault
	log     []string
	down    bool
	closes  int
	events  chan host.DriverEvent
}

var _ host.Driver = (*Driver)(nil)

type fault struct {
	times int
	err   error
}

type card struct {
	Card
	host.DriverCard
	profiles  []host.MIGProfile
	instances []host.GPUInstance
	lost      bool
	stuck     bool
}

// New makes a driver of these cards.
func New(cards ...Card) (*Driver, error) {
	d := &Driver{lies: map[Call]int{}, fails: map[Call]fault{}, events: make(chan host.DriverEvent, 256)}
	for i, c := range cards {
		model, err := gpu.ModelByKey(c.Model)
		if err != nil {
			return nil, err
		}
		table, err := profiles(model, c.Spelt)
		if err != nil {
			return nil, err
		}
		d.cards = append(d.cards, &card{Card: c, profiles: table, DriverCard: host.DriverCard{
			UUID: "GPU-" + uuid("card", c.PCIAddress), PCIAddress: c.PCIAddress, Name: "NVIDIA " + model.Name, MemoryMiB: model.MemoryMiB,
			Minor: i, Module: c.Module, NVLink: c.NVLink, NVSwitch: c.Module > 0, MIG: host.MIGMode{Capable: true},
			ECC: host.ECCMode{Capable: true, Current: true, Pending: true}, Persistence: true, Remap: host.RowRemap{Known: true},
		}})
	}
	return d, nil
}

func uuid(words ...any) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(words...)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (d *Driver) find(address string) (*card, error) {
	if d.down {
		return nil, fmt.Errorf("reach the driver (simulated): %w", host.ErrNoDriver)
	}
	for _, c := range d.cards {
		if c.Card.PCIAddress == address && !c.lost {
			return c, nil
		}
	}
	return nil, fmt.Errorf("find %s (simulated): %w", address, host.ErrNoCard)
}

// point is a place where the process may die.
func (d *Driver) point() {
	if d.points++; d.points == d.crashAt {
		panic(Crash{d.points})
	}
}

// begin counts a call and says whether it only pretends.
func (d *Driver) begin(c Call, card string) (pretend bool, err error) {
	d.point()
	d.log = append(d.log, string(c)+" "+card)
	if f := d.fails[c]; f.times > 0 {
		f.times--
		d.fails[c] = f
		return false, f.err
	}
	if d.lies[c] > 0 {
		d.lies[c]--
		return true, nil
	}
	return false, nil
}

// Cards lists the cards that are not lost.
func (d *Driver) Cards(context.Context) ([]host.DriverCard, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, fmt.Errorf("list cards (simulated): %w", host.ErrNoDriver)
	}
	var out []host.DriverCard
	for _, c := range d.cards {
		if c.lost {
			continue
		}
		copied := c.DriverCard
		copied.Processes = slices.Clone(c.Processes)
		out = append(out, copied)
	}
	return out, nil
}

// Profiles lists how a card can be cut.
func (d *Driver) Profiles(_ context.Context, address string) ([]host.MIGProfile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil || !c.MIG.Current {
		return nil, err
	}
	return slices.Clone(c.profiles), nil
}

// Instances lists what exists on a card.
func (d *Driver) Instances(_ context.Context, address string) ([]host.GPUInstance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return nil, err
	}
	return slices.Clone(c.instances), nil
}

// CreateInstance makes a GPU instance and then its compute instance.
func (d *Driver) CreateInstance(_ context.Context, address string, profileID, start int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return err
	}
	pretend, err := d.begin(Create, address)
	if err != nil || pretend {
		return err
	}
	id, err := c.create(profileID, start)
	if err != nil {
		return err
	}
	if pretend, err := d.begin(Compute, address); err != nil || pretend {
		return err
	}
	c.compute(id, d.boot)
	d.point()
	return nil
}

// create checks as the hardware does.
func (c *card) create(profileID, start int) (int, error) {
	if !c.MIG.Current {
		return 0, fmt.Errorf("create GPU instance (simulated): MIG mode is off: %w", host.ErrRefused)
	}
	i := slices.IndexFunc(c.profiles, func(p host.MIGProfile) bool { return p.ID == profileID })
	if i < 0 || !slices.Contains(c.profiles[i].Starts, start) {
		return 0, fmt.Errorf("create GPU instance (simulated): no profile %d at %d: %w", profileID, start, host.ErrRefused)
	}
	p := c.profiles[i]
	most := 0
	for _, q := range c.profiles {
		most = max(most, q.Compute)
	}
	compute, same, used := p.Compute, 1, map[int]bool{}
	for _, in := range c.instances {
		used[in.ID] = true
		j := slices.IndexFunc(c.profiles, func(q host.MIGProfile) bool { return q.ID == in.ProfileID })
		q := c.profiles[j]
		compute += q.Compute
		if in.ProfileID == profileID {
			same++
		}
		if start < in.Start+in.Size && in.Start < start+p.Slots || len(q.Attributes) > 0 && len(p.Attributes) > 0 {
			return 0, fmt.Errorf("create %s at %d (simulated): insufficient resources", p.Name, start)
		}
	}
	if compute > most || same > p.Max {
		return 0, fmt.Errorf("create %s at %d (simulated): insufficient resources", p.Name, start)
	}
	id := 0
	if p.Compute != most {
		for id = 1; used[id]; id++ {
		}
	}
	c.instances = append(c.instances, host.GPUInstance{ID: id, ProfileID: profileID, Start: start, Size: p.Slots, MemoryMiB: p.MemoryMiB})
	slices.SortFunc(c.instances, func(a, b host.GPUInstance) int { return a.Start - b.Start })
	return id, nil
}

// compute gives an instance its compute instance, with names of this boot.
func (c *card) compute(id, boot int) {
	for i := range c.instances {
		if in := &c.instances[i]; in.ID == id {
			in.Computes = 1
			in.UUID = "MIG-" + uuid("mig", boot, c.UUID, id, in.Start)
			in.OldUUID = host.MIGName{GPU: c.UUID, GI: id}.String()
		}
	}
}

// DestroyInstance takes an idle instance away, compute instances first.
func (d *Driver) DestroyInstance(_ context.Context, address string, id int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return err
	}
	pretend, err := d.begin(Destroy, address)
	if err != nil || pretend {
		return err
	}
	i := slices.IndexFunc(c.instances, func(in host.GPUInstance) bool { return in.ID == id })
	if i < 0 {
		return nil
	}
	if c.InUse != nil {
		same := 0
		for _, in := range c.instances {
			if in.ProfileID == c.instances[i].ProfileID {
				same++
			}
		}
		if same <= c.InUse(c.instances[i].ProfileID) {
			return fmt.Errorf("destroy GPU instance %d (simulated): a vGPU is on it: %w", id, host.ErrBusy)
		}
	}
	if slices.ContainsFunc(c.Processes, func(p host.Process) bool { return p.GI == id }) {
		return fmt.Errorf("destroy GPU instance %d (simulated): %w", id, host.ErrBusy)
	}
	c.instances[i].Computes, c.instances[i].UUID, c.instances[i].OldUUID = 0, "", ""
	d.point()
	c.instances = slices.Delete(c.instances, i, i+1)
	d.point()
	return nil
}

// SetMIG asks for a mode; the card may keep it pending.
func (d *Driver) SetMIG(_ context.Context, address string, on bool) (host.MIGMode, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return host.MIGMode{}, err
	}
	pretend, err := d.begin(SetMIG, address)
	if err != nil {
		return c.MIG, err
	}
	if pretend {
		return host.MIGMode{Capable: true, Current: on, Pending: on}, nil
	}
	if c.Functions != nil && on != c.MIG.Current && c.Functions() > 0 {
		return c.MIG, fmt.Errorf("set MIG mode (simulated): it has virtual functions: %w", host.ErrBusy)
	}
	if len(c.Processes) > 0 || len(c.instances) > 0 && on != c.MIG.Current {
		return c.MIG, fmt.Errorf("set MIG mode (simulated): %w", host.ErrBusy)
	}
	c.MIG.Pending = on
	if !c.Resets {
		c.MIG.Current = on
	}
	d.point()
	return c.MIG, nil
}

// Reset makes pending modes current.
func (d *Driver) Reset(_ context.Context, address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return err
	}
	pretend, err := d.begin(Reset, address)
	if err != nil || pretend {
		return err
	}
	if len(c.Processes) > 0 {
		return fmt.Errorf("reset (simulated): %w", host.ErrBusy)
	}
	if !c.stuck {
		c.restart()
	}
	d.point()
	return nil
}

func (c *card) restart() {
	c.MIG.Current, c.ECC.Current = c.MIG.Pending, c.ECC.Pending
	c.instances = nil
	if c.Remap.Pending {
		c.Remap.Pending = false
	}
}

// SetPersistence does what it says.
func (d *Driver) SetPersistence(_ context.Context, address string, on bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return err
	}
	c.Persistence = on
	return nil
}

// Defaults puts ECC back, pending until a reset.
func (d *Driver) Defaults(_ context.Context, address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return err
	}
	c.ECC.Pending = c.ECC.Capable
	return nil
}

// Samples are flat: a simulated card does nothing.
func (d *Driver) Samples(context.Context) ([]host.DriverSample, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []host.DriverSample
	for _, c := range d.cards {
		if !c.lost {
			out = append(out, host.DriverSample{PCIAddress: c.Card.PCIAddress, GI: -1, Known: !c.MIG.Current,
				GPUSample: nodewire.GPUSample{UUID: c.UUID, TemperatureC: 40, PowerWatts: 60, Simulated: true}})
		}
	}
	return out, nil
}

// Watch tells what Tell was told.
func (d *Driver) Watch(ctx context.Context, tell func(host.DriverEvent)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-d.events:
			tell(e)
		}
	}
}

// Close counts.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closes++
	return nil
}
