package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
)

func (s *server) priceOperations() {
	const tag = "Offers"
	register(s, operation{method: "GET", path: "/v1/prices", action: authz.PriceList, tag: tag, summary: "List prices", description: "Every version, those to come too."}, s.priceList)
	register(s, operation{method: "POST", path: "/v1/prices", action: authz.PriceCreate, tag: tag, summary: "Add a version of a price",
		description: "Operators only. A version that has started never changes.", status: 201}, s.priceCreate)
}

func (s *server) priceList(ctx context.Context, _ *struct{ Strict }) (*out[api.List[api.Price]], error) {
	l, err := s.app.PriceList(ctx, call(ctx, ""))
	return listOf(l, err, priceVersionOf)
}

func (s *server) priceCreate(ctx context.Context, in *struct {
	Creating
	Body api.PriceCreate
}) (*out[api.Price], error) {
	p := app.PriceInput{SKU: in.Body.SKU, Currency: in.Body.Currency, MicrosPerHour: in.Body.MicrosPerHour}
	if in.Body.StartsAt != nil {
		p.StartsAt = *in.Body.StartsAt
	}
	v, err := s.app.PriceCreate(ctx, call(ctx, in.IdempotencyKey), p)
	return oneOf(v, err, priceVersionOf)
}

func priceVersionOf(p app.Price) api.Price {
	return api.Price{
		ID: p.ID.String(), SKU: p.SKU, Name: p.Name, Unit: p.Unit, Currency: p.Currency, MicrosPerHour: p.MicrosPerHour,
		StartsAt: p.StartsAt.UTC(), Current: p.Current,
	}
}
