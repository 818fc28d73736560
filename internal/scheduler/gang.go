package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// gang is the members of a job that are placed in one transaction, or not at all.
type gang struct {
	job     postgres.WaitingJob
	members []postgres.Waiting // by rank, from 0, without holes
	size    int                // how many of them are asked for now
}

// gangs takes the members of gangs out of what waits, and gives one request for
// each gang in place of theirs. A gang of which too few members wait is left out:
// others of it have not ended yet, or the read ended in the midst of it.
func gangs(waiting []postgres.Waiting) (alone []postgres.Waiting, whole map[cloud.InstanceID]*gang) {
	byJob := map[cloud.JobID][]postgres.Waiting{}
	var jobs []cloud.JobID
	for _, w := range waiting {
		if w.Job == nil {
			alone = append(alone, w)
			continue
		}
		if byJob[w.Job.ID] == nil {
			jobs = append(jobs, w.Job.ID)
		}
		byJob[w.Job.ID] = append(byJob[w.Job.ID], w)
	}
	whole = map[cloud.InstanceID]*gang{}
	for _, id := range jobs {
		members := byJob[id]
		slices.SortFunc(members, func(a, b postgres.Waiting) int { return a.Job.Rank - b.Job.Rank })
		n := 0
		for n < len(members) && members[n].Job.Rank == n {
			n++
		}
		job := *members[0].Job
		if n = min(n, job.Max); n < job.Min {
			continue
		}
		whole[members[0].ID] = &gang{job: job, members: members[:n], size: n}
	}
	return alone, whole
}

// request is the gang as the engine sees it. On one node, its members are one
// request with all that they need together: a place for it is a place for each of
// them, and there is none that holds only some.
func (g *gang) request() placement.Request {
	w := g.members[0]
	r := placement.Request{InstanceID: w.ID, Org: w.OrgID, Kind: w.Kind, Shape: w.Shape, Pool: w.Pool, Priority: w.Priority, Order: w.QueuedAt.UnixMicro()}
	if g.job.AcrossNodes {
		r.Count = g.size
		return r
	}
	r.Shape.GPUCount *= g.size
	r.Shape.VCPU *= g.size
	r.Shape.MemoryMiB *= int64(g.size)
	return r
}

// places gives each member its part of what the engine found.
func (g *gang) places(found []placement.Assignment) []planned {
	out := make([]planned, g.size)
	each := g.members[0].Shape.GPUCount
	for i := range out {
		out[i] = planned{waiting: g.members[i]}
		if g.job.AcrossNodes {
			out[i].place = found[i]
			continue
		}
		out[i].place = found[0]
		out[i].place.Devices = found[0].Devices[i*each : (i+1)*each]
	}
	return out
}

// decide plans for what waits. A gang that may be smaller than it would like and
// finds no place gets as many members as fit, found by halving.
func decide(board *placement.Board, requests []placement.Request, whole map[cloud.InstanceID]*gang) placement.Plan {
	plan := board.Try(requests)
	at := map[cloud.InstanceID]int{}
	for i, r := range requests {
		at[r.InstanceID] = i
	}
	fits, not := map[cloud.InstanceID]int{}, map[cloud.InstanceID]int{}
	for {
		changed := false
		for _, d := range plan.Decisions {
			g := whole[d.InstanceID]
			if g == nil || g.job.Min == len(g.members) || d.Refusal == nil && g.size == len(g.members) {
				continue
			}
			if not[d.InstanceID] == 0 {
				fits[d.InstanceID] = g.job.Min - 1
			}
			was := g.size
			if d.Refusal == nil {
				fits[d.InstanceID] = max(fits[d.InstanceID], was)
			} else if not[d.InstanceID] == 0 || was < not[d.InstanceID] {
				not[d.InstanceID] = was
			}
			low, high := fits[d.InstanceID], not[d.InstanceID]
			g.size = max(g.job.Min, (low+high)/2) // low once they meet
			if g.size != was {
				changed = true
				requests[at[d.InstanceID]] = g.request()
			}
		}
		if !changed {
			return plan
		}
		plan = board.Try(requests)
	}
}

var errRace = errors.New("a member's place is no longer free")

// commitGang takes the places of all members and moves their job, in one
// transaction. If one of them is lost, nothing is kept.
func (s *Scheduler) commitGang(ctx context.Context, g *gang, list []planned) (bool, error) {
	began := time.Now()
	err := s.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		job, waits, err := postgres.JobPlacing(ctx, tx, g.job.ID)
		if err != nil {
			return err
		}
		if !waits {
			return errRace
		}
		locked, err := lock(ctx, tx, list)
		if err != nil {
			return err
		}
		var claims []postgres.NewClaim
		for _, p := range list {
			mine, ok := check(&locked, p)
			if !ok {
				return errRace
			}
			claims = append(claims, mine...)
		}
		got, err := postgres.ClaimsInsert(ctx, tx, claims)
		if err != nil {
			return err
		}
		for _, p := range list {
			if got[p.waiting.ID] != len(p.place.Devices) {
				return errRace
			}
		}
		if err := place(ctx, tx, locked, list, nil); err != nil {
			return err
		}
		return placeJob(ctx, tx, job, list, locked.Now)
	})
	if errors.Is(err, errRace) {
		return false, nil
	}
	if err == nil {
		s.metrics.commit.Observe(time.Since(began).Seconds())
		s.metrics.batch.Observe(float64(len(list)))
	}
	return err == nil, err
}

func placedText(members, wanted, nodes int) string {
	text := "places were found for all its members"
	switch {
	case wanted == 1:
		text = "a place was found"
	case members < wanted:
		text = fmt.Sprintf("places were found for %d of its %d members, which is enough", members, wanted)
	}
	if nodes > 1 {
		text += fmt.Sprintf(", on %d nodes", nodes)
	}
	return text
}

// placeJob moves the job with its members, and looks at it once more at once: what
// of it was left out goes out of the queue.
func placeJob(ctx context.Context, tx *postgres.Tx, job postgres.JobStanding, list []planned, now time.Time) error {
	nodes := map[cloud.NodeID]bool{}
	for _, p := range list {
		nodes[p.place.NodeID] = true
	}
	job.State, job.StateAt, job.PlacedAt, job.Size = cloud.JobStarting, now, &now, len(list)
	job.Reason, job.Message, job.LookAt = "", "", &now
	event := postgres.JobEvent(&job, "placed", placedText(len(list), job.MembersMax, len(nodes)), now, map[string]any{"size": len(list), "nodes": len(nodes)})
	if err := postgres.EventsAppend(ctx, tx, []cloud.Event{event}); err != nil {
		return err
	}
	tx.Wake(postgres.TopicLifecycle)
	tx.Wake(postgres.TopicChange(job.ProjectID))
	return postgres.JobSave(ctx, tx, job)
}
