package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const card = "0000:3b:00.0"

// shelf is a ledger in memory.
type shelf struct {
	owned []host.OwnedSlice
	full  bool // writes fail
}

func (s *shelf) Owned(string) []host.OwnedSlice { return s.owned }

func (s *shelf) Own(_ string, o host.OwnedSlice) error {
	if s.full {
		return errors.New("no space left on device")
	}
	s.drop(o.Place)
	s.owned = append(s.owned, o)
	return nil
}

func (s *shelf) Disown(_ string, p nodewire.Place) error {
	if s.full {
		return errors.New("no space left on device")
	}
	s.drop(p)
	return nil
}

func (s *shelf) drop(p nodewire.Place) {
	s.owned = slices.DeleteFunc(slices.Clone(s.owned), func(o host.OwnedSlice) bool { return o.Place == p })
}

func at(profile string, start, end int) nodewire.Place {
	return nodewire.Place{Profile: profile, SlotStart: start, SlotEnd: end}
}

var fourThree = []nodewire.Place{at("4g", 0, 4), at("3g", 4, 8)}

func layout(places ...nodewire.Place) host.MIGWish {
	return host.MIGWishOf(nodewire.Card{Mode: "mig", Layout: places}, nil)
}

func simulated(t testing.TB, c simnvml.Card) *simnvml.Driver {
	t.Helper()
	if c.Model == "" {
		c.Model = "h100-80gb"
	}
	c.PCIAddress = card
	d, err := simnvml.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func apply(t testing.TB, d host.Driver, s *shelf, boot string, w host.MIGWish) host.MIGResult {
	t.Helper()
	res, err := host.ApplyMIG(context.Background(), d, s, boot, card, w)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// shape is a result's slices in words: profile, place, whose.
func shape(res host.MIGResult) string {
	var out []string
	for _, s := range res.Slices {
		word := fmt.Sprintf("%s@%d", s.Profile, s.SlotStart)
		if s.Foreign {
			word += "!"
		}
		if s.UUID == "" {
			word += "?"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestALayoutIsMadeAtItsPlacesAndKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]simnvml.Card{"needs no reset": {}, "needs a reset": {Model: "a100-80gb", Resets: true, Keeps: true}} {
		d, s := simulated(t, c), &shelf{}
		res := apply(t, d, s, "boot-1", layout(fourThree...))
		if shape(res) != "4g@0 3g@4" || res.Wish != "" || len(res.Missing) > 0 {
			t.Errorf("%s: %s, %q, missing %v", name, shape(res), res.Wish, res.Missing)
		}
		calls := len(d.Log())
		if res = apply(t, d, s, "boot-1", layout(fourThree...)); shape(res) != "4g@0 3g@4" || len(d.Log()) != calls {
			t.Errorf("%s: a second pass changed something: %v", name, d.Log()[calls:])
		}
	}
}

func TestAfterARebootTheLayoutIsAgainWhatItWas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]simnvml.Card{"mode lost": {}, "mode kept": {Model: "a100-80gb", Keeps: true, Resets: true}, "mode lost, reset needed": {Resets: true}} {
		d, s := simulated(t, c), &shelf{}
		before := apply(t, d, s, "boot-1", layout(fourThree...))
		d.Reboot()
		held := host.MIGWishOf(nodewire.Card{Mode: "mig", Layout: fourThree}, fourThree[:1]) // a guest is to autostart on it
		after := apply(t, d, s, "boot-2", held)
		if shape(after) != shape(before) || after.Wish != "" {
			t.Errorf("%s: %s, %q", name, shape(after), after.Wish)
		}
		if after.Slices[0].UUID == before.Slices[0].UUID {
			t.Errorf("%s: the simulated UUIDs did not change, so that this proves nothing", name)
		}
	}
}

func TestAnOldBootsLedgerOwnsNothing(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{Keeps: true}), &shelf{}
	apply(t, d, s, "boot-1", layout(at("3g", 4, 8)))
	s.owned[0].UUID = "" // as if the host had died while it was made
	d.Reboot()
	if _, err := d.Foreign(card, 9, 4, false); err != nil {
		t.Fatal(err)
	}
	res := apply(t, d, s, "boot-2", layout(at("1g", 4, 5)))
	if shape(res) != "3g@4!" || !strings.Contains(res.Wish, "Tenon did not make") {
		t.Errorf("%s, %q", shape(res), res.Wish)
	}
}

