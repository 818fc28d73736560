package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

func fixed(places ...cloud.SlicePlace) GPU {
	c := h100(cloud.ModeMIG)
	c.Fixed = places
	return c
}

func at(profile string, from, to int) cloud.SlicePlace {
	return cloud.SlicePlace{Profile: profile, SlotStart: from, SlotEnd: to}
}

func TestAFixedLayoutGivesOnlyItsPlaces(t *testing.T) {
	t.Parallel()
	card := fixed(at("3g", 0, 4), at("1g", 4, 5), at("1g", 5, 6))
	plan := Decide(Snapshot{Nodes: []Node{newNode(1, card)}}, []Request{slice(1, "1g"), slice(2, "1g"), slice(3, "1g"), slice(4, "2g"), slice(5, "3g")}, Policy{})
	var starts []int
	for _, d := range plan.Decisions {
		switch {
		case d.Refusal == nil:
			starts = append(starts, d.Members[0].Devices[0].Slots.Start)
		case d.InstanceID == slice(3, "1g").InstanceID && !d.Refusal.has(GPUBusy):
			t.Errorf("a third 1g: %s", d.Refusal)
		case d.InstanceID == slice(4, "2g").InstanceID && (!d.Refusal.has(GPULayout) || !d.Refusal.NeverFits):
			t.Errorf("a 2g of a layout without one: %s", d.Refusal)
		}
	}
	if !slices.Equal(starts, []int{5, 4, 0}) {
		t.Errorf("places %v", starts)
	}
}

func TestACardThatChangesTakesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*GPU)
		want   Code
	}{
		{func(g *GPU) { g.Changing = true }, GPUChanging},
		{func(g *GPU) { g.State = cloud.GPUCleaning }, GPUCleaning},
		{func(g *GPU) { g.State = cloud.GPUNeedsReset }, GPUNeedsReset},
		{func(g *GPU) { g.State = cloud.GPUQuarantined }, GPUNotReady},
	} {
		g := h100(cloud.ModeWhole)
		c.change(&g)
		d := one(t, []Node{newNode(1, g)}, whole(1, 1))
		if d.Refusal == nil || !d.Refusal.has(c.want) || d.Refusal.NeverFits {
			t.Errorf("%s: %+v", c.want, d)
		}
	}
}

func TestSharesAndVirtualGPUsGoToTheirKinds(t *testing.T) {
	t.Parallel()
	part := func(mode cloud.GPUMode, n int) GPU {
		g := h100(mode)
		g.Geometry = gpu.Even(mode, n)
		return g
	}
	ask := func(mode cloud.GPUMode, profile string, kind cloud.InstanceKind) Request {
		r := slice(1, profile)
		r.Shape.GPUMode, r.Kind = mode, kind
		return r
	}
	nodes := []Node{newNode(1, part(cloud.ModeShared, 4), part(cloud.ModeVGPU, 8), h100(cloud.ModeVGPU))}
	for _, c := range []struct {
		r    Request
		want Code // "": placed
	}{
		{ask(cloud.ModeShared, "share4", cloud.KindContainer), ""}, {ask(cloud.ModeShared, "share2", cloud.KindContainer), GPUProfile},
		{ask(cloud.ModeShared, "share4", cloud.KindVM), SharesNotForVM}, {ask(cloud.ModeVGPU, "vgpu8", cloud.KindVM), ""},
		{ask(cloud.ModeVGPU, "1g", cloud.KindVM), ""}, {ask(cloud.ModeVGPU, "1g", cloud.KindContainer), VGPUForVM}, {ask(cloud.ModeMIG, "1g", cloud.KindVM), NotForKind},
	} {
		d := one(t, nodes, c.r)
		switch {
		case c.want == "" && d.Refusal != nil:
			t.Errorf("%s for a %s: %s", c.r.Shape.GPUProfile, c.r.Kind, d.Refusal)
		case c.want != "" && (d.Refusal == nil || !d.Refusal.has(c.want)):
			t.Errorf("%s for a %s: %+v, want %s", c.r.Shape.GPUProfile, c.r.Kind, d, c.want)
		case c.want == "" && d.Members[0].Devices[0].Profile != gpu.Cuttings(c.r.Shape.GPUMode, c.r.Shape.GPUProfile)[0].Cut.Profile.Class:
			t.Errorf("%s is claimed as %s", c.r.Shape.GPUProfile, d.Members[0].Devices[0].Profile)
		}
	}
	bundled := h100(cloud.ModeWhole)
	bundled.Bundled = true
	r := whole(1, 1)
	if r.Kind = cloud.KindVM; !one(t, []Node{newNode(1, bundled)}, r).Refusal.has(GPUBundle) {
		t.Error("a VM got half of a bundle")
	}
	pair := func(other string) GPU {
		g := bundled
		g.Bundle = []string{other}
		return g
	}
	nodes = []Node{newNode(1, pair(address(1)), pair(address(0)), pair(address(3)), pair(address(2)))}
	nodes[0].GPUs[3].State = cloud.GPUUnhealthy
	both := whole(1, 2)
	both.Kind = cloud.KindVM
	d := one(t, nodes, both)
	if d.Refusal != nil || d.Members[0].Devices[0].GPUID != gpuID(1, 0) || d.Members[0].Devices[1].GPUID != gpuID(1, 1) {
		t.Errorf("a VM that asks for two of a pair gets %+v", d)
	}
	nodes[0].GPUs[1].Used.Mask = 0xff
	if d := one(t, nodes, both); d.Refusal == nil {
		t.Errorf("a VM got %+v of two pairs of which one card each is free", d.Members)
	}
	if r.Kind = cloud.KindContainer; one(t, []Node{newNode(1, bundled)}, r).Refusal != nil {
		t.Error("a container needs no bundle")
	}
	// What its node can't isolate is no VM's, alone or with others; a container needs
	// no isolation group.
	for _, bundle := range [][]string{nil, {address(1)}} {
		mixed := h100(cloud.ModeWhole)
		mixed.NotForVM, mixed.Bundle, mixed.Bundled = true, bundle, bundle != nil
		nodes := []Node{newNode(1, mixed, mixed)}
		for count := 1; count <= 2; count++ {
			r := whole(1, count)
			if one(t, nodes, r).Refusal != nil {
				t.Errorf("a container can't have %d", count)
			}
			if r.Kind = cloud.KindVM; !one(t, nodes, r).Refusal.has(GPUNotForVM) {
				t.Errorf("a VM got %d: %+v", count, one(t, nodes, r))
			}
		}
	}
}

