package simnvml

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

// The tables are written out here as hardware lists them, so that a change of
// package gpu or a copied mock doesn't pass unseen.
func TestTablesAreTheHardwares(t *testing.T) {
	t.Parallel()
	type row struct {
		id, compute, size, most int
		starts                  []int
	}
	seven := []int{0, 1, 2, 3, 4, 5, 6}
	mig8 := map[string]row{}
	for _, r := range []struct {
		name string
		row
	}{
		{"1", row{19, 1, 1, 7, seven}}, {"1+me", row{20, 1, 1, 1, seven}}, {"1x2", row{15, 1, 2, 4, []int{0, 2, 4, 6}}},
		{"2", row{14, 2, 2, 3, []int{0, 2, 4}}}, {"3", row{9, 3, 4, 2, []int{0, 4}}}, {"4", row{5, 4, 4, 1, []int{0}}}, {"7", row{0, 7, 8, 1, []int{0}}},
	} {
		mig8[r.name] = r.row
	}
	names := map[string]map[string]string{
		"a100-40gb":  {"1": "1g.5gb", "1+me": "1g.5gb+me", "1x2": "1g.10gb", "2": "2g.10gb", "3": "3g.20gb", "4": "4g.20gb", "7": "7g.40gb"},
		"h100-80gb":  {"1": "1g.10gb", "1+me": "1g.10gb+me", "1x2": "1g.20gb", "2": "2g.20gb", "3": "3g.40gb", "4": "4g.40gb", "7": "7g.80gb"},
		"h200-141gb": {"1": "1g.18gb", "1+me": "1g.18gb+me", "1x2": "1g.35gb", "2": "2g.35gb", "3": "3g.71gb", "4": "4g.71gb", "7": "7g.141gb"},
	}
	a30 := map[string]row{
		"1g.6gb": {14, 1, 1, 4, []int{0, 1, 2, 3}}, "1g.6gb+me": {21, 1, 1, 1, []int{0, 1, 2, 3}},
		"2g.12gb": {5, 2, 2, 2, []int{0, 2}}, "2g.12gb+me": {6, 2, 2, 1, []int{0, 2}}, "4g.24gb": {0, 4, 4, 1, []int{0}},
	}
	check := func(model string, want map[string]row) {
		d, err := New(Card{Model: model, PCIAddress: "0000:3b:00.0"})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := d.Profiles(t.Context(), "0000:3b:00.0"); err != nil || len(list) != 0 {
			t.Fatalf("%s lists profiles while MIG is off: %v, %v", model, list, err)
		}
		if _, err := d.SetMIG(t.Context(), "0000:3b:00.0", true); err != nil {
			t.Fatal(err)
		}
		list, err := d.Profiles(t.Context(), "0000:3b:00.0")
		if err != nil || len(list) != len(want) {
			t.Fatalf("%s: %d profiles (%v), want %d", model, len(list), err, len(want))
		}
		for _, p := range list {
			w, ok := want[p.Name]
			if diff := cmp.Diff(host.MIGProfile{ID: w.id, Name: p.Name, Compute: w.compute, Slots: w.size, Starts: w.starts, Max: w.most},
				host.MIGProfile{ID: p.ID, Name: p.Name, Compute: p.Compute, Slots: p.Slots, Starts: p.Starts, Max: p.Max}); !ok || diff != "" {
				t.Errorf("%s %s: %s", model, p.Name, diff)
			}
		}
	}
	for model, spelt := range names {
		want := map[string]row{}
		for short, name := range spelt {
			want[name] = mig8[short]
		}
		check(model, want)
	}
	check("a30-24gb", a30)
}

func TestRealFiguresOfCards(t *testing.T) {
	t.Parallel()
	d, err := New(Card{Model: "h100-80gb", PCIAddress: "0000:3b:00.0"}, Card{Model: "h200-141gb", PCIAddress: "0000:5b:00.0"})
	if err != nil {
		t.Fatal(err)
	}
	sms := map[string]int{"1g.10gb": 16, "1g.20gb": 26, "2g.20gb": 32, "3g.40gb": 60, "4g.40gb": 64, "7g.80gb": 132}
	mib := map[string]int64{"1g.10gb": 9728, "2g.20gb": 19968, "3g.40gb": 40192, "1g.18gb": 16384, "1g.35gb": 33024, "3g.71gb": 71168}
	for _, address := range []string{"0000:3b:00.0", "0000:5b:00.0"} {
		if _, err := d.SetMIG(t.Context(), address, true); err != nil {
			t.Fatal(err)
		}
		list, err := d.Profiles(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if want := sms[p.Name]; want != 0 && p.SMs != want {
				t.Errorf("%s has %d SMs, want %d", p.Name, p.SMs, want)
			}
			if want := mib[p.Name]; want != 0 && p.MemoryMiB != want {
				t.Errorf("%s has %d MiB, want %d", p.Name, p.MemoryMiB, want)
			}
		}
	}
}

// TestTheDriverRefusesWhatHardwareRefuses: starts of the mock's tables for Hopper
// that real cards don't take, overlaps, one too many, and anything while MIG is off.
func TestTheDriverRefusesWhatHardwareRefuses(t *testing.T) {
	t.Parallel()
	const at = "0000:3b:00.0"
	type step struct{ id, start int }
	for _, c := range []struct {
		name  string
		model string
		made  []step
		last  step
		ok    bool
	}{
		{"3g is four slots, not three", "h100-80gb", []step{{9, 0}}, step{19, 3}, false},
		{"3g begins at 0 and 4", "h100-80gb", nil, step{9, 3}, false},
		{"7g is all eight slots", "h100-80gb", []step{{0, 0}}, step{19, 6}, false},
		{"no 1g lies at slot 7", "h100-80gb", nil, step{19, 7}, false},
		{"double memory begins at even slots", "h100-80gb", nil, step{15, 1}, false},
		{"double memory at 6", "h100-80gb", nil, step{15, 6}, true},
		{"no 2g lies at 6", "h100-80gb", nil, step{14, 6}, false},
		{"4g begins at 0", "h100-80gb", nil, step{5, 4}, false},
		{"overlap", "h100-80gb", []step{{14, 2}}, step{19, 3}, false},
		{"beside each other", "h100-80gb", []step{{14, 2}}, step{19, 4}, true},
		{"a second set of media engines", "h100-80gb", []step{{20, 0}}, step{20, 1}, false},
		{"two 2g+me", "a30-24gb", []step{{6, 0}}, step{6, 2}, false},
		{"2g+me beside 1g+me", "a30-24gb", []step{{6, 0}}, step{21, 2}, false},
		{"2g+me beside 2g", "a30-24gb", []step{{6, 0}}, step{5, 2}, true},
	} {
		d, err := New(Card{Model: c.model, PCIAddress: at})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CreateInstance(t.Context(), at, c.last.id, c.last.start); err == nil {
			t.Errorf("%s: made while MIG is off", c.name)
		}
		if _, err := d.SetMIG(t.Context(), at, true); err != nil {
			t.Fatal(err)
		}
		for _, s := range c.made {
			if err := d.CreateInstance(t.Context(), at, s.id, s.start); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if err := d.CreateInstance(t.Context(), at, c.last.id, c.last.start); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if list, err := d.Instances(t.Context(), at); err != nil || c.ok && len(list) != len(c.made)+1 || !c.ok && len(list) != len(c.made) {
			t.Errorf("%s: it shows %v (%v)", c.name, list, err)
		}
	}
}
