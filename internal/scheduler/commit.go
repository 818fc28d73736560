package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// planned is a place that was decided on and is not yet taken.
type planned struct {
	waiting postgres.Waiting
	place   placement.Assignment
}

// commit takes places in one transaction and gives how many it got. One that is
// no longer free, or whose instance has changed its mind, costs only itself.
func (s *Scheduler) commit(ctx context.Context, list []planned) (int, error) {
	began := time.Now()
	var kept []planned
	err := s.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		kept = nil
		locked, err := lock(ctx, tx, list)
		if err != nil {
			return err
		}
		var taken []planned
		var claims []postgres.NewClaim
		for _, p := range list {
			mine, ok := check(&locked, p)
			if !ok {
				continue
			}
			taken = append(taken, p)
			claims = append(claims, mine...)
		}
		got, err := postgres.ClaimsInsert(ctx, tx, claims)
		if err != nil {
			return err
		}
		for _, p := range taken {
			id := p.waiting.ID
			if got[id] == len(p.place.Devices) {
				kept = append(kept, p)
			} else if err := postgres.ClaimsDrop(ctx, tx, id, locked.Instances[id].Epoch+1); err != nil {
				return err
			}
		}
		var left []cloud.NodeID
		if kept, left, err = withData(ctx, tx, locked, kept); err != nil {
			return err
		}
		return place(ctx, tx, locked, kept, left)
	})
	if err != nil {
		return 0, fmt.Errorf("commit %d placements: %w", len(list), err)
	}
	s.metrics.commit.Observe(time.Since(began).Seconds())
	s.metrics.batch.Observe(float64(len(list)))
	now := time.Now()
	for _, p := range kept {
		s.metrics.wait.Observe(max(0, now.Sub(p.waiting.QueuedAt).Seconds()))
	}
	return len(kept), nil
}

func lock(ctx context.Context, tx *postgres.Tx, list []planned) (postgres.PlacementLocked, error) {
	var instances []cloud.InstanceID
	var nodes []cloud.NodeID
	var cards []cloud.GPUID
	for _, p := range list {
		instances = append(instances, p.waiting.ID)
		nodes = append(nodes, p.place.NodeID)
		for _, d := range p.place.Devices {
			cards = append(cards, d.GPUID)
		}
	}
	return postgres.PlacementLock(ctx, tx, instances, nodes, cards)
}

// check books a place in what is locked, if all that the plan rested on still
// holds. Slots are checked by the database when they are claimed.
func check(l *postgres.PlacementLocked, p planned) ([]postgres.NewClaim, bool) {
	inst, ok := l.Instances[p.waiting.ID]
	if !ok || inst.State != cloud.StateQueued || inst.Desired != cloud.DesiredRunning || inst.Generation != p.waiting.Generation {
		return nil, false
	}
	room := l.Nodes[p.place.NodeID]
	if !room.Open || room.VCPU < int64(inst.Shape.VCPU) || room.MemoryMiB < inst.Shape.MemoryMiB {
		return nil, false
	}
	claims := make([]postgres.NewClaim, len(p.place.Devices))
	for i, d := range p.place.Devices {
		card := l.Cards[d.GPUID]
		if !card.Ready || card.NodeID != p.place.NodeID || card.Mode != d.Mode {
			return nil, false
		}
		claims[i] = postgres.NewClaim{Geometry: card.Geometry, Claim: cloud.Claim{
			ID: fresh(cloud.ClaimID{}), GPUID: d.GPUID, OrgID: inst.OrgID, ProjectID: inst.ProjectID, InstanceID: inst.ID,
			Epoch: inst.Epoch + 1, Mode: d.Mode, Profile: d.Profile, Slots: d.Slots,
		}}
	}
	room.VCPU -= int64(inst.Shape.VCPU)
	room.MemoryMiB -= inst.Shape.MemoryMiB
	l.Nodes[p.place.NodeID] = room
	return claims, true
}

// withData gives what the instances keep to the nodes that they go to. One whose
// data turns out to lie elsewhere goes nowhere. left: nodes that should have made
// something and no longer do.
func withData(ctx context.Context, tx *postgres.Tx, l postgres.PlacementLocked, list []planned) (kept []planned, left []cloud.NodeID, err error) {
	places := map[cloud.InstanceID]cloud.NodeID{}
	for _, p := range list {
		if p.waiting.Kind != cloud.KindContainer {
			places[p.waiting.ID] = p.place.NodeID
		}
	}
	elsewhere, left, err := postgres.VolumesPlace(ctx, tx, places)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range elsewhere {
		if err := postgres.ClaimsDrop(ctx, tx, id, l.Instances[id].Epoch+1); err != nil {
			return nil, nil, err
		}
	}
	return slices.DeleteFunc(list, func(p planned) bool { return slices.Contains(elsewhere, p.waiting.ID) }), left, nil
}

// place moves the instances to their nodes: state, event, assignment.
func place(ctx context.Context, tx *postgres.Tx, l postgres.PlacementLocked, list []planned, left []cloud.NodeID) error {
	if len(list)+len(left) == 0 {
		return nil
	}
	var placed []cloud.InstanceID
	var moved []postgres.Standing
	var events []cloud.Event
	nodes := map[cloud.NodeID]bool{}
	for _, id := range left {
		nodes[id] = true
	}
	projects := map[cloud.ProjectID]bool{}
	for _, p := range list {
		inst := l.Instances[p.waiting.ID]
		inst.State, inst.StateAt = cloud.StateStarting, l.Now
		deadline := l.Now.Add(cloud.StartWithin)
		inst.DeadlineAt = &deadline
		inst.NodeID, inst.Epoch = p.place.NodeID, inst.Epoch+1
		inst.Reason, inst.Message, inst.Reasons = "", "placed; its node prepares it", nil
		inst.Progress, inst.ExitCode, inst.StartedAt = nil, nil, nil
		none := ""
		inst.LastLines, inst.Address = &none, ""
		found := "a place was found"
		if why := p.place.Topology; why != "" {
			found += ": " + why
		}
		event := postgres.InstanceEvent(&inst, "placed", found, l.Now, map[string]any{"node_id": p.place.NodeID.String()})
		placed, moved, events = append(placed, inst.ID), append(moved, inst), append(events, event)
		nodes[p.place.NodeID] = true
		projects[inst.ProjectID] = true
	}
	if err := postgres.ObservationForget(ctx, tx, placed); err != nil {
		return err
	}
	if err := postgres.StandingSave(ctx, tx, moved); err != nil {
		return err
	}
	if err := postgres.EventsAppend(ctx, tx, events); err != nil {
		return err
	}
	ids := make([]cloud.NodeID, 0, len(nodes))
	for id := range nodes {
		ids = append(ids, id)
		tx.Wake(postgres.TopicNode(id))
	}
	for id := range projects {
		tx.Wake(postgres.TopicChange(id))
	}
	tx.Wake(postgres.TopicMeter)
	return postgres.NodesTouch(ctx, tx, ids)
}

// fresh makes an id of the kind of its argument.
func fresh[R cloud.Resource](cloud.ID[R]) cloud.ID[R] { return cloud.NewID[R]() }
