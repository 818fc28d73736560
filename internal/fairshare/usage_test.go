package fairshare

import (
	"math"
	"testing"
	"time"
)

const day = 24 * time.Hour

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s: %g, not %g", what, got, want)
	}
}

func two(t *testing.T) *Tree {
	return must(t, one(10), []Node{{Parent: None}, {Name: "a", Weight: 1}, {Name: "b", Weight: 1}})
}

func TestS4UsageHalves(t *testing.T) {
	t.Parallel()
	tree := two(t)
	tree.Account(Billing{}, 7*day)
	tree.Run(1, one(2), 1, 0)
	tree.Run(1, one(2), -1, time.Hour)
	had := tree.Usage(1, time.Hour)
	near(t, "after seven days", tree.Usage(1, time.Hour+7*day), had/2)
	near(t, "of all", tree.Usage(0, time.Hour+14*day), had/4)
	// However often it is looked at, the same comes out.
	often := two(t)
	often.Account(Billing{}, 7*day)
	often.Run(1, one(2), 1, 0)
	for now := time.Duration(0); now < time.Hour; now += time.Minute {
		often.Usage(1, now)
	}
	near(t, "looked at every minute", often.Usage(1, time.Hour), had)
}

func TestUsageIsNormalisedToCapacity(t *testing.T) {
	t.Parallel()
	tree := two(t)
	tree.Account(Billing{}, 0)
	tree.Run(1, one(6), 1, 0)
	tree.Run(1, one(6), -1, 4*time.Hour)
	near(t, "24 GPU-hours of 100", tree.Normal(1, 0, 10*time.Hour), 0.24)
	tree = two(t)
	tree.Account(Billing{}, time.Hour)
	tree.Run(2, one(10), 1, 0)
	near(t, "all of it all the time", tree.Normal(2, 0, 5*time.Hour), 1)
}

func TestS6Billing(t *testing.T) {
	t.Parallel()
	// 1 CPU and 60 GB at CPU=1, Mem=0.25.
	sum := Billing{Weights: []float64{1, 0.25, 10}}
	near(t, "sum", sum.Charge([]int64{1, 60}), 16)
	most := Billing{Weights: []float64{1, 0.25, 10}, Most: true, Global: []bool{false, false, true}}
	near(t, "most", most.Charge([]int64{1, 60}), 15)
	near(t, "most with a global one", most.Charge([]int64{1, 60, 2}), 35)
	none := Billing{}
	near(t, "the first resource alone", none.Charge([]int64{3, 60}), 3)
}

// Slurm's example: if an account ranks above its sibling, so do all its users.
func TestS5FairTree(t *testing.T) {
	t.Parallel()
	tree := must(t, one(10), []Node{
		{Name: "root", Parent: None},
		{Name: "a", Weight: 3}, {Name: "b", Weight: 1},
		{Name: "a/1", Parent: 1, Weight: 1}, {Name: "a/2", Parent: 1, Weight: 1},
		{Name: "b/1", Parent: 2, Weight: 1}, {Name: "b/2", Parent: 2, Weight: 1},
	})
	tree.SetUsage(3, 400, 0) // a had 500 of 900 with three quarters of the shares: owed
	tree.SetUsage(4, 100, 0)
	tree.SetUsage(5, 400, 0) // b had 400 with one quarter: not owed
	near(t, "a's level", tree.Level(1, 0), 0.75/(500.0/900))
	near(t, "b's level", tree.Level(2, 0), 0.25/(400.0/900))
	if !math.IsInf(tree.Level(6, 0), 1) {
		t.Error("without usage the level is not infinite")
	}
	got := tree.FairTree(0)
	for leaf, want := range map[int]float64{4: 1, 3: 0.75, 6: 0.5, 5: 0.25} {
		near(t, tree.nodes[leaf].Name, got[leaf], want)
	}

	// Equal accounts merge their children, equal users share a rank.
	tree = must(t, one(10), []Node{
		{Name: "root", Parent: None},
		{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1},
		{Name: "a/1", Parent: 1, Weight: 1}, {Name: "a/2", Parent: 1, Weight: 1},
		{Name: "b/1", Parent: 2, Weight: 1}, {Name: "b/2", Parent: 2, Weight: 1},
	})
	for leaf, used := range map[int]float64{4: 300, 5: 100, 6: 300, 7: 100, 3: 900} {
		tree.SetUsage(leaf, used, 0)
	}
	got = tree.FairTree(0)
	for leaf, want := range map[int]float64{5: 1, 7: 1, 4: 0.6, 6: 0.6, 3: 0.2} {
		near(t, tree.nodes[leaf].Name, got[leaf], want)
	}
}

func TestK9WeightsAreCorrectedByUsage(t *testing.T) {
	t.Parallel()
	tree := must(t, one(10), []Node{{Parent: None}, {Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "idle", Weight: 2}})
	tree.Account(Billing{}, time.Hour)
	tree.Run(1, one(10), 1, 0)
	asks := func(n int) bool { return n != 3 }
	tree.Weigh(1, 0, time.Hour, asks)
	near(t, "a, which had everything", tree.Weight(1), 0.5+0.5-1)
	near(t, "b, which had nothing", tree.Weight(2), 1)
	tree.Weigh(0.5, 0, time.Hour, asks)
	near(t, "a, at half the strength", tree.Weight(1), 0.25)
	tree.Weigh(5, 0, time.Hour, asks)
	near(t, "a, never below nothing", tree.Weight(1), 0)
	tree.Weigh(0, 0, time.Hour, asks)
	near(t, "without strength, the plain weight", tree.Weight(1), 1)
}

func TestQ6EntryPenalty(t *testing.T) {
	t.Parallel()
	tree := must(t, one(10), []Node{{Parent: None}, {Name: "a", Weight: 1}, {Name: "b", Weight: 2}})
	tree.Account(Billing{}, time.Hour)
	tree.Burden(1, one(1), 1, time.Minute, 0)
	near(t, "a pays ahead", tree.Had(1, 0), 60)
	near(t, "which fades like usage", tree.Had(1, time.Hour), 30)
	near(t, "and is no usage", tree.Usage(1, time.Hour), 0)
	tree.Burden(2, one(1), 1, time.Minute, time.Hour)
	near(t, "double the weight, half the penalty", tree.Had(2, time.Hour), 30)
}
