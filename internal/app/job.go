package app

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const jobAttemptsShown = 50

// JobInput asks for a job.
type JobInput struct {
	Name            string
	Image           string
	Flavor          string
	Pool            string
	Command         []string
	Env             map[string]string
	Labels          map[string]string
	Members         *int
	MembersMin      *int
	Array           *int
	Parallel        *int
	AcrossNodes     bool
	Priority        cloud.Priority
	Tier            cloud.Tier
	Spot            bool
	ExpectedSeconds *int
	MaxSeconds      *int
	Retries         int
}

// JobDetail is a job as its pages show it.
type JobDetail struct {
	cloud.Job
	Shape                             cloud.Shape
	Reasons                           []Reason
	QueuePlace                        int // of its first waiting member
	Queued, Active, Succeeded, Failed int
	Currency                          string
	Priced                            bool
	MemberMicros                      int64 // per hour, of one member
	Members                           []cloud.Instance
	Attempts                          []cloud.JobAttempt
}

func jobDetail(row postgres.Job, now tariff) JobDetail {
	out := JobDetail{Job: row.Job, Shape: row.Shape, Queued: row.Queued, Active: row.Active, Succeeded: row.Succeeded, Failed: row.Failed, Currency: currency}
	if row.State == cloud.JobQueued && row.Job.Message == "" {
		out.Message = row.Waiting
		if json.Unmarshal(row.Reasons, &out.Reasons) != nil {
			out.Reasons = nil // for display only
		}
	}
	out.MemberMicros, out.Priced = now.rate(row.Shape)
	return out
}

// JobList lists a project's jobs, newest first.
func (a *App) JobList(ctx context.Context, c Call, project string, state cloud.JobState, deleted bool, p Page) (List[JobDetail], error) {
	limit, err := p.size()
	if err != nil {
		return List[JobDetail]{}, err
	}
	before, err := afterID(cloud.JobID{}, p)
	if err != nil {
		return List[JobDetail]{}, err
	}
	var rows []JobDetail
	err = a.inProject(ctx, c, authz.JobList, project, func(tx *postgres.Tx, p cloud.Project) error {
		list, err := postgres.JobList(ctx, tx, p.ID, state, deleted, before, limit+1)
		if err != nil {
			return err
		}
		prices, err := postgres.PriceList(ctx, tx)
		if err != nil {
			return err
		}
		now := tariffAt(prices, a.now())
		rows = make([]JobDetail, len(list))
		for i, row := range list {
			rows[i] = jobDetail(row, now)
		}
		return nil
	})
	return paged(rows, limit, func(j JobDetail) string { return j.ID.String() }), err
}

// JobGet shows one with its members and its history.
func (a *App) JobGet(ctx context.Context, c Call, project, job string) (out JobDetail, err error) {
	err = a.inProject(ctx, c, authz.JobRead, project, func(tx *postgres.Tx, p cloud.Project) error {
		out, err = a.jobGet(ctx, tx, p.ID, job)
		return err
	})
	return out, err
}

func (a *App) jobGet(ctx context.Context, tx *postgres.Tx, project cloud.ProjectID, job string) (out JobDetail, err error) {
	row, err := postgres.JobGet(ctx, tx, project, postgres.RefOf(cloud.JobID{}, job))
	if err != nil {
		return out, notFound(err, "job", job)
	}
	prices, err := postgres.PriceList(ctx, tx)
	if err != nil {
		return out, err
	}
	out = jobDetail(row, tariffAt(prices, a.now()))
	members, err := postgres.JobInstances(ctx, tx, row.ID)
	if err != nil {
		return out, err
	}
	for _, m := range members {
		out.Members = append(out.Members, m.Instance)
	}
	if out.Attempts, err = postgres.JobAttempts(ctx, tx, row.ID, jobAttemptsShown); err != nil {
		return out, err
	}
	if row.State == cloud.JobQueued && !row.First.IsZero() {
		out.QueuePlace, err = postgres.QueuePlace(ctx, tx, row.First)
	}
	return out, err
}

