package httpapi

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func (s *server) usageOperations() {
	register(s, operation{method: "GET", path: "/v1/projects/{project}/usage", action: authz.UsageRead, tag: "Usage", summary: "Show what was used and what it cost",
		description: "By the second, between two times; the last 30 days when they are absent."}, s.usage)
}

func (s *server) usage(ctx context.Context, in *struct {
	Strict
	ProjectPath
	From    time.Time `query:"from" doc:"RFC 3339; inclusive"`
	To      time.Time `query:"to" doc:"RFC 3339; exclusive"`
	GroupBy string    `query:"group_by" enum:"day,instance,sku" default:"day"`
}) (*out[api.Usage], error) {
	if !in.From.IsZero() && !in.To.IsZero() && !in.From.Before(in.To) {
		return nil, cloud.Invalid(cloud.Field{Location: "query.to", Message: "must be after from", Value: in.To})
	}
	r, err := s.app.Usage(ctx, call(ctx, ""), in.Project, app.UsageQuery{From: in.From, To: in.To, GroupBy: in.GroupBy})
	return oneOf(r, err, func(r app.UsageReport) api.Usage {
		return api.Usage{
			From: r.From.UTC(), To: r.To.UTC(), GroupBy: r.GroupBy, Currency: r.Currency, TotalMicros: r.TotalMicros,
			Running: r.Running, RatePerHourMicros: r.RateMicros, Unpriced: r.Unpriced,
			Items: each(r.Lines, func(l app.UsageLine) api.UsageLine {
				return api.UsageLine{
					Day: l.Day, InstanceID: idOf(l.InstanceID), Instance: l.InstanceName, SKU: l.SKU, Name: l.Name,
					Quantity: l.Quantity, Unit: l.Unit, CostMicros: l.CostMicros, Simulated: l.Simulated,
				}
			}),
		}
	})
}
