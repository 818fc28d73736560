package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

func TestEqualPartsAreFreeOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]cloud.GPUMode{cloud.ModeShared, cloud.ModeVGPU}).Draw(t, "mode")
		n := rapid.IntRange(2, map[cloud.GPUMode]int{cloud.ModeShared: MaxShares, cloud.ModeVGPU: 32}[mode]).Draw(t, "parts")
		g, err := GeometryByName(Even(mode, n))
		if err != nil {
			t.Fatal(err)
		}
		class := g.Profiles[0].Class
		var u Used
		var claims []cloud.Claim
		for left := n; left > 0; left-- {
			if g.More(u, class) != left || g.Free(u) != left || len(g.FreeStarts(u, class)) != left {
				t.Fatalf("%d more, %d free, starts %v; want %d", g.More(u, class), g.Free(u), g.FreeStarts(u, class), left)
			}
			start := rapid.SampledFrom(g.FreeStarts(u, class)).Draw(t, "start")
			u = g.Take(u, class, start)
			claims = append(claims, cloud.Claim{Profile: class, Slots: cloud.Slots{Start: start, End: start + 1}})
			if g.Fits(u, class, start) || UsedBy(claims) != u {
				t.Fatalf("part %d is held: %+v, by claims %+v", start, u, UsedBy(claims))
			}
		}
		if _, ok := g.BestStart(u, class); ok {
			t.Fatal("a full card has a best start")
		}
	})
	for _, bad := range []string{"share1", "share9", "vgpu0", "vgpu33", "share", "vgpu", "share04", ""} {
		if _, err := GeometryByName(bad); err == nil {
			t.Errorf("%q is a geometry", bad)
		}
	}
}

func TestWhatAFlavorAsksForIsCutFrom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode    cloud.GPUMode
		profile string
		want    string
	}{
		{cloud.ModeMIG, "1g", "mig8/1g mig4/1g"}, {cloud.ModeMIG, "7g", "mig8/7g"}, {cloud.ModeVGPU, "2g", "mig8/2g mig4/2g"},
		{cloud.ModeShared, "share4", "share4/share"}, {cloud.ModeVGPU, "vgpu20", "vgpu20/vgpu"},
		{cloud.ModeShared, "vgpu4", ""}, {cloud.ModeVGPU, "share4", ""}, {cloud.ModeShared, "1g", ""}, {cloud.ModeMIG, "share4", ""}, {cloud.ModeShared, "share", ""},
	} {
		var got []string
		for _, x := range Cuttings(c.mode, c.profile) {
			got = append(got, x.Geometry.Name+"/"+x.Cut.Profile.Class)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s is cut from %v, want %s", c.mode, c.profile, got, c.want)
		}
	}
	for profile, want := range map[string]int64{"share2": 500, "share3": 334, "share8": 125, "vgpu1": 1000, "vgpu32": 32} {
		if got, err := Milli(MIG8, profile); err != nil || got != want {
			t.Errorf("%s counts %d (%v), want %d", profile, got, err, want)
		}
	}
	if n := DisplayName("h100-80gb", "share4"); n != "1/4 share" {
		t.Errorf("share4 is shown as %q", n)
	}
}

func TestGeometryFollowsModeAndModel(t *testing.T) {
	t.Parallel()
	h100, _ := ModelByKey("h100-80gb")
	l40s, _ := ModelByName("NVIDIA L40S")
	for _, c := range []struct {
		m     *Model
		mode  cloud.GPUMode
		parts int
		want  string
	}{
		{h100, cloud.ModeWhole, 0, MIG8}, {h100, cloud.ModeMIG, 0, MIG8}, {h100, cloud.ModeVGPU, 0, MIG8}, {h100, cloud.ModeVGPU, 10, "vgpu10"}, {h100, cloud.ModeShared, 4, "share4"},
		{l40s, cloud.ModeWhole, 0, Plain}, {l40s, cloud.ModeMIG, 0, ""}, {l40s, cloud.ModeVGPU, 0, ""}, {l40s, cloud.ModeVGPU, 12, "vgpu12"}, {l40s, cloud.ModeShared, 9, ""},
	} {
		got, err := c.m.GeometryIn(c.mode, c.parts)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %s with %d parts: %q (%v), want %q", c.m.Key, c.mode, c.parts, got, err, c.want)
		}
		if c.want != "" && !c.m.Takes(c.mode, got) {
			t.Errorf("%s in %s does not take its own %s", c.m.Key, c.mode, got)
		}
	}
	for _, bad := range [][2]string{{"whole", "share4"}, {"shared", "mig8"}, {"shared", "vgpu4"}, {"mig", "mig4"}, {"mig", "plain"}, {"vgpu", "share2"}} {
		if h100.Takes(cloud.GPUMode(bad[0]), bad[1]) {
			t.Errorf("an H100 in %s takes %s", bad[0], bad[1])
		}
	}
}