func TestC10TheSameLayoutUnderAnotherDriversNames(t *testing.T) {
	t.Parallel()
	for _, spelt := range []map[string]string{nil, {"3g": "3g.39gb", "4g": "MIG 4g.39gb"}} {
		d, s := simulated(t, simnvml.Card{Model: "a100-80gb", Spelt: spelt}), &shelf{}
		res := apply(t, d, s, "boot-1", layout(fourThree...))
		if shape(res) != "4g@0 3g@4" || res.Wish != "" {
			t.Errorf("%v: %s, %q", spelt, shape(res), res.Wish)
		}
		// The driver is replaced under a layout that is there: it stays, untouched.
		before := len(d.Log())
		if err := d.Spell(card, map[string]string{"3g": "3g.41gb", "4g": "4g.41gb"}); err != nil {
			t.Fatal(err)
		}
		res = apply(t, d, s, "boot-1", layout(fourThree...))
		if shape(res) != "4g@0 3g@4" || res.Wish != "" || len(res.Missing) > 0 || len(d.Log()) != before {
			t.Errorf("%v, then spelt otherwise: %s, %q, %v", spelt, shape(res), res.Wish, d.Log()[before:])
		}
	}
}

func TestAttributesMakeAnotherProfile(t *testing.T) {
	t.Parallel()
	geo, err := gpu.GeometryByName(gpu.MIG8)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		compute, slots int
		attributes     []string
		want           string
	}{
		{1, 1, nil, "1g"}, {1, 1, []string{"me"}, "1g+me"}, {1, 2, nil, "1g2"}, {3, 4, nil, "3g"}, {4, 4, nil, "4g"},
		{1, 1, []string{"gfx"}, ""}, {1, 1, []string{"me.all"}, ""}, {1, 1, []string{"-me"}, ""}, {1, 2, []string{"me"}, ""}, {3, 3, nil, ""}, {7, 7, nil, ""},
	} {
		got, ok := host.ClassOf(geo, host.MIGProfile{Compute: c.compute, Slots: c.slots, Attributes: c.attributes})
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%d compute, %d slots, %v is %q, want %q", c.compute, c.slots, c.attributes, got, c.want)
		}
	}
}

func TestWhatTheDriverOnlySaysIsNotBelieved(t *testing.T) {
	t.Parallel()
	for call, want := range map[simnvml.Call]string{
		simnvml.Create: "shows no such GPU instance", simnvml.Compute: "without a compute instance", simnvml.SetMIG: "shows MIG mode off", simnvml.Reset: "off still, on pending",
	} {
		d, s := simulated(t, simnvml.Card{Resets: true}), &shelf{}
		d.Lie(call, 100)
		res := apply(t, d, s, "boot-1", layout(fourThree...))
		if !strings.Contains(res.Wish, want) || len(res.Missing) != 2 {
			t.Errorf("%s lies: %q, missing %v", call, res.Wish, res.Missing)
		}
		if tries := len(d.Log()); tries > 8 {
			t.Errorf("%s lies: %d calls: %v", call, tries, d.Log())
		}
		d.Lie(call, 0)
		if res := apply(t, d, s, "boot-1", layout(fourThree...)); shape(res) != "4g@0 3g@4" || res.Wish != "" {
			t.Errorf("%s no longer lies: %s, %q", call, shape(res), res.Wish)
		}
	}
	d, s := simulated(t, simnvml.Card{}), &shelf{}
	apply(t, d, s, "boot-1", layout(fourThree...))
	d.Lie(simnvml.Destroy, 1)
	res := apply(t, d, s, "boot-1", layout(at("3g", 4, 8)))
	if shape(res) != "4g@0 3g@4" || !strings.Contains(res.Wish, "still") || len(s.owned) != 2 {
		t.Errorf("%s, %q, owned %v", shape(res), res.Wish, s.owned)
	}
}

func TestACardThatStaysPendingSaysSo(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{Resets: true}), &shelf{}
	d.Stick(card, true)
	res := apply(t, d, s, "boot-1", layout(fourThree...))
	if !strings.Contains(res.Wish, "pending: it comes with a reset of the card, or a reboot") || res.Reading.Card.MIG.Current {
		t.Errorf("%q", res.Wish)
	}
}

