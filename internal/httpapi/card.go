package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// GPUPath names a card.
type GPUPath struct {
	Strict
	GPU string `path:"gpu" maxLength:"100" doc:"Id, UUID or PCI address"`
}

func (s *server) cardOperations() {
	const tag = "Fleet"
	register(s, operation{method: "PATCH", path: "/v1/gpus/{gpu}", action: authz.GPUUpdate, tag: tag, summary: "Say what a card is to be",
		description: "Its mode, and for one that MIG cuts its layout. Its node makes it so and reports what it reads back; until then nothing new is placed on it. Refused while anything of it is held; with If-Match, when somebody else has said something since; without, while another change of it is under way."}, s.gpuUpdate)
	register(s, operation{method: "PATCH", path: "/v1/nodes/{node}/gpus", action: authz.NodeGPUsUpdate, tag: tag, summary: "Say what several cards of a node are to be",
		description: "Each by itself: one that can't be changed keeps nothing from the others, and has its problem in its result."}, s.nodeGPUsUpdate)
	register(s, operation{method: "POST", path: "/v1/gpus/{gpu}/recover", action: authz.GPURecover, tag: tag, summary: "Have a card checked and offered again", status: 200,
		description: "For one that is quarantined, unhealthy, missing or waits for a reset. Its node checks it; only one that passes is offered again."}, s.gpuRecover)
	register(s, operation{method: "GET", path: "/v1/gpus/{gpu}/incidents", action: authz.GPUIncidents, tag: tag, summary: "List what went wrong with a card", description: "Newest first; at most 200."}, s.gpuIncidents)
}

func (s *server) cardLifeOperations() {
	const tag = "Fleet"
	register(s, operation{method: "GET", path: "/v1/gpus/{gpu}/history", action: authz.GPUHistory, tag: tag, summary: "List who held a card, and when",
		description: "Newest first. A card that was forgotten is found by its id or UUID."}, s.gpuHistory)
	register(s, operation{method: "POST", path: "/v1/gpus/{gpu}/simulate-fault", action: authz.GPUFault, tag: tag, summary: "Have a simulated card show a fault", status: 200,
		description: "Its node reports it as it would a real one: an incident, an alarm, what becomes of the card and of who holds it. Recover the card afterwards. Refused for a real card."}, s.gpuFault)
	register(s, operation{method: "POST", path: "/v1/gpus/{gpu}/forget", action: authz.GPUForget, tag: tag, summary: "Give a card up that was taken out", status: 204,
		description: "It leaves the count; who held it stays known. Refused while anything of it is held, or its node still sees it."}, s.gpuForget)
}

func (s *server) gpuHistory(ctx context.Context, in *struct {
	Paged
	GPU string `path:"gpu" maxLength:"100" doc:"Id, UUID or PCI address"`
}) (*out[api.Page[api.GPUStay]], error) {
	l, err := s.app.CardHistory(ctx, call(ctx, ""), in.GPU, in.page())
	return pageOf(l, err, func(x cloud.GPUStay) api.GPUStay {
		return api.GPUStay{
			ID: x.ID.String(), GPUID: x.GPUID.String(), InstanceID: x.InstanceID.String(), Instance: x.InstanceName, Organisation: x.OrgName, Epoch: x.Epoch,
			Mode: string(x.Mode), Profile: x.Profile, ProfileName: gpu.DisplayName(x.Model, x.Profile), SlotStart: x.Slots.Start, SlotEnd: x.Slots.End,
			From: x.From.UTC(), To: utc(x.To),
		}
	})
}

