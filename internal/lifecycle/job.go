package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// jobs carries jobs on: a look at each that has a member that moved, an intent, or
// a time that has come.
func (l *Lifecycle) jobs(ctx context.Context) error {
	var after cloud.JobID
	for {
		var refs []postgres.JobRef
		err := l.cfg.DB.InSystem(ctx, func(tx *postgres.Tx) (err error) {
			refs, err = postgres.JobUnsettled(ctx, tx, after, batchSize)
			return err
		})
		if err != nil || len(refs) == 0 {
			return err
		}
		for _, r := range refs {
			err := l.lookAtJob(ctx, r, false)
			if _, full := postgres.QuotaExceeded(err); full {
				err = l.lookAtJob(ctx, r, true)
			}
			switch {
			case postgres.RowRefused(err):
				l.metrics.broken.Inc()
				l.log.Error("carry on a job", "job", r.ID.String(), "error", err)
			case err != nil:
				return err
			}
		}
		if len(refs) < batchSize {
			return nil
		}
		after = refs[len(refs)-1].ID
	}
}

// lookAtJob takes one step with a job and its members, in one transaction.
func (l *Lifecycle) lookAtJob(ctx context.Context, r postgres.JobRef, noRoom bool) error {
	return l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		if err := postgres.QuotaLock(ctx, tx, []cloud.ProjectID{r.ProjectID}); err != nil {
			return err
		}
		list, err := postgres.JobLock(ctx, tx, r.ID)
		if err != nil || len(list) == 0 {
			return err
		}
		members, err := postgres.JobMembers(ctx, tx, r.ID)
		if err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		s := decideJob(list[0], members, now, noRoom)
		if err := s.moveMembers(ctx, tx, members, now); err != nil {
			return err
		}
		for _, a := range s.attempts {
			if err := postgres.JobAttemptAdd(ctx, tx, s.job, a); err != nil {
				return err
			}
		}
		if err := postgres.JobMemberTries(ctx, tx, s.tries); err != nil {
			return err
		}
		if len(s.events) > 0 {
			tx.Wake(postgres.TopicChange(s.job.ProjectID))
		}
		if err := postgres.EventsAppend(ctx, tx, s.events); err != nil {
			return err
		}
		return postgres.JobSave(ctx, tx, s.job)
	})
}

// moveMembers carries out what a step wants of members, in the order of locks:
// limits, nodes, the members themselves.
func (s *jobStep) moveMembers(ctx context.Context, tx *postgres.Tx, members []postgres.Standing, now time.Time) error {
	byRank := make(map[int]postgres.Standing, len(members))
	for _, m := range members {
		byRank[m.JobRank] = m
	}
	var moves []memberMove
	for _, m := range members {
		if y, ok := s.stop[m.JobRank]; ok {
			moves = append(moves, endMember(m, y, now))
		}
	}
	for _, rank := range s.remove {
		moves = append(moves, removeMember(byRank[rank], now))
	}
	for _, rank := range s.queue {
		moves = append(moves, queueMember(byRank[rank], now))
	}
	if len(moves) == 0 {
		return nil
	}
	amounts := postgres.Amounts{}
	var nodes []cloud.NodeID
	var events []cloud.Event
	for _, m := range moves {
		for r, n := range m.takes {
			amounts[r] += n
		}
		if !m.was.NodeID.IsZero() {
			nodes = append(nodes, m.was.NodeID)
			tx.Wake(postgres.TopicNode(m.was.NodeID))
		}
	}
	if err := postgres.QuotaReserve(ctx, tx, s.job.ProjectID, amounts); err != nil {
		return err
	}
	if err := postgres.NodesTouch(ctx, tx, nodes); err != nil {
		return err
	}
	for i := range moves {
		m := &moves[i]
		events = append(events, postgres.InstanceEvent(&m.now, m.verb, m.message, now, nil))
		var queued *time.Time
		if m.now.State == cloud.StateQueued {
			queued = &now
			tx.Wake(postgres.TopicSchedule)
		}
		if err := postgres.IntentSave(ctx, tx, m.now, queued); err != nil {
			return err
		}
	}
	tx.Wake(postgres.TopicMeter)
	tx.Wake(postgres.TopicChange(s.job.ProjectID))
	return postgres.EventsAppend(ctx, tx, events)
}

// memberMove is what a job does to one member.
type memberMove struct {
	was, now postgres.Standing
	takes    postgres.Amounts // of the limits; negative: gives back
	verb     string
	message  string
}

func moveMember(was postgres.Standing, to cloud.InstanceState, y why, at time.Time) memberMove {
	m := memberMove{was: was, now: was, takes: postgres.Amounts{}, verb: string(to), message: y.message}
	in := &m.now
	in.State, in.StateAt, in.DeadlineAt = to, at, nil
	in.Reason, in.Message, in.Reasons, in.Progress = y.reason, y.message, nil, nil
	in.Generation++
	holds := wantsPlace(to)
	sign := int64(0)
	switch {
	case was.HoldsQuota && !holds:
		sign = -1
	case !was.HoldsQuota && holds:
		sign = 1
	}
	m.takes[cloud.QuotaVCPU] = sign * int64(was.Shape.VCPU)
	m.takes[cloud.QuotaMemoryMiB] = sign * was.Shape.MemoryMiB
	m.takes[cloud.QuotaGPUMilli] = sign * gpuMilli(was.Shape)
	in.HoldsQuota = holds
	return m
}

// endMember stops one that is on a node, and takes one that waits out of the queue.
func endMember(was postgres.Standing, y why, at time.Time) memberMove {
	if !was.State.OnNode() {
		m := moveMember(was, cloud.StateStopped, y, at)
		m.now.Desired = cloud.DesiredStopped
		return m
	}
	m := moveMember(was, cloud.StateStopping, y, at)
	m.now.Desired = cloud.DesiredStopped
	deadline := at.Add(cloud.StopWithin)
	m.now.DeadlineAt = &deadline
	return m
}

func removeMember(was postgres.Standing, at time.Time) memberMove {
	if !was.State.OnNode() {
		m := moveMember(was, cloud.StateDeleted, why{"", "deleted with its job"}, at)
		m.now.Desired, m.now.DeletedAt = cloud.DesiredDeleted, &at
		m.takes[cloud.QuotaInstances] = -1
		return m
	}
	m := moveMember(was, cloud.StateDeleting, why{"", "its node removes it"}, at)
	m.now.Desired = cloud.DesiredDeleted
	deadline := at.Add(cloud.DeleteWithin)
	m.now.DeadlineAt = &deadline
	return m
}

// queueMember queues one again under its own id, for another run.
func queueMember(was postgres.Standing, at time.Time) memberMove {
	m := moveMember(was, cloud.StateQueued, why{}, at)
	m.message = fmt.Sprintf("queued by its job (member %d)", was.JobRank)
	in := &m.now
	none := ""
	in.Desired, in.Reboots, in.StartedAt, in.ExitCode, in.LastLines = cloud.DesiredRunning, 0, nil, nil, &none
	return m
}
