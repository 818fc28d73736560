package httpapi

import (
	"context"
	"maps"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// InstancePath names an instance.
type InstancePath struct {
	Project  string `path:"project" maxLength:"100" doc:"Name or id"`
	Instance string `path:"instance" maxLength:"100" doc:"Name or id"`
}

func (s *server) instanceOperations() {
	const tag, all = "Instances", "/v1/projects/{project}/instances"
	const one = all + "/{instance}"
	register(s, operation{method: "GET", path: all, action: authz.InstanceList, tag: tag, summary: "List instances", description: "Without deleted ones, unless all is asked for."}, s.instanceList)
	register(s, operation{method: "POST", path: all, action: authz.InstanceCreate, tag: tag, summary: "Create an instance", status: 201,
		description: "It is queued when the answer comes and starts as soon as there is a place; with wait=false a lack of room is refused with 507 instead."}, s.instanceCreate)
	register(s, operation{method: "POST", path: all + ":dry-run", action: authz.InstanceDryRun, tag: tag, summary: "Ask what a create would do", status: 200,
		description: "Price, whether it would start now, and why not. Nothing is kept."}, s.instanceDryRun)
	register(s, operation{method: "GET", path: one, action: authz.InstanceRead, tag: tag, summary: "Show an instance"}, s.instanceGet)
	register(s, operation{method: "DELETE", path: one, action: authz.InstanceDelete, tag: tag, summary: "Delete an instance", status: 202,
		description: "Its guest and its writable layer are removed; its history and its usage stay."}, s.instanceDelete)
	register(s, operation{method: "POST", path: one + "/start", action: authz.InstanceStart, tag: tag, summary: "Start a stopped or failed instance", status: 202,
		description: "It is queued again under the same id; limits are checked again. A VM that held its place starts there at once. Without its GPU it needs none to be free: for reaching its data; so can be started what waits already."}, s.instanceStart)
	register(s, operation{method: "POST", path: one + "/stop", action: authz.InstanceStop, tag: tag, summary: "Stop an instance", status: 202,
		description: "It gives back what it holds; a VM keeps its disk and may hold its place, a notebook keeps its home, a container keeps nothing."}, s.instanceStop)
	register(s, operation{method: "PATCH", path: one, action: authz.InstanceUpdate, tag: tag, summary: "Change an instance",
		description: "Its policies at any time; its flavor while it is stopped and holds nothing, for its next start."}, s.instanceUpdate)
	register(s, operation{method: "POST", path: one + "/restart", action: authz.InstanceRestart, tag: tag, summary: "Restart an instance", status: 202}, s.instanceRestart)
	register(s, operation{method: "GET", path: one + "/events", action: authz.InstanceEvents, tag: tag, summary: "List what happened to an instance", description: "Newest first; also after it was deleted, by its id."}, s.instanceEvents)
}

func (s *server) instanceList(ctx context.Context, in *struct {
	Paged
	ProjectPath
	State string `query:"state" enum:"queued,starting,running,stopping,stopped,failed,deleting,deleted" doc:"Only those in this state"`
	Name  string `query:"name" maxLength:"63" doc:"Exactly this name"`
	All   bool   `query:"all" doc:"Deleted ones too"`
}) (*out[api.Page[api.Instance]], error) {
	l, err := s.app.InstanceList(ctx, call(ctx, ""), in.Project, app.InstanceFilter{State: cloud.InstanceState(in.State), Name: in.Name, All: in.All}, in.page())
	return pageOf(l, err, instanceDetailOf)
}

func (s *server) instanceCreate(ctx context.Context, in *struct {
	Creating
	ProjectPath
	Body api.InstanceCreate
}) (*tagged[api.Instance], error) {
	i, err := s.app.InstanceCreate(ctx, call(ctx, in.IdempotencyKey), in.Project, instanceInput(in.Body))
	return s.taggedInstance(ctx, i, err)
}

func (s *server) instanceDryRun(ctx context.Context, in *struct {
	Strict
	ProjectPath
	Body api.DryRun
}) (*out[api.DryRunResult], error) {
	d, err := s.app.InstanceDryRun(ctx, call(ctx, ""), in.Project, instanceInput(api.InstanceCreate(in.Body)))
	return oneOf(d, err, func(d app.DryRun) api.DryRunResult {
		return api.DryRunResult{
			Flavor:    d.Flavor,
			Instead:   each(d.Instead, func(i app.Instead) api.Instead { return api.Instead(i) }),
			StartsNow: d.StartsNow, PricePerHourMicros: priceOf(d.PricePerHourMicros, d.Priced), Currency: d.Currency,
			FreeNow: d.FreeNow, Ahead: d.Ahead, Reasons: each(d.Reasons, reasonOf), NeverFits: d.NeverFits, Pool: d.Pool, Simulated: d.Simulated,
		}
	})
}

func (s *server) instanceGet(ctx context.Context, in *struct {
	Strict
	InstancePath
}) (*tagged[api.Instance], error) {
	d, err := s.app.InstanceGet(ctx, call(ctx, ""), in.Project, in.Instance)
	if err != nil {
		return nil, err
	}
	return &tagged[api.Instance]{ETag: etag(d.Generation), Body: instanceDetailOf(d)}, nil
}

// Acting is what start, stop, restart and delete take.
type Acting struct {
	Guarded
	InstancePath
}

type instanceAction func(ctx context.Context, c app.Call, project, instance string, ifMatch int64) (cloud.Instance, error)

func (s *server) act(ctx context.Context, in *Acting, do instanceAction) (*tagged[api.Instance], error) {
	g, err := in.generation()
	if err != nil {
		return nil, err
	}
	i, err := do(ctx, call(ctx, in.IdempotencyKey), in.Project, in.Instance, g)
	return s.taggedInstance(ctx, i, err)
}

func (s *server) instanceStart(ctx context.Context, in *struct {
	Acting
	Body *api.InstanceStart
}) (*tagged[api.Instance], error) {
	return s.act(ctx, &in.Acting, func(ctx context.Context, c app.Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
		var how app.StartInput
		if in.Body != nil {
			how.WithoutGPU = in.Body.WithoutGPU
		}
		return s.app.InstanceStart(ctx, c, project, instance, how, ifMatch)
	})
}

func (s *server) instanceStop(ctx context.Context, in *struct {
	Acting
	Body *api.InstanceStop
}) (*tagged[api.Instance], error) {
	return s.act(ctx, &in.Acting, func(ctx context.Context, c app.Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
		var how app.StopInput
		if in.Body != nil {
			how.GPU = cloud.StopPolicy(in.Body.GPU)
		}
		return s.app.InstanceStop(ctx, c, project, instance, how, ifMatch)
	})
}

func (s *server) instanceUpdate(ctx context.Context, in *struct {
	Acting
	Body api.InstanceUpdate
}) (*tagged[api.Instance], error) {
	return s.act(ctx, &in.Acting, func(ctx context.Context, c app.Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
		change := app.InstanceChange{Flavor: in.Body.Flavor, OnStop: (*cloud.StopPolicy)(in.Body.OnStop), OnNodeLoss: (*cloud.LossPolicy)(in.Body.OnNodeLoss), OnReboot: (*cloud.RebootPolicy)(in.Body.OnNodeReboot)}
		return s.app.InstanceUpdate(ctx, c, project, instance, change, ifMatch)
	})
}

func (s *server) instanceRestart(ctx context.Context, in *struct {
	Acting
	Body *api.InstanceRestart // refuses what it would ignore
}) (*tagged[api.Instance], error) {
	return s.act(ctx, &in.Acting, s.app.InstanceRestart)
}

func (s *server) instanceDelete(ctx context.Context, in *Acting) (*tagged[api.Instance], error) {
	return s.act(ctx, in, s.app.InstanceDelete)
}

func (s *server) instanceEvents(ctx context.Context, in *struct {
	Paged
	InstancePath
}) (*out[api.Page[api.Event]], error) {
	l, err := s.app.InstanceEvents(ctx, call(ctx, ""), in.Project, in.Instance, in.page())
	return pageOf(l, err, eventOf)
}

func instanceInput(b api.InstanceCreate) app.InstanceInput {
	in := app.InstanceInput{
		Name: b.Name, Kind: cloud.InstanceKind(b.Kind), Image: b.Image, Flavor: b.Flavor, Pool: b.Pool,
		Command: b.Command, Env: b.Env, Labels: b.Labels, NoWait: b.Wait != nil && !*b.Wait,
		SSHKeys: b.SSHKeys, UserData: b.UserData, OnStop: cloud.StopPolicy(b.OnStop), OnNodeLoss: cloud.LossPolicy(b.OnNodeLoss), OnReboot: cloud.RebootPolicy(b.OnNodeReboot),
	}
	if n := b.GPU; n != nil {
		in.Need = &app.NeedInput{MemoryGiB: n.MemoryGiB, Fraction: n.Fraction, Model: n.Model, ComputeCapability: n.ComputeCapability, Count: n.Count}
	}
	return in
}

func (s *server) taggedInstance(ctx context.Context, i cloud.Instance, err error) (*tagged[api.Instance], error) {
	if err != nil {
		return nil, err
	}
	d, err := s.app.WithPrice(ctx, call(ctx, ""), i)
	if err != nil { // it is done; the price is beside the point
		s.log.WarnContext(ctx, "price of an instance", "instance", i.ID, "error", err)
		d = app.InstanceDetail{Instance: i}
	}
	return &tagged[api.Instance]{ETag: etag(i.Generation), Body: instanceDetailOf(d)}, nil
}

func instanceDetailOf(d app.InstanceDetail) api.Instance {
	i := instanceOf(d.Instance)
	i.PricePerHourMicros, i.Currency = priceOf(d.PricePerHourMicros, d.Priced), d.Currency
	i.PriceNowMicros, i.QueuePlace = priceOf(d.PriceNowMicros, d.Priced), d.QueuePlace
	i.Simulated, i.Reasons = d.Simulated, each(d.Reasons, reasonOf)
	i.GPUs = each(d.Claims, func(h app.HeldDevice) api.Claim {
		return api.Claim{
			GPUID: h.GPUID.String(), Model: h.Model, ModelName: h.ModelName, Mode: string(h.Mode), Profile: h.Profile, ProfileName: h.ProfileName,
			SlotStart: h.Slots.Start, SlotEnd: h.Slots.End, InstanceID: d.ID.String(), Instance: d.Name, Simulated: h.Simulated,
		}
	})
	return i
}

func instanceOf(i cloud.Instance) api.Instance {
	return api.Instance{
		ID: i.ID.String(), Name: i.Name, Project: i.ProjectName, ProjectID: i.ProjectID.String(), Kind: string(i.Kind),
		Image: i.ImageName, ImageID: i.ImageID.String(), ImageDigest: i.ImageDigest, Flavor: i.FlavorName, FlavorID: i.FlavorID.String(),
		Pool: i.PoolName, Shape: shapeOf(i.Shape), Command: i.Command, Env: i.Env, Labels: i.Labels,
		DesiredState: string(i.Desired), State: string(i.State), Generation: i.Generation, ObservedGeneration: i.ObservedGeneration,
		Reason: i.Reason, Message: i.Message, Progress: i.Progress, ExitCode: i.ExitCode, LastLines: i.LastLines,
		Node: i.NodeName, Address: i.Address, Simulated: i.Simulated, CreatedBy: idOf(i.CreatedBy), CreatedAt: i.CreatedAt.UTC(), StartedAt: utc(i.StartedAt),
		StateAt: i.StateAt.UTC(), DeadlineAt: utc(i.DeadlineAt), DeletedAt: utc(i.DeletedAt),
		OnStop: string(i.OnStop), Held: i.Held, OnNodeLoss: string(i.OnNodeLoss), OnNodeReboot: string(i.OnReboot), SSHKeys: i.SSHKeys, IdleSince: utc(i.IdleSince), IdleStopAt: utc(i.IdleStopAt),
		Volumes: each(i.Volumes, volumeOf), JobID: idOf(i.JobID), Job: i.JobName, Rank: rankOf(i),
	}
}

// rankOf is absent for an instance that is no job's member.
func rankOf(i cloud.Instance) *int {
	if i.JobID.IsZero() {
		return nil
	}
	return &i.JobRank
}

func volumeOf(v cloud.Volume) api.Volume {
	return api.Volume{ID: v.ID.String(), Role: string(v.Role), SizeMiB: v.SizeMiB, UsedMiB: v.UsedMiB, State: v.State, Node: v.NodeName, Message: v.Message}
}

// eventOf leaves out which nodes an event is about: those who read a project's events
// could tell from it with whom they share one.
func eventOf(e cloud.Event) api.Event {
	data := maps.Clone(e.Data)
	for _, hidden := range []string{"node_id", "from_node"} {
		delete(data, hidden)
	}
	return api.Event{
		ID: e.ID.String(), Resource: e.Resource, ResourceID: e.ResourceID, Seq: e.Seq, Verb: e.Verb,
		Message: e.Message, At: e.At.UTC(), Data: data,
	}
}