func (s *server) gpuFault(ctx context.Context, in *struct {
	GPUPath
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"The same key again gives the first answer"`
	Body           api.GPUFault
}) (*out[api.GPU], error) {
	g, err := s.app.CardFault(ctx, call(ctx, in.IdempotencyKey), in.GPU, in.Body.XID)
	return oneOf(g, err, gpuOf)
}

func (s *server) gpuForget(ctx context.Context, in *GPUPath) (*none, error) {
	return nil, s.app.CardForget(ctx, call(ctx, ""), in.GPU)
}

// DryRun asks only what would be.
type DryRun struct {
	DryRun bool `query:"dry_run" doc:"Say what would be, and change nothing"`
}

func (s *server) gpuUpdate(ctx context.Context, in *struct {
	GPUPath
	DryRun
	IfMatch string `header:"If-Match" maxLength:"64" doc:"The ETag that it must still have; otherwise 412"`
	Body    api.GPUUpdate
}) (*tagged[api.GPU], error) {
	want := cardInput(in.Body)
	want.DryRun = in.DryRun.DryRun
	var err error
	if want.Revision, err = matched(in.IfMatch, 0); err != nil {
		return nil, err
	}
	g, err := s.app.CardSet(ctx, call(ctx, ""), in.GPU, want)
	return taggedGPU(g, err)
}

// taggedGPU is a card with the revision of its wish as its ETag.
func taggedGPU(g cloud.GPU, err error) (*tagged[api.GPU], error) {
	if err != nil {
		return nil, err
	}
	return &tagged[api.GPU]{ETag: etag(g.Revision), Body: gpuOf(g)}, nil
}

func (s *server) nodeGPUsUpdate(ctx context.Context, in *struct {
	NodePath
	DryRun
	Body api.NodeGPUsUpdate
}) (*out[api.List[api.GPUUpdateResult]], error) {
	list := each(in.Body.GPUs, func(u api.NamedGPUUpdate) app.NamedCardInput {
		in := app.NamedCardInput{GPU: u.GPU, CardInput: cardInput(u.GPUUpdate)}
		in.Revision = u.Revision
		return in
	})
	results, err := s.app.CardsSet(ctx, call(ctx, ""), in.Node, list, in.DryRun.DryRun)
	return listOf(results, err, func(r app.CardResult) api.GPUUpdateResult {
		out := api.GPUUpdateResult{GPU: r.GPU, Applied: r.Err == nil && !in.DryRun.DryRun}
		if r.Err != nil {
			out.Problem = &answerOf(ctx, r.Err).Problem
			return out
		}
		card := gpuOf(r.Card)
		out.Card = &card
		return out
	})
}

func cardInput(u api.GPUUpdate) app.CardInput {
	in := app.CardInput{Shares: u.Shares, VGPUType: u.VGPUType}
	if u.Mode != "" {
		mode := cloud.GPUMode(u.Mode)
		in.Mode = &mode
	}
	if u.Layout != nil {
		layout := each(*u.Layout, func(e api.LayoutEntry) app.LayoutEntry { return app.LayoutEntry(e) })
		in.Layout = &layout
	}
	return in
}

func (s *server) gpuRecover(ctx context.Context, in *struct {
	GPUPath
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"The same key again gives the first answer"`
}) (*out[api.GPU], error) {
	g, err := s.app.CardRecover(ctx, call(ctx, in.IdempotencyKey), in.GPU)
	return oneOf(g, err, gpuOf)
}

func (s *server) gpuIncidents(ctx context.Context, in *GPUPath) (*out[api.List[api.GPUIncident]], error) {
	l, err := s.app.IncidentList(ctx, call(ctx, ""), in.GPU)
	return listOf(l, err, func(x cloud.Incident) api.GPUIncident {
		return api.GPUIncident{ID: x.ID, Kind: x.Kind, XID: x.XID, Action: x.Action, Message: x.Message, InstanceID: idOf(x.InstanceID), At: x.At.UTC(), ReceivedAt: x.ReceivedAt.UTC()}
	})
}

// cardFill adds what an operator may change of a card, and what its node says.
func cardFill(out *api.GPU, g cloud.GPU) {
	place := func(p cloud.SlicePlace) api.GPUPlace {
		return api.GPUPlace{Profile: p.Profile, ProfileName: gpu.DisplayName(g.Model, p.Profile), SlotStart: p.SlotStart, SlotEnd: p.SlotEnd}
	}
	out.Vendor, out.Device, out.Driver = g.Vendor, g.Device, g.Driver
	out.Modes = each(g.Modes, func(m cloud.GPUMode) string { return string(m) })
	out.Companions, out.Bundle = append([]string{}, g.Companions...), append([]string{}, g.Bundle...)
	out.NotForVM = g.NotForVM
	out.VGPUTypes = each(g.VGPUTypes, func(t cloud.VGPUType) api.VGPUType { return api.VGPUType(t) })
	out.Slices = each(g.Slices, func(s cloud.Slice) api.GPUSlice {
		return api.GPUSlice{GPUPlace: place(cloud.SlicePlace{Profile: s.Profile, SlotStart: s.SlotStart, SlotEnd: s.SlotEnd}), UUID: s.UUID, Foreign: s.Foreign, MemoryMiB: s.MemoryMiB}
	})
	out.Missing = each(g.Missing, place)
	out.Profiles = profilesOf(g.Model)
	out.Changing, out.WishReason, out.Revision = g.Changing, wishReason(g), g.Revision
	out.Checking = g.Recover > g.Recovered
	if g.Wish.Mode != "" {
		out.Wish = &api.GPUWish{Mode: string(g.Wish.Mode), Layout: each(g.Wish.Layout, place), Shares: g.Wish.Shares, VGPUType: g.Wish.VGPUType, WishedAt: utc(g.WishedAt)}
	}
}

// wishReason says why a card is not yet what it is wished to be: what its node last
// said of that, unless nobody can act on it now.
func wishReason(g cloud.GPU) string {
	switch {
	case g.Changing && g.State == cloud.GPUMissing:
		return "its node no longer sees the card; it waits for the card's return"
	case g.Changing && !g.NodeWell:
		return "its node does not answer, or is fenced; it waits for the node's return"
	}
	return g.WishReason
}

// profilesOf lists what MIG can cut a model into.
func profilesOf(key string) []api.GPUProfile {
	model, err := gpu.ModelByKey(key)
	if err != nil {
		return []api.GPUProfile{}
	}
	geometry, err := gpu.GeometryByName(model.Geometry)
	if err != nil {
		return []api.GPUProfile{}
	}
	return each(geometry.Profiles, func(p gpu.Profile) api.GPUProfile {
		return api.GPUProfile{Profile: p.Class, ProfileName: gpu.DisplayName(key, p.Class), Slots: p.Slots, Max: p.Max}
	})
}
