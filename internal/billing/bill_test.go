package billing

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

func use(from, to string, s cloud.Shape) Usage {
	return Usage{InstanceID: inst, Shape: s, From: clock(from), To: clock(to)}
}

func price(sku string, micros int64, from string) Price { return Price{sku, micros, clock(from)} }

func withModel(s cloud.Shape, model, profile string) cloud.Shape {
	s.GPUModel, s.GPUProfile = model, profile
	if profile != gpu.Whole {
		s.GPUMode = cloud.ModeMIG
	}
	return s
}

func TestC18EachModelAtItsOwnPrice(t *testing.T) {
	t.Parallel()
	a100, card := withModel(h100(1), "a100-80gb", gpu.Whole), h100(1)
	prices := []Price{price("gpu/a100-80gb/whole", 1_200_000, "00:00"), price("gpu/h100-80gb/whole", 3_000_000, "00:00")}
	b := Make(meter(t, event(1, "10:00", cloud.StateRunning, a100), event(2, "10:30", cloud.StateRunning, card), event(3, "10:50", cloud.StateStopped, card)),
		prices, time.Time{}, time.Time{}, BySKU)
	if b.TotalMicros != 600_000+1_000_000 || len(b.Lines) != 2 || b.Lines[0].CostMicros != 600_000 || b.Lines[1].CostMicros != 1_000_000 {
		t.Errorf("%+v", b)
	}
	hour := use("10:00", "11:00", card)
	if d := hour.To.Sub(hour.From); d != 3600*time.Second || GPUHours([]Usage{hour}).RatString() != "1" {
		t.Errorf("10:00:00 to 11:00:00 is %s", d)
	}
	slice := use("10:00", "11:00", withModel(h100(1), "h100-80gb", "1g"))
	if got := GPUHours([]Usage{slice}).RatString(); got != "1/8" {
		t.Errorf("one slice for an hour is %s GPU-hours", got)
	}
	a30 := use("10:00", "11:00", withModel(h100(1), "a30-24gb", "2g"))
	if got := GPUHours([]Usage{a30, use("10:00", "11:00", cloud.Shape{VCPU: 4})}).RatString(); got != "1/2" {
		t.Errorf("half an A30 and work without a GPU are %s GPU-hours", got)
	}
}

func TestC20PriceChangeSplitsAnHour(t *testing.T) {
	t.Parallel()
	prices := []Price{price("vcpu", 20_000, "10:30"), price("vcpu", 10_000, "00:00"), price("vcpu", 99_000, "11:00")}
	usage := []Usage{use("10:00", "11:00", cloud.Shape{VCPU: 1})}
	if got := Make(usage, prices, time.Time{}, time.Time{}, ByDay).TotalMicros; got != 15_000 {
		t.Errorf("half at each price: %d", got)
	}
	if err := prices[0].CheckChange(clock("10:30")); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("a price that has started may be edited: %v", err)
	}
	if err := prices[0].CheckChange(clock("10:29")); err != nil {
		t.Errorf("a price that has not started: %v", err)
	}
	before := Make(usage, []Price{price("vcpu", 20_000, "10:30")}, time.Time{}, time.Time{}, ByDay)
	if before.TotalMicros != 10_000 || !before.Lines[0].Unpriced || len(before.Unpriced) != 1 {
		t.Errorf("before the first version nothing is charged, and it is said: %+v", before)
	}
}

