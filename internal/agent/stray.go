package agent

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// stray is a run that a restored control plane does not know, or knows at another
// epoch. It goes on as it is; only an operator lets it go.
type stray struct {
	Kind    string            `json:"kind"`
	Epochs  []int64           `json:"epochs"`
	Era     string            `json:"era"` // that assigned it
	Devices []nodewire.Device `json:"devices,omitempty"`
	Volumes []string          `json:"volumes,omitempty"`
	LetGo   bool              `json:"let_go,omitempty"` // an operator named it
}

// setAside keeps, at a change of era, what the new one does not name as it runs
// here. What has ended, or whose end was decided, is cleared away as ever.
func (s *state) setAside(next nodewire.Assignment) {
	named := map[string]nodewire.Instance{}
	for _, inst := range next.Instances {
		named[inst.ID] = inst
	}
	for id, rec := range s.Records {
		want, ok := named[id]
		switch {
		case rec.End != nil:
			continue
		case ok && want.Epoch == rec.Epoch:
			// It goes on. That the restored control plane forgot a restart is no
			// reason for another.
			if rec.RunGeneration > want.Generation {
				rec.Adopted = &adoption{Guest: rec.RunGeneration, As: want.Generation}
				s.Records[id] = rec
			}
			continue
		}
		st := s.Strays[id]
		st.Kind, st.Era = rec.Kind, s.Assignment.Era
		st.Epochs = append(append(slices.Clone(st.Epochs), rec.Epoch), rec.Earlier...)
		st.Volumes = append(slices.Clone(st.Volumes), rec.Volumes...)
		if had := s.want(id); had != nil {
			st.Devices = append(slices.Clone(st.Devices), had.Devices...)
		}
		s.Strays[id] = st
		delete(s.Records, id)
	}
}

// letGo marks the strays that an operator named.
func (s *state) letGo() {
	for _, id := range s.Assignment.Remove {
		if st, ok := s.Strays[id]; ok && !st.LetGo {
			st.LetGo = true
			s.Strays[id] = st
		}
	}
}

// strayWork is what is being done about strays.
type strayWork struct {
	look chan struct{}
	mu   sync.Mutex
	busy map[string]bool
}

func (w *strayWork) init() { w.look, w.busy = make(chan struct{}, 1), map[string]bool{} }

