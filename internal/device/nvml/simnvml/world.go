package simnvml

import (
	"slices"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// CrashAt has the process die at the n-th point from now; 0: never.
func (d *Driver) CrashAt(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.points, d.crashAt = 0, n
}

// Points are those passed since CrashAt.
func (d *Driver) Points() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.points
}

// Lie has the next calls succeed and do nothing.
func (d *Driver) Lie(c Call, times int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies[c] = times
}

// Fail has the next calls fail.
func (d *Driver) Fail(c Call, times int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails[c] = fault{times, err}
}

// Down takes the whole driver away, or brings it back.
func (d *Driver) Down(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// Change alters a card as if by another's hand.
func (d *Driver) Change(address string, change func(c *host.DriverCard)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.cards {
		if c.Card.PCIAddress == address {
			change(&c.DriverCard)
		}
	}
}

// Spell has the driver spell a card's profiles in another way, as another version
// of it does.
func (d *Driver) Spell(address string, spelt map[string]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.cards {
		if c.Card.PCIAddress != address {
			continue
		}
		model, err := gpu.ModelByKey(c.Model)
		if err != nil {
			return err
		}
		if c.profiles, err = profiles(model, spelt); err != nil {
			return err
		}
	}
	return nil
}

// Lose takes a card off the bus, or puts it back.
func (d *Driver) Lose(address string, lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.cards {
		if c.Card.PCIAddress == address {
			c.lost = lost
		}
	}
}

// Stick keeps a card's modes pending whatever resets it.
func (d *Driver) Stick(address string, stuck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.cards {
		if c.Card.PCIAddress == address {
			c.stuck = stuck
		}
	}
}

// Foreign makes an instance as another tool would; half: without a compute
// instance.
func (d *Driver) Foreign(address string, profileID, start int, half bool) (host.GPUInstance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return host.GPUInstance{}, err
	}
	id, err := c.create(profileID, start)
	if err != nil {
		return host.GPUInstance{}, err
	}
	if !half {
		c.compute(id, d.boot)
	}
	i := slices.IndexFunc(c.instances, func(in host.GPUInstance) bool { return in.ID == id })
	return c.instances[i], nil
}

// Vanish takes all instances of a card away, as another tool would.
func (d *Driver) Vanish(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.cards {
		if c.Card.PCIAddress == address {
			c.instances = nil
		}
	}
}

// Reboot is one of the host: instances vanish, and on some cards the mode.
func (d *Driver) Reboot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot++
	for _, c := range d.cards {
		if !c.Keeps {
			c.MIG.Pending = false
		}
		c.restart()
		c.Processes = nil
	}
}

// Tell is an event for who watches.
func (d *Driver) Tell(e host.DriverEvent) { d.events <- e }

// Log lists the changing calls so far, with their cards.
func (d *Driver) Log() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

// Closes counts the calls of Close.
func (d *Driver) Closes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closes
}