func TestC10TheNameChangesNoPrice(t *testing.T) {
	t.Parallel()
	m, err := gpu.ModelByKey("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	costs := map[int64]bool{}
	for _, spelling := range []string{"3g.39gb", "3g.40gb"} {
		class, err := m.Class(spelling)
		if err != nil {
			t.Fatal(err)
		}
		if micros, missing := HourlyMicros(withModel(h100(1), m.Key, class), FirstPrices(day), clock("10:00")); micros == 0 || len(missing) > 0 {
			t.Errorf("%s costs %d, without a price: %v", spelling, micros, missing)
		} else {
			costs[micros] = true
		}
	}
	if len(costs) != 1 {
		t.Errorf("one slice has several prices: %v", costs)
	}
}

func TestSumFirstRoundLast(t *testing.T) {
	t.Parallel()
	// 1000 GB × 0.00013 × 0.5 h is 0.065, here with memory.
	b := Make([]Usage{use("10:00", "10:30", cloud.Shape{MemoryMiB: 1000 * 1024})}, []Price{price("memory_gib", 130, "00:00")}, time.Time{}, time.Time{}, ByDay)
	if b.TotalMicros != 65_000 {
		t.Errorf("%d micro-units, want 65000", b.TotalMicros)
	}
	// Three times a third of a micro-unit is one, not none.
	var thirds []Usage
	for i := range 3 {
		u := use("10:00", "10:20", cloud.Shape{VCPU: 1})
		u.InstanceID = cloud.InstanceID{byte(i)}
		thirds = append(thirds, u)
	}
	b = Make(thirds, []Price{price("vcpu", 1, "00:00")}, time.Time{}, time.Time{}, ByInstance)
	if b.TotalMicros != 1 || len(b.Lines) != 3 || b.Lines[0].CostMicros != 0 {
		t.Errorf("%+v", b)
	}
	for _, c := range []struct{ num, den, want int64 }{{1, 2, 0}, {3, 2, 2}, {5, 2, 2}, {-1, 2, 0}, {-3, 2, -2}, {7, 4, 2}, {5, 4, 1}, {-7, 4, -2}} {
		if got := roundHalfEven(big.NewRat(c.num, c.den)); got != c.want {
			t.Errorf("%d/%d rounds to %d, want %d", c.num, c.den, got, c.want)
		}
	}
	// A large fleet for a year passes 64 bits on the way and still comes out exact.
	year := Usage{Shape: cloud.Shape{VCPU: 1_000_000}, From: day, To: day.Add(365 * 24 * time.Hour)}
	if got := Make([]Usage{year}, []Price{price("vcpu", 10_000, "00:00")}, time.Time{}, time.Time{}, BySKU).TotalMicros; got != 1_000_000*365*24*10_000 {
		t.Errorf("a year of a million vCPUs: %d", got)
	}
}

func TestBillByDayAndInstance(t *testing.T) {
	t.Parallel()
	u := Usage{InstanceID: inst, Shape: cloud.Shape{VCPU: 2}, From: clock("22:00"), To: day.Add(25 * time.Hour), Open: true}
	prices := []Price{price("vcpu", 10_000, "00:00")}
	b := Make([]Usage{u}, prices, time.Time{}, time.Time{}, ByDay)
	got := map[string]string{}
	for _, l := range b.Lines {
		got[l.Day] = fmt.Sprintf("%s h, %d", l.Hours.RatString(), l.CostMicros)
	}
	if diff := cmp.Diff(map[string]string{"2026-11-30": "4 h, 40000", "2026-12-01": "2 h, 20000"}, got); diff != "" {
		t.Error(diff)
	}
	if b.Running != 1 || b.RateMicros != 20_000 {
		t.Errorf("running %d at %d an hour", b.Running, b.RateMicros)
	}
	part := Make([]Usage{u}, prices, clock("23:00"), clock("23:30"), ByInstance)
	if part.TotalMicros != 10_000 || part.Lines[0].InstanceID != inst {
		t.Errorf("half an hour of it: %+v", part)
	}
}

func TestHourlyPriceOfAShape(t *testing.T) {
	t.Parallel()
	s := withModel(h100(1), "h100-80gb", "1g")
	s.VCPU, s.MemoryMiB = 2, 4096
	prices := []Price{price("gpu/h100-80gb/1g", 400_000, "00:00"), price("vcpu", 10_000, "00:00"), price("memory_gib", 2_000, "00:00")}
	if got, missing := HourlyMicros(s, prices, clock("10:00")); got != 428_000 || len(missing) > 0 {
		t.Errorf("%d, missing %v", got, missing)
	}
	if got, missing := HourlyMicros(s, prices[1:], clock("10:00")); got != 28_000 || len(missing) != 1 {
		t.Errorf("without the slice's price: %d, missing %v", got, missing)
	}
}

func TestFirstPriceList(t *testing.T) {
	t.Parallel()
	list := map[string]int64{}
	for _, p := range FirstPrices(day) {
		if err := ParseSKU(p.SKU); err != nil || p.MicrosPerHour <= 0 || list[p.SKU] != 0 {
			t.Errorf("%+v: %v", p, err)
		}
		list[p.SKU] = p.MicrosPerHour
	}
	for _, m := range gpu.Models() {
		whole := list[GPUSKU(m.Key, gpu.Whole)]
		for _, class := range m.Classes() {
			if got := list[GPUSKU(m.Key, class)]; got <= 0 || got > whole {
				t.Errorf("%s %s costs %d, the card %d", m.Key, class, got, whole)
			}
		}
	}
	if got := list["gpu/h100-80gb/whole"]; got != 2_500_000 {
		t.Errorf("an H100 costs %d", got)
	}
	// Seven small slices cost somewhat more than the card, a plain one less than one with media engines.
	if seven := 7 * list["gpu/h100-80gb/1g"]; seven < 2_500_000 || seven > 3_000_000 || list["gpu/h100-80gb/1g+me"] <= list["gpu/h100-80gb/1g"] {
		t.Errorf("seven slices cost %d", seven)
	}
	for _, bad := range []string{"", "gpu", "gpu/h100-80gb", "gpu/h100-80gb/3g.40gb", "gpu/h300/1g", "gpu/a30-24gb/7g", "cpu", "gpu/h100-80gb/1g/x"} {
		if ParseSKU(bad) == nil {
			t.Errorf("%q passes for a SKU", bad)
		}
	}
	if name, unit := Describe("gpu/h100-80gb/1g2"); name != "H100 80 GB, 1g.20gb slice" || unit != "slice hours" {
		t.Errorf("%s in %s", name, unit)
	}
}

func genUsage(t *rapid.T) []Usage {
	var out []Usage
	for i := range rapid.IntRange(1, 5).Draw(t, "stretches") {
		from := day.Add(time.Duration(rapid.Int64Range(0, int64(72*time.Hour)).Draw(t, "from")))
		s := withModel(h100(rapid.IntRange(0, 3).Draw(t, "devices")), "h100-80gb", rapid.SampledFrom([]string{"whole", "1g", "3g"}).Draw(t, "profile"))
		s.VCPU, s.MemoryMiB = rapid.IntRange(0, 64).Draw(t, "vcpu"), rapid.Int64Range(0, 1<<20).Draw(t, "memory")
		out = append(out, Usage{InstanceID: cloud.InstanceID{byte(i)}, Shape: s, From: from, To: from.Add(time.Duration(rapid.Int64Range(0, int64(60*time.Hour)).Draw(t, "length")))})
	}
	return out
}

func genPrices(t *rapid.T) []Price {
	var out []Price
	for _, sku := range []string{"vcpu", "memory_gib", "gpu/h100-80gb/whole", "gpu/h100-80gb/1g", "gpu/h100-80gb/3g"} {
		for range rapid.IntRange(0, 3).Draw(t, "versions") {
			out = append(out, Price{sku, rapid.Int64Range(0, 5_000_000).Draw(t, "micros"), day.Add(time.Duration(rapid.Int64Range(0, int64(96*time.Hour)).Draw(t, "starts")))})
		}
	}
	return out
}

func TestSplittingNeverChangesTheSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		usage, prices := genUsage(t), genPrices(t)
		at := day.Add(time.Duration(rapid.Int64Range(0, int64(140*time.Hour)).Draw(t, "cut")))
		var cut []Usage
		for _, u := range usage {
			before, after := u.split(at)
			cut = append(cut, before, after)
		}
		whole := Make(usage, prices, time.Time{}, time.Time{}, BySKU)
		for _, by := range []GroupBy{ByDay, ByInstance, BySKU} {
			parts := Make(cut, prices, time.Time{}, time.Time{}, by)
			if parts.TotalMicros != whole.TotalMicros {
				t.Fatalf("cut at %s, by %s: %d, whole %d", at, by, parts.TotalMicros, whole.TotalMicros)
			}
			hours := map[string]*big.Rat{}
			for _, l := range parts.Lines {
				if hours[l.SKU] == nil {
					hours[l.SKU] = new(big.Rat)
				}
				hours[l.SKU].Add(hours[l.SKU], l.Hours)
			}
			for _, l := range whole.Lines {
				if hours[l.SKU] == nil || hours[l.SKU].Cmp(l.Hours) != 0 {
					t.Fatalf("%s: %v hours, whole %v", l.SKU, hours[l.SKU], l.Hours)
				}
			}
		}
		if GPUHours(cut).Cmp(GPUHours(usage)) != 0 {
			t.Fatal("cutting changes the GPU-hours")
		}
		// Two bills that meet at the cut, before rounding: within one rounding each.
		a, b := Make(usage, prices, time.Time{}, at, BySKU), Make(usage, prices, at, time.Time{}, BySKU)
		if d := a.TotalMicros + b.TotalMicros - whole.TotalMicros; d < -1 || d > 1 {
			t.Fatalf("two bills that meet differ by %d", d)
		}
	})
}

