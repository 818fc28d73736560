package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	gangOnNode  = 64  // each of them reaches every other
	gangAcross  = 256 // members, on several nodes
	arrayTasks  = 1000
	jobRetries  = 100
	secondsMost = 365 * 24 * 3600
)

// JobCreate admits a job with all of its members: checked, counted against the
// project's limits, written and queued in one transaction.
func (a *App) JobCreate(ctx context.Context, c Call, project string, in JobInput) (JobDetail, error) {
	ans, err := answerOf(c, "job.create", struct {
		Project string
		JobInput
	}{project, in})
	if err != nil {
		return JobDetail{}, err
	}
	if ans != nil {
		if out, found, err := replayed[JobDetail](ctx, a, c, ans); found || err != nil {
			return out, err
		}
	}
	w, fields, err := a.jobWish(ctx, c, project, in)
	if err != nil {
		return JobDetail{}, err
	}
	if len(fields) > 0 {
		return JobDetail{}, cloud.Invalid(fields...)
	}
	j := w.job(c, in)
	if err := a.mustFitOneDay(ctx, c, w, j); err != nil {
		return JobDetail{}, err
	}
	admission, err := w.jobAdmission(c, j)
	if err != nil {
		return JobDetail{}, err
	}
	out := JobDetail{Job: j, Shape: w.flavor.Shape, Queued: j.Instances(), Currency: currency}
	for _, m := range admission.Members {
		out.Members = append(out.Members, m.Instance)
	}
	if admission.Idempotency, err = ans.with(out); err != nil {
		return JobDetail{}, err
	}
	err = postgres.JobAdmit(ctx, a.db, admission)
	if err == nil {
		if d, perr := a.WithPrice(ctx, c, admission.Members[0].Instance); perr == nil { // it is done; the price is beside the point
			out.MemberMicros, out.Priced = d.PricePerHourMicros, d.Priced
		}
		return out, nil
	}
	if ans != nil {
		if out, found, again := replayed[JobDetail](ctx, a, c, ans); found {
			return out, again
		}
	}
	if excess, ok := postgres.QuotaExceeded(err); ok {
		return JobDetail{}, quotaError(w.project, excess)
	}
	if postgres.Constraint(err) == "instance_name" {
		return JobDetail{}, cloud.E(cloud.KindConflict, "name_taken", "an instance has a name that a member of job %q would get (%s to %s)",
			in.Name, cloud.MemberName(in.Name, 0), cloud.MemberName(in.Name, j.Instances()-1)).WithHint("choose another name for the job")
	}
	return JobDetail{}, taken(err, "job_name", "job", in.Name)
}

// jobWish checks a request and looks up what it names; all that is wrong is told at
// once.
func (a *App) jobWish(ctx context.Context, c Call, project string, in JobInput) (w wish, fields []cloud.Field, err error) {
	fields = jobFields(in)
	c.IdempotencyKey = ""
	w, _, err = a.wish(ctx, c, project, InstanceInput{Name: in.Name, Kind: cloud.KindContainer, Image: in.Image, Flavor: in.Flavor, Pool: in.Pool,
		Command: in.Command, Env: in.Env, Labels: in.Labels})
	var e *cloud.Error
	if errors.As(err, &e) && e.Kind == cloud.KindInvalid && len(e.Fields) > 0 {
		for _, f := range e.Fields {
			if f.Location == "body.kind" {
				f = cloud.Field{Location: "body.image", Message: "a job runs container images: " + f.Message, Value: in.Image}
			}
			fields = append(fields, f)
		}
		err = nil
	}
	if err == nil && len(fields) == 0 {
		err = may(c, authz.JobCreate, w.project.OrgID)
	}
	return w, fields, err
}