func TestThreeOfFourSlicesAreUsable(t *testing.T) {
	t.Parallel()
	four := []nodewire.Place{at("2g", 0, 2), at("2g", 2, 4), at("2g", 4, 6), at("1g", 6, 7)}
	d, s := simulated(t, simnvml.Card{}), &shelf{}
	apply(t, d, s, "boot-1", layout(at("7g", 0, 8))) // only for MIG mode
	d.Fail(simnvml.Create, 1, errors.New("insufficient resources"))
	res := apply(t, d, s, "boot-1", layout(four...))
	if len(res.Slices) != 3 || len(res.Missing) != 1 || !strings.Contains(res.Wish, "insufficient resources") {
		t.Errorf("%s, missing %v, %q", shape(res), res.Missing, res.Wish)
	}
	incidents := host.NewHealth("boot-1", nil)
	incidents.Missing(card, "GPU-1", res.Missing, 0)
	list := incidents.Incidents(0)
	if len(list) != 1 || list[0].Kind != "missing_slice" || list[0].Action != nodewire.ActionNone || !strings.Contains(list[0].Message, "2g") {
		t.Errorf("%+v", list)
	}
	if state, _ := incidents.State(card); state != nodewire.GPUReady {
		t.Errorf("a missing slice has its card %s", state)
	}
	first := list[0].ID
	incidents.Missing(card, "GPU-1", res.Missing, 100)
	if list := incidents.Incidents(100); len(list) != 1 || list[0].ID != first {
		t.Errorf("the same missing slice twice: %+v", list)
	}
	incidents.Missing(card, "GPU-1", nil, 200)
	if list := incidents.Incidents(200); len(list) != 0 {
		t.Errorf("it is back, and still told: %+v", list)
	}
}

func TestForeignInstancesAreNeverTouched(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{Keeps: true}), &shelf{}
	apply(t, d, s, "boot-1", layout(at("1g", 6, 7)))
	if _, err := d.Foreign(card, 14, 2, false); err != nil { // 2g at 2
		t.Fatal(err)
	}
	if _, err := d.Foreign(card, 19, 5, true); err != nil { // half-made 1g at 5
		t.Fatal(err)
	}
	res := apply(t, d, s, "boot-1", layout(fourThree...))
	if shape(res) != "2g@2! 1g@5!?" || strings.Count(res.Wish, "in the way is GPU instance") != 2 || len(res.Missing) != 2 {
		t.Errorf("%s, %q, missing %v", shape(res), res.Wish, res.Missing)
	}
	res = apply(t, d, s, "boot-1", layout(at("1g", 0, 1), at("1g", 6, 7)))
	if shape(res) != "1g@0 2g@2! 1g@5!? 1g@6" || res.Wish != "" {
		t.Errorf("beside foreign ones: %s, %q", shape(res), res.Wish)
	}
	res = apply(t, d, s, "boot-1", host.MIGWishOf(nodewire.Card{Mode: "whole"}, nil))
	if shape(res) == "" || !res.Reading.Card.MIG.Current || !strings.Contains(res.Wish, "Tenon did not make") {
		t.Errorf("mode off over foreign instances: %s, %q", shape(res), res.Wish)
	}
}

func TestALayoutChangesOnlyWhileNothingIsHeld(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{}), &shelf{}
	apply(t, d, s, "boot-1", layout(fourThree...))
	next := nodewire.Card{Mode: "mig", Layout: []nodewire.Place{at("1g", 0, 1), at("1g", 1, 2), at("3g", 4, 8)}}
	res := apply(t, d, s, "boot-1", host.MIGWishOf(next, fourThree[1:]))
	if shape(res) != "4g@0 3g@4" || !strings.Contains(res.Wish, "once nothing of it is held") {
		t.Errorf("%s, %q", shape(res), res.Wish)
	}
	if res = apply(t, d, s, "boot-1", host.MIGWishOf(nodewire.Card{Mode: "whole"}, fourThree[1:])); shape(res) != "4g@0 3g@4" || !strings.Contains(res.Wish, "held") {
		t.Errorf("mode off while held: %s, %q", shape(res), res.Wish)
	}
	res = apply(t, d, s, "boot-1", host.MIGWishOf(next, nil))
	if shape(res) != "1g@0 1g@1 3g@4" || res.Wish != "" {
		t.Errorf("idle: %s, %q", shape(res), res.Wish)
	}
	// Without a layout, slices come and go beside those that are held.
	loose := nodewire.Card{Mode: "mig"}
	res = apply(t, d, s, "boot-1", host.MIGWishOf(loose, []nodewire.Place{at("3g", 4, 8), at("2g", 0, 2)}))
	if shape(res) != "2g@0 3g@4" || res.Wish != "" {
		t.Errorf("loose: %s, %q", shape(res), res.Wish)
	}
}

