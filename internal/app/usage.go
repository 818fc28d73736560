package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/billing"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	usageDefaultFor = 30 * 24 * time.Hour
	usageMaximumFor = 366 * 24 * time.Hour
)

// Usage bills a project's segments at the prices of their time.
func (a *App) Usage(ctx context.Context, c Call, project string, q UsageQuery) (UsageReport, error) {
	if q.To.IsZero() {
		q.To = a.now()
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-usageDefaultFor)
	}
	if q.GroupBy == "" {
		q.GroupBy = string(billing.ByDay)
	}
	var fields []cloud.Field
	if !q.From.Before(q.To) || q.To.Sub(q.From) > usageMaximumFor {
		fields = append(fields, cloud.Field{Location: "query.from", Message: "before to, by at most 366 days", Value: q.From})
	}
	by := billing.GroupBy(q.GroupBy)
	switch by {
	case billing.ByDay, billing.ByInstance, billing.BySKU:
	default:
		fields = append(fields, cloud.Field{Location: "query.group_by", Message: "one of day, instance, sku", Value: q.GroupBy})
	}
	if len(fields) > 0 {
		return UsageReport{}, cloud.Invalid(fields...)
	}
	var rows []postgres.UsageSegment
	var volumes []postgres.UsageVolume
	var prices []postgres.Price
	err := a.inProject(ctx, c, authz.UsageRead, project, func(tx *postgres.Tx, p cloud.Project) (err error) {
		if rows, err = postgres.UsageSegments(ctx, tx, p.ID, q.From, q.To); err != nil {
			return err
		}
		if volumes, err = postgres.UsageVolumes(ctx, tx, p.ID, q.From, q.To); err != nil {
			return err
		}
		prices, err = postgres.PriceList(ctx, tx)
		return err
	})
	if err != nil {
		return UsageReport{}, err
	}
	names := map[cloud.InstanceID]string{}
	proven := map[cloud.SegmentID]time.Time{}
	segments := make([]billing.Segment, len(rows))
	var corrections []billing.Correction
	for i, r := range rows {
		names[r.InstanceID], proven[r.ID] = r.InstanceName, r.ProvenUntil
		segments[i] = billing.Segment{ID: r.ID, InstanceID: r.InstanceID, Kind: r.Kind, State: r.State, Shape: r.Shape, StartedAt: r.StartedAt, EndedAt: r.EndedAt, Simulated: r.Simulated}
		if r.Corrected != 0 {
			corrections = append(corrections, billing.Correction{SegmentID: r.ID, By: r.Corrected})
		}
	}
	usage := billing.Intervals(segments, corrections, func(s billing.Segment) time.Time { return proven[s.ID] })
	for _, v := range volumes {
		names[v.InstanceID] = v.InstanceName
		u := billing.Usage{InstanceID: v.InstanceID, VolumeMiB: v.SizeMiB, From: v.StartedAt, To: a.now(), Open: v.EndedAt == nil, Simulated: v.Simulated}
		if v.EndedAt != nil {
			u.To = *v.EndedAt
		}
		if u.To.After(u.From) {
			usage = append(usage, u)
		}
	}
	bill := billing.Make(usage, billingPrices(prices), q.From, q.To, by)
	out := UsageReport{From: q.From, To: q.To, GroupBy: q.GroupBy, Currency: currency, TotalMicros: bill.TotalMicros,
		Running: bill.Running, RateMicros: bill.RateMicros, Unpriced: bill.Unpriced}
	if q.From.After(a.now()) {
		out.Running, out.RateMicros = 0, 0 // what runs now may not run then
	}
	for _, l := range bill.Lines {
		name, unit := billing.Describe(l.SKU)
		hours, _ := l.Hours.Float64()
		out.Lines = append(out.Lines, UsageLine{Day: l.Day, InstanceID: l.InstanceID, InstanceName: names[l.InstanceID],
			SKU: l.SKU, Name: name, Quantity: hours, Unit: unit, CostMicros: l.CostMicros, Simulated: l.Simulated})
	}
	return out, nil
}