// jobFields checks what makes a job of a request for an instance.
func jobFields(in JobInput) (fields []cloud.Field) {
	bad := func(at, message string, value any) {
		fields = append(fields, cloud.Field{Location: "body." + at, Message: message, Value: value})
	}
	within := func(at string, v *int, least, most int) {
		if v != nil && (*v < least || *v > most) {
			bad(at, fmt.Sprintf("%d to %d", least, most), *v)
		}
	}
	most := gangOnNode
	if in.AcrossNodes {
		most = gangAcross
	}
	within("members", in.Members, 1, most)
	within("array", in.Array, 1, arrayTasks)
	within("parallel", in.Parallel, 1, arrayTasks)
	within("expected_seconds", in.ExpectedSeconds, 1, secondsMost)
	within("max_seconds", in.MaxSeconds, 1, secondsMost)
	within("retries", &in.Retries, 0, jobRetries)
	members := 1
	if in.Members != nil {
		members = *in.Members
	}
	switch {
	case in.MembersMin == nil:
	case in.Members == nil:
		bad("members_min", "says how few of `members` will do: give members too", *in.MembersMin)
	case *in.MembersMin < 1 || *in.MembersMin > members:
		bad("members_min", "1 to members", *in.MembersMin)
	}
	if in.Array != nil {
		if in.Members != nil || in.MembersMin != nil {
			bad("array", "a job is a gang (members) or an array of tasks, not both: each task of an array is one instance", *in.Array)
		}
		if in.AcrossNodes {
			bad("across_nodes", "for gangs: the tasks of an array run wherever there is a place anyway", true)
		}
	}
	if in.Parallel != nil && in.Array == nil {
		bad("parallel", "for arrays: how many of the tasks run at once", *in.Parallel)
	}
	if in.ExpectedSeconds != nil && in.MaxSeconds != nil && *in.MaxSeconds < *in.ExpectedSeconds {
		bad("max_seconds", fmt.Sprintf("at least the %d that are expected: it would be ended before it is done", *in.ExpectedSeconds), *in.MaxSeconds)
	}
	switch in.Priority {
	case "", cloud.PriorityLow, cloud.PriorityNormal, cloud.PriorityHigh:
	default:
		bad("priority", "low, normal or high", in.Priority)
	}
	switch in.Tier {
	case "", cloud.TierInteractive, cloud.TierBatch:
	default:
		bad("tier", "interactive or batch", in.Tier)
	}
	if last := max(members, deref(in.Array)) - 1; last > 0 && len(in.Name)+1+len(strconv.Itoa(last)) > 63 && cloud.ValidName(in.Name) {
		bad("name", fmt.Sprintf("too long for its members' names, such as %s: at most 63 characters", cloud.MemberName(in.Name, last)), in.Name)
	}
	return fields
}

func deref(v *int) int {
	if v == nil {
		return 0
	}
	return *v
}

// job is the request with its defaults.
func (w wish) job(c Call, in JobInput) cloud.Job {
	j := cloud.Job{
		ID: cloud.JobID{}.New(), OrgID: w.project.OrgID, ProjectID: w.project.ID, ProjectName: w.project.Name, Name: in.Name,
		ImageID: w.image.ID, ImageName: w.image.Name, FlavorID: w.flavor.ID, FlavorName: w.flavor.Name, PoolName: w.pool.Name, Simulated: w.pool.Simulated,
		Command: in.Command, Env: in.Env, Labels: in.Labels,
		MembersMin: 1, MembersMax: 1, ArrayTasks: deref(in.Array), AcrossNodes: in.AcrossNodes,
		Priority: cmp.Or(in.Priority, cloud.PriorityNormal), Tier: cmp.Or(in.Tier, cloud.TierBatch), Spot: in.Spot,
		ExpectedSeconds: in.ExpectedSeconds, MaxSeconds: in.MaxSeconds, Retries: in.Retries,
		Desired: cloud.JobWanted, Generation: 1, State: cloud.JobQueued, StateAt: w.at, Attempt: 1, CreatedBy: c.Actor.UserID, CreatedAt: w.at,
	}
	if in.Members != nil {
		j.MembersMin, j.MembersMax = *in.Members, *in.Members
	}
	if in.MembersMin != nil {
		j.MembersMin = *in.MembersMin
	}
	if j.ArrayTasks > 0 {
		j.ArrayParallel = j.ArrayTasks
		if in.Parallel != nil {
			j.ArrayParallel = min(*in.Parallel, j.ArrayTasks)
		}
	}
	return j
}

