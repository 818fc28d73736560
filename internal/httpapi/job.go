package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// JobPath names a job.
type JobPath struct {
	Project string `path:"project" maxLength:"100" doc:"Name or id"`
	Job     string `path:"job" maxLength:"100" doc:"Name or id"`
}

func (s *server) jobOperations() {
	const tag, all = "Jobs", "/v1/projects/{project}/jobs"
	const one = all + "/{job}"
	register(s, operation{method: "GET", path: all, action: authz.JobList, tag: tag, summary: "List jobs", description: "Newest first, without deleted ones unless all is asked for, and without their members."}, s.jobList)
	register(s, operation{method: "POST", path: all, action: authz.JobCreate, tag: tag, summary: "Run a job", status: 201,
		description: "Its members are queued when the answer comes. A gang starts whole or not at all; one whose members meet (more than one, without across_nodes) goes to one node, since nodes' networks are not joined. What could never fit is refused with 422, which says what could."}, s.jobCreate)
	register(s, operation{method: "GET", path: one, action: authz.JobRead, tag: tag, summary: "Show a job", description: "With its members, by rank, and the attempts that are over. Members are instances: their logs and metrics are read under /instances/{instance}."}, s.jobGet)
	register(s, operation{method: "POST", path: one + "/cancel", action: authz.JobCancel, tag: tag, summary: "Cancel a job", status: 202, description: "All members are stopped; the job and its history stay."}, s.jobCancel)
	register(s, operation{method: "DELETE", path: one, action: authz.JobDelete, tag: tag, summary: "Delete a job", status: 202, description: "With its members, running or not; its events and its usage stay."}, s.jobDelete)
	register(s, operation{method: "GET", path: one + "/events", action: authz.JobEvents, tag: tag, summary: "List what happened to a job", description: "Newest first; what happened to each member is told of that instance."}, s.jobEvents)
}

func (s *server) jobList(ctx context.Context, in *struct {
	Paged
	ProjectPath
	State string `query:"state" enum:"queued,starting,running,succeeded,failed,cancelled,deleted" doc:"Only those in this state"`
	All   bool   `query:"all" doc:"Deleted ones too"`
}) (*out[api.Page[api.Job]], error) {
	l, err := s.app.JobList(ctx, call(ctx, ""), in.Project, cloud.JobState(in.State), in.All, in.page())
	return pageOf(l, err, jobOf)
}

func (s *server) jobCreate(ctx context.Context, in *struct {
	Creating
	ProjectPath
	Body api.JobCreate
}) (*tagged[api.Job], error) {
	b := in.Body
	d, err := s.app.JobCreate(ctx, call(ctx, in.IdempotencyKey), in.Project, app.JobInput{
		Name: b.Name, Image: b.Image, Flavor: b.Flavor, Pool: b.Pool, Command: b.Command, Env: b.Env, Labels: b.Labels,
		Members: b.Members, MembersMin: b.MembersMin, Array: b.Array, Parallel: b.Parallel, AcrossNodes: b.AcrossNodes,
		Priority:        cloud.Priority(b.Priority),
		ExpectedSeconds: b.ExpectedSeconds, MaxSeconds: b.MaxSeconds, Retries: b.Retries,
	})
	return taggedJob(d, err)
}

func (s *server) jobGet(ctx context.Context, in *struct {
	Strict
	JobPath
}) (*tagged[api.Job], error) {
	d, err := s.app.JobGet(ctx, call(ctx, ""), in.Project, in.Job)
	return taggedJob(d, err)
}

// JobActing is what cancel and delete take.
type JobActing struct {
	Guarded
	JobPath
}

func (s *server) jobCancel(ctx context.Context, in *JobActing) (*tagged[api.Job], error) {
	g, err := in.generation()
	if err != nil {
		return nil, err
	}
	d, err := s.app.JobCancel(ctx, call(ctx, in.IdempotencyKey), in.Project, in.Job, g)
	return taggedJob(d, err)
}