// An independent price: second by second, with a plain look-up.
func TestBillAgreesWithCountingSeconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, 3000).Draw(t, "from")
		length := rapid.IntRange(0, 3000).Draw(t, "length")
		vcpu := rapid.IntRange(1, 9).Draw(t, "vcpu")
		var prices []Price
		seen := map[int]bool{}
		for range rapid.IntRange(0, 4).Draw(t, "versions") {
			if s := rapid.IntRange(0, 6000).Draw(t, "starts"); !seen[s] {
				seen[s] = true
				prices = append(prices, Price{"vcpu", rapid.Int64Range(0, 1_000_000).Draw(t, "micros"), day.Add(time.Duration(s) * time.Second)})
			}
		}
		var sum int64
		for s := from; s < from+length; s++ {
			var best *Price
			for i := range prices {
				if p := &prices[i]; !p.StartsAt.After(day.Add(time.Duration(s)*time.Second)) && (best == nil || p.StartsAt.After(best.StartsAt)) {
					best = p
				}
			}
			if best != nil {
				sum += best.MicrosPerHour * int64(vcpu)
			}
		}
		u := Usage{Shape: cloud.Shape{VCPU: vcpu}, From: day.Add(time.Duration(from) * time.Second), To: day.Add(time.Duration(from+length) * time.Second)}
		want := roundHalfEven(big.NewRat(sum, 3600))
		if got := Make([]Usage{u}, prices, time.Time{}, time.Time{}, ByDay).TotalMicros; got != want {
			t.Fatalf("%d, counting seconds %d", got, want)
		}
	})
}

// TestABillSaysWhatWasSimulated: of each line by itself.
func TestABillSaysWhatWasSimulated(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	pretend, genuine := cloud.InstanceID{}.New(), cloud.InstanceID{}.New()
	usage := Intervals([]Segment{
		{InstanceID: pretend, Shape: cloud.Shape{VCPU: 1}, StartedAt: at, EndedAt: new(at.Add(time.Hour)), Simulated: true},
		{InstanceID: genuine, Shape: cloud.Shape{VCPU: 1}, StartedAt: at, EndedAt: new(at.Add(time.Hour))},
	}, nil, nil)
	for _, l := range Make(usage, nil, time.Time{}, time.Time{}, ByInstance).Lines {
		if l.Simulated != (l.InstanceID == pretend) {
			t.Errorf("%s is marked as simulated: %v", l.InstanceID, l.Simulated)
		}
	}
	for _, l := range Make(usage, nil, time.Time{}, time.Time{}, ByDay).Lines {
		if !l.Simulated {
			t.Errorf("a part of %s was simulated", l.SKU)
		}
	}
}