// JobEvents lists what happened to one, newest first.
func (a *App) JobEvents(ctx context.Context, c Call, project, job string, p Page) (List[cloud.Event], error) {
	limit, err := p.size()
	if err != nil {
		return List[cloud.Event]{}, err
	}
	before, err := afterID(cloud.EventID{}, p)
	if err != nil {
		return List[cloud.Event]{}, err
	}
	var rows []cloud.Event
	err = a.inProject(ctx, c, authz.JobEvents, project, func(tx *postgres.Tx, p cloud.Project) error {
		row, err := postgres.JobGet(ctx, tx, p.ID, postgres.RefOf(cloud.JobID{}, job))
		if err != nil {
			return notFound(err, "job", job)
		}
		list, err := postgres.EventListOf(ctx, tx, row.ID.UUID(), before, limit+1)
		rows = make([]cloud.Event, len(list))
		for i, e := range list {
			rows[i] = e.Event
		}
		return err
	})
	return paged(rows, limit, func(e cloud.Event) string { return e.ID.String() }), err
}

// JobCancel stops all members. Asked twice, it is the same intent.
func (a *App) JobCancel(ctx context.Context, c Call, project, job string, ifMatch int64) (JobDetail, error) {
	return a.jobIntent(ctx, c, authz.JobCancel, project, job, ifMatch, cloud.JobWantedCancelled)
}

// JobDelete removes a job with its members. Asked twice, it is the same intent.
func (a *App) JobDelete(ctx context.Context, c Call, project, job string, ifMatch int64) (JobDetail, error) {
	return a.jobIntent(ctx, c, authz.JobDelete, project, job, ifMatch, cloud.JobWantedDeleted)
}

func (a *App) jobIntent(ctx context.Context, c Call, action authz.Action, project, job string, ifMatch int64, desired cloud.JobDesired) (out JobDetail, err error) {
	err = a.inProject(ctx, c, action, project, func(tx *postgres.Tx, p cloud.Project) error {
		id, err := postgres.JobFind(ctx, tx, p.ID, postgres.RefOf(cloud.JobID{}, job))
		if err != nil {
			return notFound(err, "job", job)
		}
		list, err := postgres.JobLock(ctx, tx, id)
		if err != nil || len(list) == 0 || list[0].State == cloud.JobDeleted {
			return cmpErr(err, cloud.NotFound("job", job))
		}
		j := list[0]
		before, err := a.jobGet(ctx, tx, p.ID, id.String())
		if err != nil {
			return err
		}
		if ifMatch != 0 && ifMatch != before.Generation {
			return cloud.E(cloud.KindPrecondition, "generation_changed", "job %q is at generation %d, not %d", j.Name, before.Generation, ifMatch).
				WithHint("look at it again, and decide again").With("generation", before.Generation)
		}
		switch {
		case j.Desired == desired:
			out = before
			return nil
		case desired == cloud.JobWantedCancelled && (j.State.Over() || j.Desired == cloud.JobWantedDeleted):
			state := string(j.State)
			if !j.State.Over() {
				state = "being deleted"
			}
			return cloud.E(cloud.KindConflict, "state_conflict", "job %q is %s: there is nothing to cancel", j.Name, state).
				WithHint("delete it, if it is no longer needed").With("state", string(j.State)).With("allowed", []string{"delete"})
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		verb := map[cloud.JobDesired]string{cloud.JobWantedCancelled: "cancelling", cloud.JobWantedDeleted: "deleting"}[desired]
		event := postgres.JobEvent(&j, verb, "asked for by "+c.Actor.Email, now, nil)
		if err := postgres.JobIntent(ctx, tx, j, desired, now); err != nil {
			return err
		}
		if err := postgres.EventsAppend(ctx, tx, []cloud.Event{event}); err != nil {
			return err
		}
		tx.Wake(postgres.TopicLifecycle)
		tx.Wake(postgres.TopicChange(p.ID))
		if err := audit(ctx, tx, c, j.OrgID, action, id.String(), map[string]any{"name": j.Name, "from": string(j.State)}); err != nil {
			return err
		}
		out, err = a.jobGet(ctx, tx, p.ID, id.String())
		return err
	})
	return out, err
}

// cmpErr is the first error that there is.
func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// notMember refuses what a person may do with an instance and not with a job's
// member, which comes and goes with its job.
func notMember(s postgres.Standing) error {
	if s.JobID.IsZero() {
		return nil
	}
	return cloud.E(cloud.KindConflict, "job_member", "instance %q is member %d of job %q and comes and goes with it", s.Name, s.JobRank, jobNameOf(s)).
		WithHint("cancel or delete the job as a whole: `tenon job cancel %s`, `tenon job delete %s`", jobNameOf(s), jobNameOf(s)).
		With("job_id", s.JobID.String())
}

// jobNameOf is a job's name by its member's.
func jobNameOf(s postgres.Standing) string {
	return s.Name[:max(0, len(s.Name)-len(fmt.Sprintf("-%d", s.JobRank)))]
}
