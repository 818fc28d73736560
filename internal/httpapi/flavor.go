package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func (s *server) flavorOperations() {
	const tag = "Offers"
	register(s, operation{method: "GET", path: "/v1/flavors", action: authz.FlavorList, tag: tag, summary: "List flavors", description: "With the price per hour and how many fit now."}, s.flavorList)
	register(s, operation{method: "POST", path: "/v1/flavors", action: authz.FlavorCreate, tag: tag, summary: "Offer a flavor", description: "Operators only.", status: 201}, s.flavorCreate)
	register(s, operation{method: "DELETE", path: "/v1/flavors/{flavor}", action: authz.FlavorDelete, tag: tag, summary: "Stop offering a flavor",
		description: "Operators only. What runs with it goes on.", status: 204}, s.flavorDelete)
}

func (s *server) flavorList(ctx context.Context, _ *struct{ Strict }) (*out[api.List[api.Flavor]], error) {
	l, err := s.app.FlavorList(ctx, call(ctx, ""))
	return listOf(l, err, flavorOf)
}

func (s *server) flavorCreate(ctx context.Context, in *struct {
	Creating
	Body api.FlavorCreate
}) (*out[api.Flavor], error) {
	b := in.Body
	f, err := s.app.FlavorCreate(ctx, call(ctx, in.IdempotencyKey), app.FlavorInput{
		Name: b.Name, Description: b.Description, Shape: cloud.Shape{
			GPUCount: b.GPUCount, GPUModel: b.GPUModel, GPUMode: cloud.GPUMode(b.GPUMode), GPUProfile: b.GPUProfile,
			VCPU: b.VCPU, MemoryMiB: b.MemoryMiB, DiskMiB: b.DiskMiB,
		},
	})
	return oneOf(f, err, flavorOf)
}

func (s *server) flavorDelete(ctx context.Context, in *struct {
	Strict
	Flavor string `path:"flavor" maxLength:"100" doc:"Name or id"`
}) (*none, error) {
	return nil, s.app.FlavorRetire(ctx, call(ctx, ""), in.Flavor)
}

func flavorOf(f app.FlavorOffer) api.Flavor {
	out := api.Flavor{
		ID: f.ID.String(), Name: f.Name, Description: f.Description, Shape: shapeOf(f.Shape),
		PricePerHourMicros: priceOf(f.PricePerHourMicros, f.Priced), Currency: f.Currency,
		FreeNow: f.FreeNow, FreeSimulatedNow: f.FreeSimulated, Served: f.Served, ServedSimulated: f.ServedSimulated, CreatedAt: f.CreatedAt.UTC(),
	}
	out.GPUMemoryMiB, out.GPUSMs = f.GPUMemoryMiB, f.GPUSMs
	out.Kinds = each(f.Kinds, func(k app.KindOffer) api.FlavorKind {
		return api.FlavorKind{Kind: string(k.Kind), FreeNow: k.FreeNow, FreeSimulatedNow: k.FreeSimulated, Served: k.Served, ServedSimulated: k.ServedSimulated}
	})
	return out
}
