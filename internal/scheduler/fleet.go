package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	historySize               = 20000            // instances that the mix is begun with
	unseen                    = 10 * time.Second // without a tick for so long, somebody else may have led
	verifyEvery               = 30 * time.Second // between two readings of the whole fleet
	reweighLeast, reweighMost = 16, 2048         // new requests after which the mix counts anew
)

// fleet is what the scheduler keeps in memory from one tick to the next: the board,
// and what was asked for. Nothing rests on it but the choice of places; a commit
// checks everything in the database.
type fleet struct {
	board    *placement.Board
	pulse    map[cloud.NodeID]int64 // of what the board was told
	verified time.Time
	history  placement.History
	queued   map[cloud.InstanceID]bool // when last looked
	since    int                       // requests since the mix was last told
	reweigh  int                       // after so many it is told again
}

// reading is what one look at the database gave.
type reading struct {
	waiting      []postgres.Waiting
	asked        []postgres.Asked
	pulse, after map[cloud.NodeID]int64
	nodes        []cloud.Node
	whole        bool
}

// look reads the queue and, if anything waits, what has changed of the fleet: a
// fleet of a thousand nodes is not read each second for nothing.
func (s *Scheduler) look(ctx context.Context) ([]postgres.Waiting, error) {
	began := time.Now()
	fresh := s.fleet.board == nil
	var r reading
	err := s.cfg.DB.InSystem(ctx, func(tx *postgres.Tx) (err error) {
		r = reading{}
		if r.waiting, err = postgres.QueueRead(ctx, tx, queueSize); err != nil || len(r.waiting) == 0 {
			return err
		}
		if fresh {
			if r.asked, err = postgres.AskedRead(ctx, tx, historySize); err != nil {
				return err
			}
		}
		// The pulse comes first: what changes after it is seen at the next look.
		if r.pulse, err = postgres.FleetPulse(ctx, tx); err != nil {
			return err
		}
		if r.whole = fresh || began.Sub(s.fleet.verified) >= verifyEvery; r.whole {
			if r.nodes, err = postgres.FleetRead(ctx, tx, nil); err != nil || fresh {
				return err
			}
			r.after, err = postgres.FleetPulse(ctx, tx)
			return err
		}
		if ids := s.fleet.changed(r.pulse); len(ids) > 0 {
			r.nodes, err = postgres.FleetRead(ctx, tx, ids)
		}
		return err
	})
	if err != nil || len(r.waiting) == 0 {
		s.fleet.queued = nil
		return nil, err
	}
	s.metrics.read.Add(float64(len(r.nodes)))
	if r.whole {
		s.fleet.verified = began
	}
	if fresh {
		s.fleet.begin(r, s.cfg.Policy)
	} else {
		for _, id := range s.fleet.take(r) {
			s.metrics.drift.Inc()
			s.log.Error("the scheduler's picture of a node had drifted and is corrected", "node", id.String())
		}
		s.fleet.count(r.waiting)
	}
	s.metrics.look.Observe(time.Since(began).Seconds())
	return r.waiting, nil
}

// changed are the nodes that are to be read again.
func (f *fleet) changed(pulse map[cloud.NodeID]int64) (out []cloud.NodeID) {
	for id, p := range pulse {
		if was, known := f.pulse[id]; !known || was != p {
			out = append(out, id)
		}
	}
	return out
}

// doubt has the nodes of places that were lost read again, whatever their pulse.
func (f *fleet) doubt(list []planned) {
	for _, p := range list {
		delete(f.pulse, p.place.NodeID)
	}
}

// begin makes the board, with the mix that the history tells of.
func (f *fleet) begin(r reading, policy placement.Policy) {
	f.history, f.queued, f.since, f.reweigh = placement.History{}, ids(r.waiting), 0, reweighLeast
	for _, a := range r.asked {
		f.history.Add(placement.Request{Kind: a.Kind, Shape: a.Shape})
	}
	if policy.Mix == nil {
		policy.Mix = f.history.Mix()
	}
	var s placement.Snapshot
	for _, n := range r.nodes {
		s.Nodes = append(s.Nodes, placement.FromNode(n))
	}
	f.board, f.pulse = placement.NewBoard(s, policy), r.pulse
}

// take gives the board what was read, and names the nodes of which it had another
// picture though nothing told of a change.
func (f *fleet) take(r reading) (drifted []cloud.NodeID) {
	var now []placement.Node
	for _, n := range r.nodes {
		p := placement.FromNode(n)
		if !f.board.Differs(p) {
			continue
		}
		was, known := f.pulse[n.ID]
		if pulse := r.pulse[n.ID]; r.whole && known && was == pulse && r.after[n.ID] == pulse {
			drifted = append(drifted, n.ID)
		}
		now = append(now, p)
	}
	gone := slices.DeleteFunc(f.board.IDs(), func(id cloud.NodeID) bool { _, there := r.pulse[id]; return there })
	f.board.Update(now, gone)
	f.pulse = r.pulse
	return drifted
}

// count adds what has come into the queue since the last look to the history.
func (f *fleet) count(waiting []postgres.Waiting) {
	for _, w := range waiting {
		if !f.queued[w.ID] {
			f.history.Add(placement.Request{Kind: w.Kind, Shape: w.Shape})
			f.since++
		}
	}
	f.queued = ids(waiting)
	if f.since >= f.reweigh {
		f.board.Reweigh(f.history.Mix())
		f.since, f.reweigh = 0, min(2*f.reweigh, reweighMost)
	}
}

func ids(waiting []postgres.Waiting) map[cloud.InstanceID]bool {
	out := make(map[cloud.InstanceID]bool, len(waiting))
	for _, w := range waiting {
		out[w.ID] = true
	}
	return out
}
