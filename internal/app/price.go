package app

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/billing"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const currency = "USD"

// tariff is the price list as billing reads it, and the moment it is read for.
type tariff struct {
	prices []billing.Price
	at     time.Time
}

func tariffAt(rows []postgres.Price, at time.Time) tariff { return tariff{billingPrices(rows), at} }

func billingPrices(rows []postgres.Price) []billing.Price {
	out := make([]billing.Price, len(rows))
	for i, p := range rows {
		out[i] = billing.Price{SKU: p.SKU, MicrosPerHour: p.MicrosPerHour, StartsAt: p.StartsAt}
	}
	return out
}

// rate is what a shape costs per hour; priced is false when part of it has no
// price.
func (t tariff) rate(s cloud.Shape) (micros int64, priced bool) {
	micros, missing := billing.HourlyMicros(s, t.prices, t.at)
	return micros, len(missing) == 0
}

// rates is what an instance costs per hour while it runs, and now: stopped, what
// it keeps costs on, and its place too if it holds it.
func (t tariff) rates(i cloud.Instance) (running, now int64, priced bool) {
	var all, present int64
	for _, v := range i.Volumes {
		if v.State == volumePresent {
			present += v.SizeMiB
		}
		switch {
		case v.Gone:
		case v.NodeID.IsZero():
			all += i.Shape.DiskMiB
		default:
			all += max(v.SizeMiB, i.Shape.DiskMiB) // its size from its next start on
		}
	}
	running, missing := billing.HourlyMicrosWith(i.Shape, all, t.prices, t.at)
	shape := cloud.Shape{}
	if billing.Charged(i.Kind, i.State, holding(i)) {
		shape = i.Shape
	}
	now, _ = billing.HourlyMicrosWith(shape, present, t.prices, t.at)
	return running, now, len(missing) == 0
}

// holding reports that an instance keeps its place while it is stopped, or is on
// its way there; one on a lost node isn't charged.
func holding(i cloud.Instance) bool {
	return i.Held && i.Reason != postgres.ReasonNodeLost || i.State == cloud.StateStopping && i.Reason == postgres.ReasonHold
}

// ratesFor is how long a price list is remembered for answers that only show it.
const ratesFor = 5 * time.Second

type rates struct {
	mu     sync.Mutex
	prices []postgres.Price
	until  time.Time
}

func (r *rates) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Time{}
}

// WithPrice adds to an instance what it costs, for the answer to a change of it.
func (a *App) WithPrice(ctx context.Context, c Call, i cloud.Instance) (InstanceDetail, error) {
	now := a.now()
	a.rates.mu.Lock()
	prices, fresh := a.rates.prices, now.Before(a.rates.until)
	a.rates.mu.Unlock()
	if !fresh {
		err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
			prices, err = postgres.PriceList(ctx, tx)
			return err
		})
		if err != nil {
			return InstanceDetail{}, err
		}
		a.rates.mu.Lock()
		a.rates.prices, a.rates.until = prices, now.Add(ratesFor)
		a.rates.mu.Unlock()
	}
	out := InstanceDetail{Instance: i, Currency: currency, Simulated: i.Simulated}
	out.PricePerHourMicros, out.PriceNowMicros, out.Priced = tariffAt(prices, now).rates(i)
	return out, nil
}

// PriceList lists every version.
func (a *App) PriceList(ctx context.Context, c Call) ([]Price, error) {
	if err := may(c, authz.PriceList, c.Actor.OrgID); err != nil {
		return nil, err
	}
	var rows []postgres.Price
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		rows, err = postgres.PriceList(ctx, tx)
		return err
	})
	now := a.now()
	out := make([]Price, len(rows))
	for i, p := range rows {
		out[i] = priceOf(p)
		out[i].Current = !p.StartsAt.After(now) && (i+1 == len(rows) || rows[i+1].SKU != p.SKU || rows[i+1].StartsAt.After(now))
	}
	return out, err
}

// skuOf settles the names of a card and a profile, as a flavor's are; what it does
// not know is left as it is, to be refused.
func skuOf(sku string) string {
	parts := strings.Split(sku, "/")
	if len(parts) != 3 || parts[0] != "gpu" {
		return sku
	}
	model, err := gpu.ModelByName(parts[1])
	if err != nil {
		return sku
	}
	profile := parts[2]
	if profile != gpu.Whole {
		if profile, err = model.Class(profile); err != nil {
			return sku
		}
	}
	return billing.GPUSKU(model.Key, profile)
}

func priceOf(p postgres.Price) Price {
	name, unit := billing.Describe(p.SKU)
	return Price{ID: p.ID, SKU: p.SKU, Name: name, Unit: unit, Currency: p.Currency, MicrosPerHour: p.MicrosPerHour, StartsAt: p.StartsAt}
}

// PriceCreate adds a version that starts in the future. What has started never
// changes, so that a bill can always be made again.
func (a *App) PriceCreate(ctx context.Context, c Call, in PriceInput) (Price, error) {
	if err := may(c, authz.PriceCreate, c.Actor.OrgID); err != nil {
		return Price{}, err
	}
	var fields []cloud.Field
	in.SKU = skuOf(in.SKU)
	if err := billing.ParseSKU(in.SKU); err != nil {
		fields = append(fields, cloud.Field{Location: "body.sku", Message: err.Error(), Value: in.SKU})
	}
	if in.Currency != "" && in.Currency != currency {
		fields = append(fields, cloud.Field{Location: "body.currency", Message: "prices are in " + currency, Value: in.Currency})
	}
	if in.MicrosPerHour < 0 || in.MicrosPerHour > 1_000_000_000_000 {
		fields = append(fields, cloud.Field{Location: "body.micros_per_hour", Message: "zero to 1,000,000,000,000", Value: in.MicrosPerHour})
	}
	if !in.StartsAt.After(a.now()) {
		fields = append(fields, cloud.Field{Location: "body.starts_at", Message: "must be in the future: what has started never changes", Value: in.StartsAt})
	}
	if len(fields) > 0 {
		return Price{}, cloud.Invalid(fields...)
	}
	return once(ctx, a, c, "price.create", in, func(keep func(*postgres.Tx, Price) error) (Price, error) {
		p := postgres.Price{ID: cloud.PriceID{}.New(), SKU: in.SKU, Currency: currency, MicrosPerHour: in.MicrosPerHour, StartsAt: in.StartsAt}
		out := priceOf(p)
		err := a.inPlatform(ctx, c, authz.PriceCreate, func(tx *postgres.Tx) error {
			if err := postgres.PriceAdd(ctx, tx, p); err != nil {
				if postgres.Constraint(err) == "price_sku_starts_at_key" {
					return cloud.E(cloud.KindConflict, "price_exists", "%s has a price from %s already", in.SKU, in.StartsAt.UTC().Format(time.RFC3339))
				}
				return err
			}
			err := audit(ctx, tx, c, cloud.OrgID{}, authz.PriceCreate, p.ID.String(), map[string]any{"sku": p.SKU, "micros_per_hour": p.MicrosPerHour, "starts_at": p.StartsAt})
			if err != nil {
				return err
			}
			return keep(tx, out)
		})
		a.rates.forget()
		return out, err
	})
}
