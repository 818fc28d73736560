package gpu

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// listing is what cards listed (nvidia-smi mig -lgip and -lgipp), by board.
type listing map[string]struct {
	MemoryUnits   int `json:"memory_units"`
	ComputeSlices int `json:"compute_slices"`
	Profiles      []struct {
		Name    string `json:"name"`
		ID      *int   `json:"nvidia_smi_profile_id"` // nil: not known of this board
		Compute int    `json:"compute_slices"`
		Slots   int    `json:"memory_units"`
		Starts  []int  `json:"starts"`
		Max     int    `json:"max"`
	} `json:"profiles"`
}

func readListing(t *testing.T) listing {
	t.Helper()
	raw, err := os.ReadFile("testdata/mig_profiles.json")
	if err != nil {
		t.Fatal(err)
	}
	var out listing
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every model that MIG cuts has the profiles, ids, starts, sizes and maxima that its
// board lists, and no others.
func TestTablesAreWhatBoardsList(t *testing.T) {
	t.Parallel()
	boards := readListing(t)
	// Boards that were not listed by themselves are cut as these are.
	of := map[string]string{
		"a100-40gb": "A100-40GB", "a100-80gb": "A100-80GB", "a800-80gb": "A100-80GB", "h100-80gb": "H100-80GB", "h200-141gb": "H200-141GB",
		"h200-nvl-141gb": "H200-141GB", "b200-180gb": "B200-180GB", "a30-24gb": "A30-24GB",
	}
	for key, board := range of {
		m, err := ModelByKey(key)
		if err != nil {
			t.Fatal(err)
		}
		b, g := boards[board], m.geometry()
		if b.MemoryUnits != g.Slots || b.ComputeSlices != g.Compute || len(b.Profiles) != len(g.Profiles) {
			t.Errorf("%s: %d slots, %d compute slices, %d profiles; its board lists %d, %d, %d", key, g.Slots, g.Compute, len(g.Profiles), b.MemoryUnits, b.ComputeSlices, len(b.Profiles))
		}
		for _, want := range b.Profiles {
			class, err := m.Class(want.Name)
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			p, _ := g.Profile(class)
			if p.Compute != want.Compute || p.Slots != want.Slots || p.Max != want.Max || !slices.Equal(p.Starts, want.Starts) || p.Media != strings.HasSuffix(want.Name, "+me") {
				t.Errorf("%s %s is %+v; its board lists %+v", key, want.Name, p, want)
			}
			if want.ID != nil && p.GIID != *want.ID {
				t.Errorf("%s %s has id %d; its board lists %d", key, want.Name, p.GIID, *want.ID)
			}
		}
	}
}

// The names of an H100 NVL: its slices are larger than those of an 80 GB card and
// are the same classes.
func TestNamesOfAnH100NVL(t *testing.T) {
	t.Parallel()
	m, err := ModelByName("NVIDIA H100 NVL")
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string]string{"1g": "1g.12gb", "1g+me": "1g.12gb+me", "1g2": "1g.24gb", "2g": "2g.24gb", "3g": "3g.47gb", "4g": "4g.47gb", "7g": "7g.94gb"} {
		if got, err := m.DisplayName(class); err != nil || got != want {
			t.Errorf("%s is shown as %q (%v), want %q", class, got, err, want)
		}
	}
}

// Two slices go together exactly when their memory slots don't overlap, their
// compute slices are no more than there are, and neither is one too many. On real
// cards the memory slots bind first, so the other two are looked at on made-up ones.
func TestWhatGoesTogether(t *testing.T) {
	t.Parallel()
	g := mustGeometry(t, MIG8)
	scarce := newGeometry("scarce", 8, 3, []Profile{{Class: "1g", Compute: 1, Slots: 1, Starts: []int{0, 1, 2, 3}, Max: 2}, {Class: "2g", Compute: 2, Slots: 2, Starts: []int{4, 6}, Max: 2}})
	for _, c := range []struct {
		g      *Geometry
		places []Place
		says   string // "": they go together
	}{
		{g, []Place{{"4g", 0}, {"3g", 4}}, ""},
		{g, []Place{{"3g", 0}, {"1g", 3}}, "overlaps"},
		{g, []Place{{"1g", 3}, {"3g", 0}}, "overlaps"},
		{g, []Place{{"7g", 0}, {"1g", 6}}, "overlaps"},
		{g, []Place{{"2g", 1}}, "only at [0 2 4]"},
		{g, []Place{{"1g", 7}}, "only at [0 1 2 3 4 5 6]"},
		{g, []Place{{"4g", 4}}, "only at [0]"},
		{g, []Place{{"1g2", 1}}, "only at [0 2 4 6]"},
		{g, []Place{{"1g+me", 0}, {"1g", 1}}, ""},
		{g, []Place{{"1g+me", 0}, {"1g+me", 1}}, "media engines"},
		{g, []Place{{"5g", 0}}, "no such profile"},
		{scarce, []Place{{"1g", 0}, {"2g", 4}}, ""},
		{scarce, []Place{{"2g", 4}, {"2g", 6}}, "more than 3 compute slices"},
		{scarce, []Place{{"1g", 0}, {"1g", 1}, {"1g", 2}}, "at most 2"},
	} {
		err := c.g.Check(c.places)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v on %s: %v, want %q", c.places, c.g.Name, err, c.says)
		}
	}
}
