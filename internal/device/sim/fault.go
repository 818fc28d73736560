package sim

import (
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var _ device.Watcher = (*Board)(nil)

// incidentsKept is for how long a fault is told again.
const incidentsKept = time.Hour

// fault is kept with the card's state: its incident is told after a restart too.
type fault struct {
	nodewire.Incident
	At time.Time `json:"at"`
}

// Fault makes a card show a fault by its number, of a holder's program or nobody's.
// The same one again within a moment is the same fault.
func (b *Board) Fault(uuid string, xid int, instance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, now := b.card(uuid), b.cfg.Now()
	if c == nil {
		return
	}
	for _, o := range b.state.Faults {
		if o.GPUUUID == uuid && o.XID == xid && o.InstanceID == instance && now.Sub(o.At) < 10*time.Second {
			return
		}
	}
	b.show(c, "sim-"+b.uuid("fault", uuid, xid, now.UnixNano()), xid, instance)
	if err := b.save(); err != nil {
		b.cfg.Log.Warn("keep a simulated fault", "error", err)
	}
}

// asked has a card show what an operator asked for and it has not shown: each once,
// by its id, also when many come at once or the process was killed in between. It
// reports whether anything is to be saved.
func (b *Board) asked(c *card, list []nodewire.Fault) (changed bool) {
	var shown []string
	before := b.state.Cards[c.PCIAddress].Shown
	for _, f := range list {
		if !slices.Contains(before, f.ID) && !slices.Contains(shown, f.ID) {
			b.show(c, f.ID, f.XID, b.hit(c, f.XID))
		}
		shown = append(shown, f.ID)
	}
	if slices.Equal(before, shown) {
		return false
	}
	s := b.state.Cards[c.PCIAddress]
	s.Shown = shown // one that is no longer listed has been told of
	b.state.Cards[c.PCIAddress] = s
	return true
}

// hit is whose fault it is: a program's own is one holder's. One of the card is its
// only holder's; of several none is named, and the control plane tells them all.
func (b *Board) hit(c *card, xid int) string {
	holders := b.holders(c)
	_, action, _ := host.XIDMeans(xid)
	if len(holders) == 0 || len(holders) > 1 && action != nodewire.ActionNone {
		return ""
	}
	return holders[0]
}

// show has a card show a fault, which means what it means on a real one; the caller
// saves it.
func (b *Board) show(c *card, id string, xid int, instance string) {
	f := fault{At: b.cfg.Now(), Incident: nodewire.Incident{ID: id, PCIAddress: c.PCIAddress, GPUUUID: c.uuid, XID: xid, InstanceID: instance}}
	f.Kind, f.Action, f.Message = host.XIDMeans(xid)
	f.Message += " (simulated)"
	b.state.Faults = append(b.state.Faults, f)
	switch f.Action {
	case nodewire.ActionNeedsReset:
		if m := b.marks[c.uuid]; m.State != nodewire.GPUUnhealthy {
			b.mark(c, &mark{nodewire.GPUNeedsReset, f.Message})
		}
	case nodewire.ActionOut:
		b.mark(c, &mark{nodewire.GPUUnhealthy, f.Message})
	}
}

// mark sets the state that a card reports, or takes it away. The caller saves it.
func (b *Board) mark(c *card, m *mark) {
	s := b.state.Cards[c.PCIAddress]
	if s.Mark = m; m == nil {
		delete(b.marks, c.uuid)
	} else {
		b.marks[c.uuid] = *m
	}
	b.state.Cards[c.PCIAddress] = s
}

// Lose makes a slice of a card's layout not show, as a driver may; nil: all show.
func (b *Board) Lose(uuid string, places ...nodewire.Place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost[uuid] = places
}

// Incidents are the faults of late, and those that are still asked for: nobody has
// heard of them.
func (b *Board) Incidents() []nodewire.Incident {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Now()
	b.state.Faults = slices.DeleteFunc(b.state.Faults, func(f fault) bool {
		return now.Sub(f.At) > incidentsKept && !slices.Contains(b.state.Cards[f.PCIAddress].Shown, f.ID)
	})
	out := make([]nodewire.Incident, len(b.state.Faults))
	for i, f := range b.state.Faults {
		out[i] = f.Incident
		out[i].AgeSeconds = max(0, now.Sub(f.At).Seconds())
	}
	return out
}

// Excluded is nothing: every simulated card is offered.
func (b *Board) Excluded() []nodewire.Excluded { return nil }