func (s *server) jobDelete(ctx context.Context, in *JobActing) (*tagged[api.Job], error) {
	g, err := in.generation()
	if err != nil {
		return nil, err
	}
	d, err := s.app.JobDelete(ctx, call(ctx, in.IdempotencyKey), in.Project, in.Job, g)
	return taggedJob(d, err)
}

func (s *server) jobEvents(ctx context.Context, in *struct {
	Paged
	JobPath
}) (*out[api.Page[api.Event]], error) {
	l, err := s.app.JobEvents(ctx, call(ctx, ""), in.Project, in.Job, in.page())
	return pageOf(l, err, eventOf)
}

func taggedJob(d app.JobDetail, err error) (*tagged[api.Job], error) {
	if err != nil {
		return nil, err
	}
	return &tagged[api.Job]{ETag: etag(d.Generation), Body: jobOf(d)}, nil
}

func jobOf(d app.JobDetail) api.Job {
	j := d.Job
	return api.Job{
		ID: j.ID.String(), Name: j.Name, Project: j.ProjectName, ProjectID: j.ProjectID.String(), Image: j.ImageName, Flavor: j.FlavorName, Pool: j.PoolName,
		Shape: shapeOf(d.Shape), Command: j.Command, Env: j.Env, Labels: j.Labels,
		MembersMin: j.MembersMin, MembersMax: j.MembersMax, ArrayTasks: j.ArrayTasks, ArrayParallel: j.ArrayParallel, AcrossNodes: j.AcrossNodes,
		Priority: string(j.Priority), ExpectedSeconds: j.ExpectedSeconds, MaxSeconds: j.MaxSeconds, Retries: j.Retries,
		DesiredState: string(j.Desired), State: string(j.State), Generation: j.Generation, Reason: j.Reason, Message: j.Message, Reasons: each(d.Reasons, reasonOf),
		QueuePlace: d.QueuePlace, Attempt: j.Attempt, Size: j.Size, RetriesUsed: j.RetriesUsed, Simulated: j.Simulated,
		Counts:  api.JobCounts{Waiting: d.Queued, Active: d.Active, Succeeded: d.Succeeded, Failed: d.Failed},
		Members: each(d.Members, jobMemberOf), Attempts: each(d.Attempts, attemptOf),
		PricePerHourMicros: priceOf(d.MemberMicros*int64(d.Active), d.Priced), MemberPriceMicros: priceOf(d.MemberMicros, d.Priced), Currency: d.Currency,
		CreatedBy: idOf(j.CreatedBy), CreatedAt: j.CreatedAt.UTC(), StateAt: j.StateAt.UTC(),
		PlacedAt: utc(j.PlacedAt), StartedAt: utc(j.StartedAt), FinishedAt: utc(j.FinishedAt), DeletedAt: utc(j.DeletedAt),
	}
}

func jobMemberOf(i cloud.Instance) api.JobMember {
	return api.JobMember{
		Rank: i.JobRank, InstanceID: i.ID.String(), Instance: i.Name, State: string(i.State), Reason: i.Reason, Message: i.Message, ExitCode: i.ExitCode,
		Node: i.NodeName, Address: i.Address, StartedAt: utc(i.StartedAt), StateAt: i.StateAt.UTC(),
	}
}

func attemptOf(a cloud.JobAttempt) api.JobTry {
	return api.JobTry{
		Number: a.Number, Rank: a.Rank, Outcome: a.Outcome, Message: a.Message, PlacedAt: utc(a.PlacedAt), StartedAt: utc(a.StartedAt), EndedAt: a.EndedAt.UTC(),
		Members: each(a.Members, func(m cloud.JobMemberEnd) api.JobMemberEnd {
			return api.JobMemberEnd{Rank: m.Rank, State: string(m.State), Reason: m.Reason, Message: m.Message, ExitCode: m.ExitCode}
		}),
	}
}
