package fairshare

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestK1DeservedFirstThenByRankAndWeight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		total int64
		asks  []Ask
		want  []int64
	}{
		{"what is deserved comes first, whatever the weights", 10, []Ask{
			{Deserved: 6, Requested: 8, Limit: Unlimited, Weight: 1}, {Deserved: 2, Requested: 9, Limit: Unlimited, Weight: 100}}, []int64{6, 4}},
		{"nobody gets what it doesn't request", 10, []Ask{
			{Deserved: 6, Requested: 1, Limit: Unlimited, Weight: 1}, {Deserved: 2, Requested: 3, Limit: Unlimited, Weight: 1}}, []int64{1, 3}},
		{"over quota by weight", 12, []Ask{
			{Requested: 100, Limit: Unlimited, Weight: 2}, {Requested: 100, Limit: Unlimited, Weight: 1}}, []int64{8, 4}},
		{"in rounds: what one can't use goes to the others by weight", 12, []Ask{
			{Requested: 2, Limit: Unlimited, Weight: 2}, {Requested: 100, Limit: Unlimited, Weight: 1}, {Requested: 100, Limit: Unlimited, Weight: 1}}, []int64{2, 5, 5}},
		{"a higher rank borrows first", 10, []Ask{
			{Requested: 8, Limit: Unlimited, Weight: 1, Rank: 2}, {Requested: 8, Limit: Unlimited, Weight: 9, Rank: 1}}, []int64{8, 2}},
		{"left-over units by largest remainder", 10, []Ask{
			{Requested: 100, Limit: Unlimited, Weight: 3}, {Requested: 100, Limit: Unlimited, Weight: 3}, {Requested: 100, Limit: Unlimited, Weight: 1}}, []int64{4, 4, 2}},
		{"never above the limit", 10, []Ask{
			{Deserved: 2, Requested: 9, Limit: 3, Weight: 5}, {Requested: 9, Limit: Unlimited, Weight: 1}}, []int64{3, 7}},
		{"without a quota's limit, all that is requested is deserved", 10, []Ask{
			{Deserved: Unlimited, Requested: 7, Limit: Unlimited}, {Requested: 9, Limit: Unlimited, Weight: 1}}, []int64{7, 3}},
		{"no weight, nothing over quota", 10, []Ask{
			{Deserved: 2, Requested: 9, Limit: Unlimited}, {Requested: 3, Limit: Unlimited, Weight: 1}}, []int64{2, 3}},
		{"more is deserved than there is: in proportion", 9, []Ask{
			{Deserved: 12, Requested: 12, Limit: Unlimited}, {Deserved: 6, Requested: 8, Limit: Unlimited}}, []int64{6, 3}},
	} {
		if got := Divide(c.total, c.asks); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

func TestK1NeverTooMuchAndNothingIdleThatIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, 200).Draw(t, "total")
		asks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Ask {
			return Ask{rapid.Int64Range(-1, 30).Draw(t, "deserved"), rapid.Int64Range(0, 50).Draw(t, "requested"),
				rapid.Int64Range(-1, 50).Draw(t, "limit"), float64(rapid.IntRange(0, 4).Draw(t, "weight")), rapid.IntRange(0, 2).Draw(t, "rank")}
		}), 1, 8).Draw(t, "asks")
		got := Divide(total, asks)
		var sum int64
		hungry := false
		for i, a := range asks {
			most := a.Requested
			if a.Limit != Unlimited {
				most = min(most, a.Limit)
			}
			if got[i] < 0 || got[i] > most {
				t.Fatalf("%d got %d of at most %d", i, got[i], most)
			}
			hungry = hungry || got[i] < most && a.Weight > 0
			sum += got[i]
		}
		if sum > total || hungry && sum < total {
			t.Fatalf("%v sum to %d of %d, somebody wants more: %v", got, sum, total, hungry)
		}
	})
}

func TestK2ChildrenDivideTheirParentsShare(t *testing.T) {
	t.Parallel()
	tree := must(t, []int64{100}, []Node{
		{Name: "cloud", Parent: None},
		{Name: "acme", Guaranteed: []int64{40}, Weight: 1},
		{Name: "beta", Guaranteed: []int64{20}, Weight: 1},
		{Name: "acme/vision", Parent: 1, Guaranteed: []int64{30}, Weight: 1},
		{Name: "acme/speech", Parent: 1, Weight: 3},
		{Name: "beta/all", Parent: 2, Weight: 1, Limit: []int64{30}},
	})
	// acme has 40 of right and half of what is left; beta stops at its project's
	// limit, so that acme gets 70: 30 for vision, of the other 40 three quarters
	// for speech.
	if got, want := tree.Divide(0, []int64{0, 0, 0, 90, 90, 90}, 1), []int64{100, 70, 30, 40, 30, 30}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	// In whole GPUs of a thousand milli each; half a one is left.
	halves := must(t, []int64{10_500}, []Node{{Parent: None}, {Name: "a", Weight: 1}, {Name: "b", Weight: 1}})
	if got, want := halves.Divide(0, []int64{0, 9_000, 9_900}, 1000), []int64{10_000, 5_000, 5_000}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

func must(t interface {
	Helper()
	Fatal(...any)
}, capacity []int64, nodes []Node) *Tree {
	t.Helper()
	tree, err := New(nodes, capacity)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