func TestAnUnknownCardCanBeOfferedWhole(t *testing.T) {
	t.Parallel()
	m, err := ModelByPCI("0x10DE", "ffff")
	if err != nil || m.Key != "pci-10de-ffff" || m.Geometry != Plain || m.Name != "PCI device 10de:ffff" {
		t.Fatalf("%+v, %v", m, err)
	}
	again, err := ModelByKey(m.Key)
	if err != nil || again.Name != m.Name {
		t.Fatalf("%+v, %v", again, err)
	}
	if known, err := ModelByPCI("10de", "2330"); err != nil || known.Key != "h100-80gb" {
		t.Errorf("an H100 is %v, %v", known, err)
	}
	for id, key := range pciModels {
		vendor, device, _ := strings.Cut(id, ":")
		if m, err := ModelByPCI(vendor, device); err != nil || m.Key != key {
			t.Errorf("%s: %v, %v", id, m, err)
		}
	}
	for _, bad := range []string{"pci-10de", "pci-10de-fffff", "pci-10DE-ffff", "pci--"} {
		if _, err := ModelByKey(bad); err == nil {
			t.Errorf("%q is a model", bad)
		}
	}
	if !slices.IsSortedFunc(Models(), func(a, b *Model) int { return strings.Compare(a.Key, b.Key) }) {
		t.Error("models are not sorted by key")
	}
}

func TestC11LayoutsThatCanNotBe(t *testing.T) {
	t.Parallel()
	g := mustGeometry(t, MIG8)
	for _, c := range []struct {
		name  string
		asks  []Ask
		entry int
		of    string
		say   string
	}{
		{"unknown profile", []Ask{{"1g", 1, -1, ""}, {"5g", 1, -1, ""}}, 1, AskProfile, "no profile 5g"},
		{"twice", []Ask{{"1g", 1, -1, ""}, {"2g", 1, -1, ""}, {"1g", 2, -1, ""}}, 2, AskProfile, "twice"},
		{"count and place", []Ask{{"1g", 1, 3, ""}, {"1g", 2, -1, ""}}, 1, AskProfile, "twice"},
		{"zero", []Ask{{"1g", 0, -1, ""}}, 0, AskCount, "1 to 7 of 1g"},
		{"negative", []Ask{{"3g", 1, -1, ""}, {"1g", -1, -1, ""}}, 1, AskCount, "1 to 7 of 1g"},
		{"above its maximum", []Ask{{"3g", 3, -1, ""}}, 0, AskCount, "at most 2"},
		{"two media engines", []Ask{{"1g+me", 2, -1, ""}}, 0, AskCount, "at most 1"},
		{"above the slots", []Ask{{"3g", 2, -1, ""}, {"1g", 1, -1, ""}}, 1, AskProfile, "9 memory slots of 8"},
		{"above the compute", []Ask{{"2g", 3, -1, ""}, {"1g", 1, -1, ""}, {"1g+me", 1, -1, ""}}, 2, AskProfile, "8 compute slices of 7"},
		{"fits by count, not by place", []Ask{{"3g", 1, 0, ""}, {"4g", 1, -1, ""}}, 1, AskProfile, "no start left"},
		{"a start that hardware does not take", []Ask{{"2g", 1, 3, ""}}, 0, AskStart, "2g begins at slot 0, 2 or 4"},
		{"no start at all", []Ask{{"4g", 1, 0, ""}, {"4g", 1, 0, ""}}, 1, AskProfile, "at most 1"},
		{"nothing left", []Ask{{"3g", 1, 0, ""}, {"3g", 1, 4, ""}, {"1g", 1, 2, "1g.10gb"}}, 2, AskStart, "9 memory slots of 8"},
		{"overlap", []Ask{{"3g", 1, 0, ""}, {"1g", 1, 2, ""}}, 1, AskStart, "beside the entries before it 1g begins at slot 4, 5 or 6"},
	} {
		places, err := g.Arrange(c.asks)
		var bad *AskError
		if !errors.As(err, &bad) || bad.Entry != c.entry || bad.Of != c.of || !strings.Contains(bad.Reason, c.say) {
			t.Errorf("%s: %v, %v; want %s of entry %d: …%s…", c.name, places, err, c.of, c.entry, c.say)
		}
	}
	got, err := g.Arrange([]Ask{{"1g", 1, -1, ""}, {"2g", 1, -1, ""}, {"4g", 1, -1, ""}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Place{{"4g", 0}, {"2g", 4}, {"1g", 6}}, got); diff != "" {
		t.Error(diff)
	}
}

// A layout of counts is possible exactly when some set of slices has them.
func TestArrangeFindsAPlaceWheneverThereIsOne(t *testing.T) {
	t.Parallel()
	for _, name := range []string{MIG4, MIG8} {
		g := mustGeometry(t, name)
		possible := map[string]bool{}
		sets, _ := g.Sets()
		for _, set := range sets {
			possible[bagOf(set)] = true
		}
		rapid.Check(t, func(t *rapid.T) {
			var asks []Ask
			var want []Place
			for _, p := range rapid.Permutation(g.Profiles).Draw(t, "order") {
				if n := rapid.IntRange(0, min(p.Max, 3)).Draw(t, p.Class); n > 0 {
					asks = append(asks, Ask{Class: p.Class, Count: n, Start: -1})
					for range n {
						want = append(want, Place{Class: p.Class})
					}
				}
			}
			got, err := g.Arrange(asks)
			if (err == nil) != possible[bagOf(want)] {
				t.Fatalf("%s %v: %v, %v; possible: %v", name, asks, got, err, possible[bagOf(want)])
			}
			if err == nil && (bagOf(got) != bagOf(want) || g.Check(got) != nil) {
				t.Fatalf("%v became %v: %v", asks, got, g.Check(got))
			}
		})
	}
}