// settle wakes all that a new assignment concerns besides instances.
func (a *Agent) settle() {
	for _, c := range []chan struct{}{a.volumes.kick, a.strays.look, a.contact.kick} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// orphans are what is here and was not assigned.
type orphans struct {
	list   []nodewire.Orphan
	cards  map[string]string // by UUID, whose share is held: the owner
	guests map[string]string // driver by id
}

// findOrphans lists what is here and was never ours, or is no longer. What is
// forgotten or assigned while the lists are read is in one of the two snapshots.
func (a *Agent) findOrphans(ctx context.Context) {
	before := a.ledger.snapshot()
	next := orphans{cards: map[string]string{}, guests: map[string]string{}}
	var found []nodewire.Orphan
	here := map[string]bool{}
	add := func(driver, id, what string) {
		here[id] = true
		_, stray := before.Strays[id]
		if _, ours := before.Records[id]; !ours || stray {
			found = append(found, nodewire.Orphan{Driver: driver, ID: id, What: what + before.origin(id)})
		}
	}
	asked := map[string]*reading[map[string]hypervisor.Guest]{}
	for name, j := range a.guests {
		asked[name] = j.ask()
	}
	for name, r := range asked {
		list, err := r.wait(ctx)
		if err != nil {
			a.log.Warn("list guests", "driver", name, "error", err)
			return // unknown: what was found before stands
		}
		for id, g := range list {
			add(name, id, "guest, "+string(g.State))
			next.guests[id] = name
		}
	}
	held, err := a.held.fresh(ctx)
	if err != nil {
		a.log.Warn("list held devices", "error", err)
		return
	}
	for id := range held {
		add("device", id, "GPU share")
	}
	after := a.ledger.snapshot()
	for _, o := range found {
		_, stray := after.Strays[o.ID]
		if _, ours := after.Records[o.ID]; ours && !stray {
			continue
		}
		next.list = append(next.list, o)
		for _, d := range held[o.ID] {
			next.cards[d.GPUUUID] = o.ID
		}
	}
	sort.Slice(next.list, func(i, j int) bool {
		return next.list[i].Driver+next.list[i].ID < next.list[j].Driver+next.list[j].ID
	})
	a.orphans.Store(&next)
	a.dropAbsent(before, here)
}

func (s *state) origin(id string) string {
	if st, ok := s.Strays[id]; ok {
		return fmt.Sprintf("; assigned in era %s, before the control plane was restored", st.Era)
	}
	return ""
}

// dropAbsent forgets strays of which nothing is here.
func (a *Agent) dropAbsent(before *state, here map[string]bool) {
	var gone []string
	a.mu.Lock()
	for id := range before.Strays {
		_, ours := before.Records[id]
		if _, working := a.workers[id]; !here[id] && (ours || !working) {
			gone = append(gone, id) // a worker of its time may still be at its last step
		}
	}
	a.mu.Unlock()
	a.forgetStrays(gone)
}

func (a *Agent) forgetStrays(ids []string) {
	if len(ids) == 0 {
		return
	}
	if err := a.ledger.update(func(s *state) error {
		for _, id := range ids {
			delete(s.Strays, id)
		}
		return nil
	}); err != nil {
		a.log.Warn("forget what is no longer here", "error", err)
		return
	}
	a.sync()
	a.dirty()
}

// endStrays ends what an operator let go: strays, and guests that were never ours.
func (a *Agent) endStrays(ctx context.Context) {
	s := a.ledger.snapshot()
	if s.Assignment == nil {
		return
	}
	found := a.orphans.Load()
	for _, id := range s.Assignment.Remove {
		st, isStray := s.Strays[id]
		if _, ours := s.Records[id]; ours && !isStray {
			continue // assigned: it is no orphan
		}
		if !isStray {
			if found == nil || !slices.ContainsFunc(found.list, func(o nodewire.Orphan) bool { return o.ID == id && o.Driver != "volume" }) {
				continue
			}
			st = stray{Kind: "container"}
			if found.guests[id] == "libvirt" {
				st.Kind = "vm"
			}
		} else if !st.LetGo {
			continue
		}
		a.strays.mu.Lock()
		busy := a.strays.busy[id]
		a.strays.busy[id] = true
		a.strays.mu.Unlock()
		if !busy {
			a.wg.Go(func() { a.endStray(ctx, id, st) })
		}
	}
}

func (a *Agent) endStray(ctx context.Context, id string, st stray) {
	defer func() {
		a.strays.mu.Lock()
		delete(a.strays.busy, id)
		a.strays.mu.Unlock()
	}()
	w := newWorker(a, id)
	guest, err := w.look(ctx, st.Kind)
	if err == nil {
		// All that is held under this id is its: nothing newer starts while it is here.
		err = w.giveBack(ctx, view{rec: &record{Kind: st.Kind}, guest: guest}, []int64{math.MaxInt64}, false, defaultGrace)
	}
	if err != nil {
		a.log.Warn("end what an operator let go", "instance", id, "error", err)
		return // the next round tries again
	}
	a.log.Info("what an operator let go was ended", "instance", id)
	a.forgetStrays([]string{id})
	a.findOrphans(ctx)
	a.settle()
	a.dirty()
}

// quarantine takes cards out of service of which an orphan holds a share: nobody
// else may be placed there.
func (a *Agent) quarantine(r *nodewire.Report) {
	owners := map[string]string{}
	for id, st := range a.ledger.snapshot().Strays {
		for _, d := range st.Devices {
			owners[d.GPUUUID] = id
		}
	}
	if o := a.orphans.Load(); o != nil {
		for card, id := range o.cards {
			owners[card] = id
		}
	}
	if len(owners) == 0 {
		return
	}
	r.GPUs = slices.Clone(r.GPUs)
	for i, g := range r.GPUs {
		if owner := owners[g.UUID]; owner != "" && (g.State == "ready" || g.State == "cleaning") {
			r.GPUs[i].State, r.GPUs[i].Reason = "quarantined", "a share of it is held by "+owner+", which nobody assigned"
		}
	}
}