// jobAdmission is everything that is written for a new job. Of an array, only as
// many tasks as run at once take of the limits; the others follow them.
func (w wish) jobAdmission(c Call, j cloud.Job) (postgres.JobAdmission, error) {
	one, err := takes(w.flavor.Shape)
	if err != nil {
		return postgres.JobAdmission{}, cloud.Invalid(cloud.Field{Location: "body.flavor", Message: err.Error(), Value: w.in.Flavor})
	}
	begin := j.MembersMax
	if j.ArrayTasks > 0 {
		begin = j.ArrayParallel
	}
	a := postgres.JobAdmission{Job: j, PoolID: w.pool.ID, ImageOrg: w.image.OrgID, Takes: postgres.Amounts{cloud.QuotaInstances: int64(j.Instances())}}
	for r, n := range one {
		a.Takes[r] = n * int64(begin)
	}
	for rank := range j.Instances() {
		in := w
		in.in.Name = cloud.MemberName(j.Name, rank)
		// A job's own loop says what a lost member means: the node never restarts one
		// by itself, and gives it back when it is fenced.
		in.in.OnNodeLoss, in.in.OnReboot = cloud.LossRestarts, cloud.RebootFails
		m, err := in.admission(c)
		if err != nil {
			return a, err
		}
		m.Instance.JobID, m.Instance.JobName, m.Instance.JobRank = j.ID, j.Name, rank
		if rank >= begin {
			m.Instance.State, m.Instance.Reason = cloud.StateStopped, postgres.ReasonTurn
			m.Instance.Message = fmt.Sprintf("waits for its turn: at most %d of its job's tasks run at once", j.ArrayParallel)
			m.Event.Data["state"], m.Event.Data["reason"] = string(cloud.StateStopped), postgres.ReasonTurn
		}
		a.Members = append(a.Members, m)
	}
	standing := postgres.JobStanding{ID: j.ID, OrgID: j.OrgID, ProjectID: j.ProjectID, State: j.State, Attempt: 1}
	a.Event = postgres.JobEvent(&standing, "created", "asked for by "+c.Actor.Email, w.at, map[string]any{"flavor": w.flavor.Name, "image": w.image.Name, "members": j.Instances()})
	a.Audit = auditRow(c, j.OrgID, authz.JobCreate, j.ID.String(), map[string]any{"name": j.Name, "flavor": w.flavor.Name, "image": w.image.Name, "members": j.Instances()})
	return a, nil
}

// mustFitOneDay refuses a gang that no part of its pool could ever hold, and says how
// many could be.
func (a *App) mustFitOneDay(ctx context.Context, c Call, w wish, j cloud.Job) error {
	var nodes []postgres.FleetNode
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		nodes, err = postgres.FleetFree(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	fleet := snapshot(nodes, w.pool.Name)
	never := func(members int) bool {
		r := placement.Request{InstanceID: cloud.InstanceID{}.New(), Org: w.project.OrgID, Kind: cloud.KindContainer, Shape: w.flavor.Shape, Pool: w.pool.Name, Order: math.MaxInt64}
		if j.AcrossNodes {
			r.Count = members
		} else {
			r.Shape.GPUCount *= members
			r.Shape.VCPU *= members
			r.Shape.MemoryMiB *= int64(members)
		}
		plan := placement.Decide(fleet, []placement.Request{r}, placement.Policy{})
		return len(plan.Decisions) > 0 && plan.Decisions[0].Refusal != nil && plan.Decisions[0].Refusal.NeverFits
	}
	if !never(j.MembersMin) {
		return nil
	}
	low, high := 0, j.MembersMin
	for low+1 < high {
		if mid := (low + high) / 2; never(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	most := low
	where := "one node"
	if j.AcrossNodes {
		where = "all nodes together"
	}
	field := cloud.Field{Location: "body.members", Value: j.MembersMin,
		Message: fmt.Sprintf("%s of pool %q could never hold %d members of flavor %q, were they empty: at most %d", where, w.pool.Name, j.MembersMin, w.flavor.Name, most)}
	hint := "take fewer members or a smaller flavor"
	switch {
	case most == 0:
		field = cloud.Field{Location: "body.flavor", Value: w.in.Flavor, Message: fmt.Sprintf("no node of pool %q could ever take flavor %q", w.pool.Name, w.flavor.Name)}
		hint = "take another flavor or pool"
	case !j.AcrossNodes:
		hint += "; or, if they need not find each other by name, let them lie on several nodes (across_nodes)"
	}
	return cloud.Invalid(field).WithHint("%s", hint).With("most_members", most)
}
