package billing

import (
	"bytes"
	"cmp"
	"math/big"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// GroupBy says what the lines of a bill are about.
type GroupBy string

const (
	ByDay      GroupBy = "day" // UTC
	ByInstance GroupBy = "instance"
	BySKU      GroupBy = "sku"
)

// Line is usage of one SKU in one group.
type Line struct {
	Day        string           // with ByDay
	InstanceID cloud.InstanceID // with ByInstance
	SKU        string
	Hours      *big.Rat // unit-hours, exact
	CostMicros int64    // of its priced part, rounded once
	Unpriced   bool     // part of it has no price
	Simulated  bool     // part of it was simulated
}

// Bill is the lines with their sum. The total is rounded once from the exact
// sum, so it may differ from the sum of the rounded lines by a few millionths.
type Bill struct {
	Lines       []Line // by day, instance, then SKU
	TotalMicros int64
	RateMicros  int64    // what is still open costs per hour at the last prices in force
	Running     int      // instances' segments that are open
	Unpriced    []string // SKUs of which some usage has no price, sorted
}

// unit-nanoseconds × micro-units per hour ÷ these are micro-units.
const nanosPerHour = int64(time.Hour)

type group struct {
	day      string
	instance cloud.InstanceID
	sku      string
}

// sums of one group: whole numbers, divided once at the end.
type sums struct {
	per      int64
	quantity big.Int // parts × nanoseconds
	cost     big.Int // parts × nanoseconds × micro-units per hour
	unpriced bool
	pretend  bool
}

// Make bills what lies in [from, to) (a zero bound is none). A price change
// splits a stretch at its instant.
func Make(usage []Usage, prices []Price, from, to time.Time, by GroupBy) Bill {
	b := newBook(prices)
	groups := map[group]*sums{}
	var bill Bill
	rate := new(big.Rat)
	for _, u := range usage {
		if u.Open && u.VolumeMiB == 0 && (to.IsZero() || to.After(u.From)) {
			bill.Running++
		}
		if u.Open && (to.IsZero() || to.After(u.From)) {
			b.addRate(rate, u)
		}
		for rest := u.clip(from, to); !rest.empty(); {
			part := rest
			if by == ByDay {
				part, rest = rest.split(nextDay(rest.From))
			} else {
				rest = Usage{}
			}
			for _, i := range items(u.Shape, u.VolumeMiB) {
				g := group{sku: i.sku}
				switch by {
				case ByDay:
					g.day = Day(part.From)
				case ByInstance:
					g.instance = u.InstanceID
				}
				s := groups[g]
				if s == nil {
					s = &sums{per: i.per}
					groups[g] = s
				}
				s.pretend = s.pretend || part.Simulated
				s.add(part, i.units, b[i.sku])
			}
		}
	}
	total := new(big.Rat)
	for g, s := range groups {
		cost := s.over(&s.cost)
		total.Add(total, cost)
		bill.Lines = append(bill.Lines, Line{
			Day: g.day, InstanceID: g.instance, SKU: g.sku,
			Hours: s.over(&s.quantity), CostMicros: roundHalfEven(cost), Unpriced: s.unpriced, Simulated: s.pretend,
		})
		if s.unpriced && !slices.Contains(bill.Unpriced, g.sku) {
			bill.Unpriced = append(bill.Unpriced, g.sku)
		}
	}
	slices.SortFunc(bill.Lines, func(x, y Line) int {
		return cmp.Or(cmp.Compare(x.Day, y.Day), bytes.Compare(x.InstanceID[:], y.InstanceID[:]), cmp.Compare(x.SKU, y.SKU))
	})
	slices.Sort(bill.Unpriced)
	bill.TotalMicros, bill.RateMicros = roundHalfEven(total), roundHalfEven(rate)
	return bill
}

// add counts one stretch, version by version of the price.
func (s *sums) add(u Usage, units int64, versions []Price) {
	var part, factor big.Int
	count := func(from, to time.Time, micros int64, priced bool) {
		if !from.Before(to) {
			return
		}
		part.Mul(part.SetInt64(int64(to.Sub(from))), factor.SetInt64(units))
		s.quantity.Add(&s.quantity, &part)
		if !priced {
			s.unpriced = true
			return
		}
		s.cost.Add(&s.cost, part.Mul(&part, factor.SetInt64(micros)))
	}
	at, micros, priced := u.From, int64(0), false
	for _, v := range versions {
		if v.StartsAt.Before(u.To) && v.StartsAt.After(at) {
			count(at, v.StartsAt, micros, priced)
			at = v.StartsAt
		}
		if !v.StartsAt.After(at) {
			micros, priced = v.MicrosPerHour, true
		}
	}
	count(at, u.To, micros, priced)
}

func (s *sums) over(n *big.Int) *big.Rat {
	return new(big.Rat).SetFrac(n, new(big.Int).Mul(big.NewInt(nanosPerHour), big.NewInt(s.per)))
}

func (b book) addRate(rate *big.Rat, u Usage) {
	for _, i := range items(u.Shape, u.VolumeMiB) {
		if micros, ok := b.at(i.sku, u.To); ok {
			n := new(big.Int).Mul(big.NewInt(i.units), big.NewInt(micros))
			rate.Add(rate, new(big.Rat).SetFrac(n, big.NewInt(i.per)))
		}
	}
}
