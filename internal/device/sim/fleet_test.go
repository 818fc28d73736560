package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestFleetIsAMix(t *testing.T) {
	t.Parallel()
	fleet, err := Fleet(12)
	if err != nil {
		t.Fatal(err)
	}
	racks, models, modes := map[string]int{}, map[string]int{}, map[string]int{}
	for _, m := range fleet {
		racks[m.Labels["rack"]]++
		if !strings.HasPrefix(m.Name, "sim-") || !cloud.ValidName(m.Name) || m.VCPU < 64 || m.MemoryMiB < 256<<10 {
			t.Errorf("not a simulated server by its looks: %+v", m)
		}
		for _, g := range inventory(t, open(t, Config{Board: m.Board, Modes: m.Modes, StateDir: t.TempDir(), CloudID: "c"})) {
			models[g.Model]++
			modes[g.Mode]++
		}
	}
	if d := cmp.Diff(map[string]int{"sim-r01": 4, "sim-r02": 4, "sim-r03": 4}, racks); d != "" {
		t.Error(d)
	}
	for _, model := range []string{"h100-80gb", "a100-80gb", "a30-24gb", "b200-180gb"} {
		if models[model] == 0 {
			t.Errorf("no %s among %v", model, models)
		}
	}
	if modes["mig"] < 8 || modes["whole"] < 32 {
		t.Errorf("modes: %v", modes)
	}
}

func TestFleetGrowsWithoutChange(t *testing.T) {
	t.Parallel()
	few, err := Fleet(12)
	if err != nil {
		t.Fatal(err)
	}
	many, err := Fleet(FleetMax)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(few, many[:12]); d != "" {
		t.Error("the first servers of a larger fleet are others:\n" + d)
	}
	names := map[string]bool{}
	for _, m := range many {
		if names[m.Name] {
			t.Fatalf("%s is there twice", m.Name)
		}
		names[m.Name] = true
	}
	if _, err := Fleet(FleetMax + 1); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("one node too many: %v", err)
	}
}

// TestEveryPlaceOfEveryBoard cuts each card of each server as full as its
// hardware takes, in each profile, and gives it back.
func TestEveryPlaceOfEveryBoard(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	names, err := Names(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for _, mode := range []string{"whole", "mig"} {
			data, err := loadBoard(nil, name)
			if err != nil {
				t.Fatal(err)
			}
			modes := map[int]string{}
			for i := range data.GPUs {
				modes[i] = mode
			}
			b := open(t, Config{Board: name, Modes: modes, StateDir: filepath.Join(t.TempDir(), "b"), CloudID: "c"})
			for _, g := range inventory(t, b) {
				if mode == "whole" {
					if _, err := b.Prepare(ctx, ask("w"+g.UUID, 1, whole(g.UUID))); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				model, err := gpu.ModelByKey(g.Model)
				if err != nil {
					t.Fatal(err)
				}
				geo, err := gpu.GeometryByName(model.Geometry)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range geo.Profiles {
					var used gpu.Used
					held := 0
					for start, ok := geo.BestStart(used, p.Class); ok; start, ok = geo.BestStart(used, p.Class) {
						held++
						d := []nodewire.Device{{GPUUUID: g.UUID, Mode: "mig", Profile: p.Class, SlotStart: start, SlotEnd: start + p.Slots}}
						if _, err := b.Prepare(ctx, ask(fmt.Sprint("s", held), 1, d)); err != nil {
							t.Errorf("%s, %s at %d: %v", name, p.Class, start, err)
						}
						used = geo.Take(used, p.Class, start)
					}
					if held != p.Max {
						t.Errorf("%s card %d took %d of %s, the hardware takes %d", name, g.Index, held, p.Class, p.Max)
					}
					for i := range held {
						if err := b.Release(ctx, fmt.Sprint("s", i+1), 1); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
	}
}

func TestNVLinkIsMutual(t *testing.T) {
	t.Parallel()
	links := map[string]int{"hgx-h100": 7, "dgx-a100": 7, "hgx-b200": 7, "a30": 1, "a100-pairs": 1}
	for name, want := range links {
		gpus := inventory(t, open(t, Config{Board: name, StateDir: t.TempDir(), CloudID: "c", Seed: name}))
		joined := map[string]bool{}
		for _, g := range gpus {
			if len(g.NVLink) != want {
				t.Errorf("%s card %d is joined to %d cards, not %d", name, g.Index, len(g.NVLink), want)
			}
			for _, peer := range g.NVLink {
				joined[g.PCIAddress+">"+peer] = true
			}
		}
		for edge := range joined {
			from, to, _ := strings.Cut(edge, ">")
			if !joined[to+">"+from] {
				t.Errorf("%s: %s is joined to %s and not the other way round", name, from, to)
			}
		}
	}
}
