package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var _ device.Watcher = (*Board)(nil)

// incidentsKept is for how long a fault is told again.
const incidentsKept = time.Hour

type fault struct {
	nodewire.Incident
	at time.Time
}

// Faults by NVIDIA's number: whose they are, and what they do to a card.
var (
	appXIDs   = []int{13, 31, 43, 45, 68, 109}
	resetXIDs = []int{48, 63, 64, 94, 95}
)

// Fault makes a card show a fault by its number, of a holder's program or nobody's.
// The same one again within a moment is the same fault.
func (b *Board) Fault(uuid string, xid int, instance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.card(uuid); c != nil {
		b.show(c, xid, instance)
	}
}

// show has a card show a fault; what that does to it outlives the process.
func (b *Board) show(c *card, xid int, instance string) {
	now, uuid := b.cfg.Now(), c.uuid
	f := fault{at: now, Incident: nodewire.Incident{
		PCIAddress: c.PCIAddress, GPUUUID: uuid, Kind: "xid", XID: xid, InstanceID: instance, Action: nodewire.ActionOut,
		Message: fmt.Sprintf("XID %d (simulated)", xid),
	}}
	switch {
	case slices.Contains(appXIDs, xid):
		f.Action = nodewire.ActionNone
	case slices.Contains(resetXIDs, xid):
		f.Action = nodewire.ActionNeedsReset
	}
	for _, o := range b.faults {
		if o.GPUUUID == uuid && o.XID == xid && o.InstanceID == instance && now.Sub(o.at) < 10*time.Second {
			return
		}
	}
	f.ID = "sim-" + b.uuid("fault", uuid, xid, now.UnixNano())
	b.faults = append(b.faults, f)
	switch f.Action {
	case nodewire.ActionNeedsReset:
		if m := b.marks[uuid]; m.State != nodewire.GPUUnhealthy {
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

// Incidents are the faults of late.
func (b *Board) Incidents() []nodewire.Incident {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Now()
	b.faults = slices.DeleteFunc(b.faults, func(f fault) bool { return now.Sub(f.at) > incidentsKept })
	out := make([]nodewire.Incident, len(b.faults))
	for i, f := range b.faults {
		out[i] = f.Incident
		out[i].AgeSeconds = max(0, now.Sub(f.at).Seconds())
	}
	return out
}

// Excluded is nothing: every simulated card is offered.
func (b *Board) Excluded() []nodewire.Excluded { return nil }
