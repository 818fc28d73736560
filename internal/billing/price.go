package billing

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// Price is one version of what a unit-hour of a SKU costs, from StartsAt until
// the next version starts.
type Price struct {
	SKU           string
	MicrosPerHour int64
	StartsAt      time.Time
}

// CheckChange refuses to edit or remove a version that has started.
func (p Price) CheckChange(now time.Time) error {
	if p.StartsAt.After(now) {
		return nil
	}
	return cloud.E(cloud.KindConflict, "price_started", "the price of %s from %s has started and can't change", p.SKU, p.StartsAt.UTC().Format(time.RFC3339)).
		WithHint("add a new version that starts later")
}

// book holds the versions of each SKU, oldest first.
type book map[string][]Price

func newBook(prices []Price) book {
	b := book{}
	for _, p := range prices {
		b[p.SKU] = append(b[p.SKU], p)
	}
	for _, v := range b {
		slices.SortStableFunc(v, func(x, y Price) int {
			return cmp.Or(x.StartsAt.Compare(y.StartsAt), cmp.Compare(x.MicrosPerHour, y.MicrosPerHour))
		})
	}
	return b
}

// at is the version in force; ok is false before the first.
func (b book) at(sku string, t time.Time) (micros int64, ok bool) {
	for _, v := range b[sku] {
		if v.StartsAt.After(t) {
			break
		}
		micros, ok = v.MicrosPerHour, true
	}
	return micros, ok
}

// HourlyMicros is what an hour of a shape costs at prices of one moment, rounded
// once. Missing lists the SKUs that have no price yet; they count as nothing.
func HourlyMicros(s cloud.Shape, prices []Price, at time.Time) (micros int64, missing []string) {
	return HourlyMicrosWith(s, 0, prices, at)
}

// HourlyMicrosWith is HourlyMicros with volumes beside the shape.
func HourlyMicrosWith(s cloud.Shape, volumeMiB int64, prices []Price, at time.Time) (micros int64, missing []string) {
	b := newBook(prices)
	sum := new(big.Rat)
	for _, i := range items(s, volumeMiB) {
		price, ok := b.at(i.sku, at)
		if !ok {
			missing = append(missing, i.sku)
			continue
		}
		n := new(big.Int).Mul(big.NewInt(i.units), big.NewInt(price))
		sum.Add(sum, new(big.Rat).SetFrac(n, big.NewInt(i.per)))
	}
	return roundHalfEven(sum), missing
}

// roundHalfEven is the only place where money is rounded. What an int64 can't
// hold is cut off at its ends: 9.2 million million units of the currency.
func roundHalfEven(r *big.Rat) int64 {
	quo, rem := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int)) // rem >= 0
	switch rem.Lsh(rem, 1).Cmp(r.Denom()) {
	case 1:
		quo.Add(quo, big.NewInt(1))
	case 0:
		if quo.Bit(0) == 1 {
			quo.Add(quo, big.NewInt(1))
		}
	}
	if !quo.IsInt64() {
		if quo.Sign() < 0 {
			return -1 << 63
		}
		return 1<<63 - 1
	}
	return quo.Int64()
}

// The first price list, in micro-units of US dollars per hour.
var wholeMicros = []struct {
	model  string
	micros int64
}{
	{"a10-24gb", 350_000},
	{"a100-40gb", 1_100_000},
	{"a100-80gb", 1_300_000},
	{"a30-24gb", 550_000},
	{"a40-48gb", 450_000},
	{"a800-80gb", 1_200_000},
	{"b200-180gb", 4_500_000},
	{"h100-80gb", 2_500_000},
	{"h100-nvl-94gb", 2_600_000},
	{"h200-141gb", 3_200_000},
	{"h200-nvl-141gb", 3_100_000},
	{"l4-24gb", 400_000},
	{"l40-48gb", 700_000},
	{"l40s-48gb", 850_000},
	{"mi210-64gb", 600_000},
	{"mi300x-192gb", 2_000_000},
	{"rtx-4090-24gb", 400_000},
	{"rtx-5090-32gb", 550_000},
	{"rtx-6000-ada-48gb", 750_000},
	{"t4-16gb", 150_000},
}

// FirstPrices is the list that a new cloud begins with. A slice costs the mean
// of its shares of memory and compute, plus a tenth for what the cut leaves
// unsold, and never more than the card; media engines add a twentieth.
func FirstPrices(startsAt time.Time) []Price {
	out := []Price{{SKUMemoryGiB, 2_000, startsAt}, {SKUVCPU, 10_000, startsAt}, {SKUVolumeGiB, 130, startsAt}}
	for _, w := range wholeMicros {
		out = append(out, Price{GPUSKU(w.model, gpu.Whole), w.micros, startsAt})
		m, err := gpu.ModelByKey(w.model)
		if err != nil {
			continue
		}
		g, err := gpu.GeometryByName(m.Geometry)
		if err != nil {
			continue
		}
		for _, p := range g.Profiles {
			out = append(out, Price{GPUSKU(w.model, p.Class), sliceMicros(w.micros, g, p), startsAt})
		}
	}
	slices.SortFunc(out, func(a, b Price) int { return cmp.Compare(a.SKU, b.SKU) })
	return out
}

func sliceMicros(whole int64, g *gpu.Geometry, p gpu.Profile) int64 {
	share := big.NewRat(int64(p.Slots*g.Compute+p.Compute*g.Slots), int64(2*g.Slots*g.Compute))
	share.Mul(share, big.NewRat(11, 10))
	if p.Media {
		share.Mul(share, big.NewRat(21, 20))
	}
	cents := share.Mul(share, big.NewRat(whole, 1_000)) // thousandths of a dollar
	return min(roundHalfEven(cents)*1_000, whole)
}