func TestWhatIsUsedStays(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{}), &shelf{}
	res := apply(t, d, s, "boot-1", layout(fourThree...))
	user := host.Process{PID: 4711, Command: "python", GI: res.Reading.Instances[1].ID}
	d.Change(card, func(c *host.DriverCard) { c.Processes = []host.Process{user} })
	res = apply(t, d, s, "boot-1", layout(at("2g", 0, 2)))
	if shape(res) != "2g@0 3g@4" || !strings.Contains(res.Wish, "python (process 4711)") {
		t.Errorf("%s, %q", shape(res), res.Wish)
	}
	res = apply(t, d, s, "boot-1", host.MIGWishOf(nodewire.Card{Mode: "whole"}, nil))
	if !res.Reading.Card.MIG.Current || !strings.Contains(res.Wish, "python (process 4711)") {
		t.Errorf("mode off while used: %q", res.Wish)
	}
}

func TestImpossibleLayoutsChangeNothing(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{}), &shelf{}
	apply(t, d, s, "boot-1", layout(fourThree...))
	for _, l := range [][]nodewire.Place{
		{at("9g", 0, 8)}, {at("3g", 1, 5)}, {at("3g", 0, 4), at("4g", 0, 4)}, {at("1g+me", 0, 1), at("1g+me", 1, 2)}, {at("2g", 0, 3)}, {at("7g", 0, 8), at("1g", 6, 7)},
	} {
		res := apply(t, d, s, "boot-1", layout(l...))
		if shape(res) != "4g@0 3g@4" || !strings.Contains(res.Wish, "impossible") {
			t.Errorf("%v: %s, %q", l, shape(res), res.Wish)
		}
	}
	plain, none := simulated(t, simnvml.Card{}), &shelf{}
	plain.Change(card, func(c *host.DriverCard) { c.MIG.Capable = false })
	if res := apply(t, plain, none, "boot-1", layout(fourThree...)); !strings.Contains(res.Wish, "no MIG") {
		t.Errorf("%q", res.Wish)
	}
}

func TestNothingIsMadeThatTheLedgerCannotNote(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{}), &shelf{full: true}
	if _, err := host.ApplyMIG(t.Context(), d, s, "boot-1", card, layout(fourThree...)); err == nil || !strings.Contains(err.Error(), "write the ledger") {
		t.Errorf("%v", err)
	}
	if list, err := d.Instances(t.Context(), card); err != nil || len(list) > 0 {
		t.Errorf("made without a note: %v, %v", list, err)
	}
}

// thief is a ledger beside which another tool takes what was just made.
type thief struct {
	shelf
	d *simnvml.Driver
}

func (s *thief) Own(card string, o host.OwnedSlice) error {
	if o.UUID != "" {
		s.d.Vanish(card)
	}
	return s.shelf.Own(card, o)
}

func TestWhatIsTakenFromUsIsMissedAndSaid(t *testing.T) {
	t.Parallel()
	d := simulated(t, simnvml.Card{})
	res, err := host.ApplyMIG(t.Context(), d, &thief{d: d}, "boot-1", card, layout(at("3g", 4, 8)))
	if err != nil || len(res.Missing) != 1 || res.Wish == "" || len(d.Log()) > 3 {
		t.Errorf("%+v, %v, %v", res, err, d.Log())
	}
}

func TestBothSpellingsOfAMIGDevice(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{}), &shelf{}
	res := apply(t, d, s, "boot-1", layout(fourThree...))
	want := res.Reading.Instances[1]
	for _, name := range []string{want.UUID, want.OldUUID, strings.ToUpper(want.UUID)} {
		if got, ok := host.FindInstance(res.Reading.Instances, name); !ok || got.Start != 4 {
			t.Errorf("%s is %+v (%v)", name, got, ok)
		}
	}
	if !strings.HasPrefix(want.UUID, "MIG-") || !strings.HasPrefix(want.OldUUID, "MIG-GPU-") {
		t.Errorf("%s, %s", want.UUID, want.OldUUID)
	}
	name, ok := host.ParseMIGName(want.OldUUID)
	if diff := cmp.Diff(host.MIGName{GPU: res.Reading.Card.UUID, GI: want.ID}, name); !ok || diff != "" || name.String() != want.OldUUID {
		t.Error(diff, ok)
	}
	for _, bad := range []string{"", "MIG-GPU-/1/0", "MIG-GPU-x/1", "MIG-GPU-x/-1/0", "MIG-GPU-x/1/a", want.UUID, "GPU-x/1/0"} {
		if got, ok := host.ParseMIGName(bad); ok {
			t.Errorf("%q reads as %+v", bad, got)
		}
	}
	if _, ok := host.FindInstance([]host.GPUInstance{{ID: 1}}, ""); ok {
		t.Error("an empty name finds what has none")
	}
}

