package httpapi

import (
	"context"
	"slices"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

func (s *server) gpuOperations() {
	const tag = "Fleet"
	register(s, operation{method: "GET", path: "/v1/gpus", action: authz.GPUList, tag: tag, summary: "List cards", description: "With what is held of each and what is still free."}, s.gpuList)
	register(s, operation{method: "GET", path: "/v1/gpus/metrics", action: authz.GPUMetrics, tag: tag, summary: "Measure every card now"}, s.gpuMetrics)
	register(s, operation{method: "GET", path: "/v1/gpus/{gpu}", action: authz.GPURead, tag: tag, summary: "Show a card"}, s.gpuGet)
	register(s, operation{method: "GET", path: "/v1/capacity", action: authz.CapacityRead, tag: tag, summary: "Count the cards", description: "One truth: total, healthy, used, free."}, s.capacity)
}

func (s *server) gpuList(ctx context.Context, in *struct {
	Paged
	Node  string `query:"node" maxLength:"100" doc:"Name or id"`
	Model string `query:"model" maxLength:"100"`
	State string `query:"state" enum:"ready,cleaning,needs_reset,quarantined,unhealthy,missing,unknown"`
}) (*out[api.Page[api.GPU]], error) {
	l, err := s.app.GPUList(ctx, call(ctx, ""), app.GPUFilter{Node: in.Node, Model: in.Model, State: cloud.GPUState(in.State)}, in.page())
	return pageOf(l, err, gpuOf)
}

func (s *server) gpuGet(ctx context.Context, in *struct {
	Strict
	GPU string `path:"gpu" maxLength:"100" doc:"Id, UUID or PCI address"`
}) (*tagged[api.GPU], error) {
	g, err := s.app.GPUGet(ctx, call(ctx, ""), in.GPU)
	return taggedGPU(g, err)
}

func (s *server) gpuMetrics(ctx context.Context, _ *struct{ Strict }) (*out[api.GPUMetrics], error) {
	m, err := s.cfg.Gateway.GPUMetrics(ctx, call(ctx, ""))
	if err != nil {
		return nil, err
	}
	return &out[api.GPUMetrics]{Body: m}, nil
}

func (s *server) capacity(ctx context.Context, _ *struct{ Strict }) (*out[api.Capacity], error) {
	line := func(l app.CapacityLine) api.CapacityLine {
		return api.CapacityLine{
			Model: l.Model, ModelName: l.ModelName, Simulated: l.Simulated, Total: l.Total, Healthy: l.Healthy, Used: l.Used, Free: l.Free,
			SlotsTotal: l.SlotsTotal, SlotsUsed: l.SlotsUsed,
		}
	}
	c, err := s.app.Capacity(ctx, call(ctx, ""))
	return oneOf(c, err, func(c app.Capacity) api.Capacity {
		return api.Capacity{Total: line(c.Total), Models: each(c.Models, line)}
	})
}

func gpuOf(g cloud.GPU) api.GPU {
	out := api.GPU{
		ID: g.ID.String(), Node: g.NodeName, NodeID: g.NodeID.String(), UUID: g.UUID, PCIAddress: g.PCIAddress, Index: g.Index,
		Model: g.Model, ModelName: modelName(g.Model), Geometry: g.Geometry, Mode: string(g.Mode), State: string(g.State), Reason: g.Reason,
		MemoryMiB: g.MemoryMiB, NUMANode: g.NUMANode, NVLink: append([]string{}, g.NVLink...), Simulated: g.Simulated, Free: freePlaces(g),
		Claims: each(g.Claims, func(c cloud.Claim) api.Claim {
			return api.Claim{
				GPUID: g.ID.String(), Model: g.Model, ModelName: modelName(g.Model), Mode: string(c.Mode), Profile: c.Profile, ProfileName: gpu.DisplayName(g.Model, c.Profile),
				SlotStart: c.Slots.Start, SlotEnd: c.Slots.End, InstanceID: c.InstanceID.String(), Instance: c.InstanceName, Organisation: c.OrgName,
				Simulated: g.Simulated, CreatedAt: utc(&c.CreatedAt),
			}
		}),
	}
	if geometry, err := gpu.GeometryByName(g.Geometry); err == nil {
		out.Slots = geometry.Slots
	}
	cardFill(&out, g)
	return out
}

// freePlaces lists where a slice could start now; a card out of service, one
// whose node takes nothing and one that is not cut have none.
func freePlaces(g cloud.GPU) []api.FreePlace {
	out := []api.FreePlace{}
	geometry, err := gpu.GeometryByName(g.Geometry)
	if err != nil || g.State != cloud.GPUReady || !g.NodeWell || g.NodeDrained || g.Changing || g.Mode == cloud.ModeWhole {
		return out
	}
	used, fixed := gpu.UsedBy(g.Claims), g.Fixed()
	for _, p := range geometry.Profiles {
		for _, start := range geometry.FreeStarts(used, p.Class) {
			at := p.At(start)
			if fixed != nil && !slices.Contains(fixed, cloud.SlicePlace{Profile: p.Class, SlotStart: at.Start, SlotEnd: at.End}) {
				continue
			}
			out = append(out, api.FreePlace{Profile: p.Class, ProfileName: gpu.DisplayName(g.Model, p.Class), SlotStart: at.Start, SlotEnd: at.End})
		}
	}
	return out
}