func TestSharesOfACardAreOneOrganisations(t *testing.T) {
	t.Parallel()
	card := h100(cloud.ModeShared)
	card.Geometry = gpu.Even(cloud.ModeShared, 4)
	ask := func(i int, org byte) Request {
		r := slice(i, "share4")
		r.Shape.GPUMode, r.Org = cloud.ModeShared, cloud.OrgID{org}
		return r
	}
	plan := Decide(Snapshot{Nodes: []Node{newNode(1, card)}}, []Request{ask(1, 1), ask(2, 2), ask(3, 1)}, Policy{})
	for i, d := range plan.Decisions {
		if theirs := i == 1; (d.Refusal != nil) != theirs || theirs && !d.Refusal.has(GPUShares) {
			t.Errorf("%d: %+v", i, d)
		}
	}
}

// Whatever the layout: each slice lies at a place of it, and none is given twice.
func TestLayoutsAreNeverLeft(t *testing.T) {
	t.Parallel()
	g, err := gpu.GeometryByName(gpu.MIG8)
	if err != nil {
		t.Fatal(err)
	}
	sets, _ := g.Sets()
	rapid.Check(t, func(t *rapid.T) {
		var places []cloud.SlicePlace
		for _, p := range rapid.SampledFrom(sets).Draw(t, "layout") {
			profile, _ := g.Profile(p.Class)
			places = append(places, at(p.Class, p.Start, p.Start+profile.Slots))
		}
		card := fixed(places...)
		if places == nil {
			card.Fixed = []cloud.SlicePlace{}
		}
		var requests []Request
		asked := map[string]int{}
		for i := range rapid.IntRange(1, 10).Draw(t, "requests") {
			class := rapid.SampledFrom(g.Profiles).Draw(t, "class").Class
			asked[class]++
			requests = append(requests, slice(i+1, class))
		}
		given := map[cloud.SlicePlace]bool{}
		got := map[string]int{}
		for _, d := range Decide(Snapshot{Nodes: []Node{newNode(1, card)}}, requests, Policy{}).Decisions {
			if d.Refusal != nil {
				continue
			}
			x := d.Members[0].Devices[0]
			p := at(x.Profile, x.Slots.Start, x.Slots.End)
			if !slices.Contains(places, p) || given[p] {
				t.Fatalf("%v was given of %v (twice: %v)", p, places, given[p])
			}
			given[p] = true
			got[x.Profile]++
		}
		for class, n := range asked {
			there := 0
			for _, p := range places {
				if p.Profile == class {
					there++
				}
			}
			if got[class] != min(n, there) {
				t.Fatalf("%d of %s were given, %d asked for, %d there", got[class], class, n, there)
			}
		}
	})
}