// Whatever is wished, whoever else is on the card, wherever the process dies and
// whatever the driver pretends: nothing foreign, held or used is destroyed,
// nothing of ours is lost track of, and once all is well the card is as wished.
func TestNoCrashLosesOrTakesASlice(t *testing.T) {
	t.Parallel()
	geo, err := gpu.GeometryByName(gpu.MIG8)
	if err != nil {
		t.Fatal(err)
	}
	sets, _ := geo.Sets()
	places := func(set []gpu.Place) []nodewire.Place {
		var out []nodewire.Place
		for _, p := range set {
			q, _ := geo.Profile(p.Class)
			out = append(out, at(p.Class, p.Start, q.At(p.Start).End))
		}
		return out
	}
	rapid.Check(t, func(rt *rapid.T) {
		d, s := simulated(t, simnvml.Card{Resets: rapid.Bool().Draw(rt, "resets"), Keeps: rapid.Bool().Draw(rt, "keeps")}), &shelf{}
		first := layout(places(rapid.SampledFrom(sets).Draw(rt, "first"))...)
		first.On, first.Fixed = true, true
		apply(t, d, s, "boot-1", first)
		var foreign []host.GPUInstance
		if rapid.Bool().Draw(rt, "foreign") {
			f, err := d.Foreign(card, 19, rapid.IntRange(0, 6).Draw(rt, "at"), rapid.Bool().Draw(rt, "half"))
			if err == nil {
				foreign = append(foreign, f)
			}
		}
		var held []nodewire.Place
		for _, p := range first.Places {
			if rapid.IntRange(0, 3).Draw(rt, "held") == 0 {
				held = append(held, p)
			}
		}
		next := host.MIGWishOf(nodewire.Card{Mode: rapid.SampledFrom([]string{"mig", "mig", "whole"}).Draw(rt, "mode"), Layout: places(rapid.SampledFrom(sets).Draw(rt, "next"))}, held)
		next.Fixed = next.On && rapid.Bool().Draw(rt, "fixed")
		for _, c := range []simnvml.Call{simnvml.Create, simnvml.Compute, simnvml.Destroy, simnvml.SetMIG, simnvml.Reset} {
			d.Lie(c, rapid.IntRange(0, 1).Draw(rt, "lies"))
		}
		d.CrashAt(rapid.IntRange(0, 12).Draw(rt, "crash"))
		crashes(rt, d, s, next)
		d.CrashAt(0)

		after := read(rt, d)
		for _, f := range foreign {
			if !slices.Contains(after.Instances, f) {
				rt.Fatalf("a foreign instance was changed: %+v, now %+v", f, after.Instances)
			}
		}
		for _, p := range held {
			if !slices.ContainsFunc(after.Instances, func(i host.GPUInstance) bool { return i.Start == p.SlotStart && i.Computes == 1 }) {
				rt.Fatalf("held %v is gone: %+v", p, after.Instances)
			}
		}
		for _, i := range after.Instances {
			ours := slices.ContainsFunc(s.owned, func(o host.OwnedSlice) bool { return o.Place.SlotStart == i.Start })
			if !ours && !slices.ContainsFunc(foreign, func(f host.GPUInstance) bool { return f.ID == i.ID }) {
				rt.Fatalf("nobody owns %+v: ledger %+v", i, s.owned)
			}
		}

		for _, c := range []simnvml.Call{simnvml.Create, simnvml.Compute, simnvml.Destroy, simnvml.SetMIG, simnvml.Reset} {
			d.Lie(c, 0)
		}
		res := apply(t, d, s, "boot-1", next)
		if len(foreign) > 0 || res.Wish != "" {
			if len(foreign) == 0 && len(held) == 0 {
				rt.Fatalf("nothing is in the way, and it is not as wished: %q", res.Wish)
			}
			return
		}
		want := map[nodewire.Place]bool{}
		for _, p := range next.Places {
			want[p] = true
		}
		if res.Reading.Card.MIG.Current != next.On || len(res.Missing) > 0 || len(res.Slices) != len(want) {
			rt.Fatalf("wished %v, is %s, missing %v", next.Places, shape(res), res.Missing)
		}
	})
}

func crashes(t *rapid.T, d host.Driver, s *shelf, w host.MIGWish) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(simnvml.Crash); !ok {
				panic(r)
			}
		}
	}()
	if _, err := host.ApplyMIG(context.Background(), d, s, "boot-1", card, w); err != nil {
		t.Fatal(err)
	}
}

func read(t *rapid.T, d host.Driver) host.MIGReading {
	r, err := host.ReadMIG(context.Background(), d, card)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
