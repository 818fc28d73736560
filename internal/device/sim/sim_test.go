package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"pgregory.net/rapid"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func testConfig(t *testing.T) Config {
	dir := t.TempDir()
	return Config{Board: "local", CloudID: "0badcafe", StateDir: filepath.Join(dir, "state"), CDIDir: filepath.Join(dir, "cdi")}
}

func open(t *testing.T, cfg Config) *Board {
	t.Helper()
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func inventory(t *testing.T, b *Board) []nodewire.GPU {
	t.Helper()
	inv, err := b.Inventory(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return inv.GPUs
}

func slice(uuid, class string, start, end int) []nodewire.Device {
	return []nodewire.Device{{GPUUUID: uuid, Mode: "mig", Profile: class, SlotStart: start, SlotEnd: end}}
}

// ask is what a container's instance asks for.
func ask(id string, epoch int64, devices []nodewire.Device) device.Request {
	return device.Request{InstanceID: id, Epoch: epoch, Kind: "container", Devices: devices}
}

func whole(uuid string) []nodewire.Device {
	return []nodewire.Device{{GPUUUID: uuid, Mode: "whole", Profile: "whole", SlotStart: 0, SlotEnd: 8}}
}

func TestLocalBoardIsWhatItSays(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	gpus := inventory(t, open(t, cfg))
	var got []string
	for _, g := range gpus {
		if !g.Simulated || !strings.HasPrefix(g.UUID, "GPU-SIM-") || g.State != "ready" {
			t.Errorf("card %d does not say that it is simulated and ready: %+v", g.Index, g)
		}
		got = append(got, fmt.Sprint(g.Model, " ", g.Mode, " numa ", g.NUMANode, " links ", len(g.NVLink)))
	}
	want := []string{"h100-80gb whole numa 0 links 1", "h100-80gb mig numa 0 links 1", "a100-80gb mig numa 1 links 0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(gpus, inventory(t, open(t, cfg))); d != "" {
		t.Error("a second start sees other cards:\n" + d)
	}
	cfg.Modes = map[int]string{0: "mig", 2: "whole"}
	again := inventory(t, open(t, cfg))
	if again[0].Mode != "mig" || again[1].Mode != "mig" || again[2].Mode != "whole" {
		t.Errorf("modes from the configuration are not taken: %v", again)
	}
}

// TestEveryCardCut: eight cards of seven slices each have a device number of their
// own for every slice, and none is a serial line of the host.
func TestEveryCardCut(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Board, cfg.Modes = "hgx-h100", map[int]string{}
	for i := range 8 {
		cfg.Modes[i] = "mig"
	}
	b := open(t, cfg)
	owners := map[int]string{}
	for _, g := range inventory(t, b) {
		for slot := range 7 {
			owner := fmt.Sprintf("inst_%d_%d", g.Index, slot)
			if _, err := b.Prepare(context.Background(), ask(owner, 1, slice(g.UUID, "1g", slot, slot+1))); err != nil {
				t.Fatal(err)
			}
			minor := b.state.Held[owner].Minors[0]
			if other := owners[minor]; other != "" || minor > lastMinor && minor < pastTTYs {
				t.Errorf("%s has number %d, which is another's (%q) or a serial line", owner, minor, other)
			}
			owners[minor] = owner
		}
	}
}

func TestHardwareLimitsHold(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, testConfig(t))
	g := inventory(t, b)
	must := func(owner string, d []nodewire.Device) {
		t.Helper()
		if _, err := b.Prepare(ctx, ask(owner, 1, d)); err != nil {
			t.Fatal(err)
		}
	}
	must("a", slice(g[1].UUID, "3g", 4, 8))
	for name, d := range map[string][]nodewire.Device{
		"unknown card":               whole("GPU-none"),
		"whole of a card in mig":     whole(g[1].UUID),
		"slice of a whole card":      slice(g[0].UUID, "1g", 0, 1),
		"start that no hardware has": slice(g[1].UUID, "2g", 1, 3),
		"size of Hopper's mock":      slice(g[1].UUID, "3g", 0, 3),
		"7g of seven":                slice(g[2].UUID, "7g", 0, 7),
		"double memory anywhere":     slice(g[1].UUID, "1g2", 1, 3),
	} {
		if _, err := b.Prepare(ctx, ask("x", 1, d)); !errors.Is(err, device.ErrImpossible) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Prepare(ctx, ask("x", 1, slice(g[1].UUID, "1g", 5, 6))); err == nil || errors.Is(err, device.ErrImpossible) {
		t.Errorf("a held place must be refused for now, not for ever: %v", err)
	}
	must("b", slice(g[1].UUID, "4g", 0, 4))
	must("c", whole(g[0].UUID))
}

func TestStaleEpochReleasesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, testConfig(t))
	g := inventory(t, b)
	if _, err := b.Prepare(ctx, ask("a", 5, whole(g[0].UUID))); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(ctx, "a", 4); err != nil {
		t.Fatal(err)
	}
	held, _ := b.Held(ctx)
	if len(held["a"]) != 1 {
		t.Fatal("a stale release took the card")
	}
	if _, err := b.Prepare(ctx, ask("a", 6, whole(g[0].UUID))); err == nil {
		t.Fatal("a new epoch got a card that the old one still holds")
	}
	if err := b.Release(ctx, "a", 5); err != nil {
		t.Fatal(err)
	}
	if held, _ := b.Held(ctx); len(held) != 0 {
		t.Fatalf("still held: %v", held)
	}
}

func TestHoldsSurviveACrash(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cfg := testConfig(t)
	b := open(t, cfg)
	g := inventory(t, b)
	grants, err := b.Prepare(ctx, ask("inst_a", 1, slice(g[2].UUID, "2g", 2, 4)))
	if err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(cfg.CDIDir, "tenon.sim-gpu-0badcafe-inst_gone.json")
	foreign := filepath.Join(cfg.CDIDir, "tenon.sim-gpu-feedbeef-inst_x.json")
	for _, f := range []string{stray, foreign} {
		if err := os.WriteFile(f, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(cfg.CDIDir, "tenon.sim-gpu-0badcafe-inst_a.json")); err != nil {
		t.Fatal(err)
	}

	cfg.Modes = map[int]string{2: "whole"} // can't be while it is held
	b = open(t, cfg)
	again, err := b.Prepare(ctx, ask("inst_a", 1, slice(g[2].UUID, "2g", 2, 4)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(grants, again); d != "" {
		t.Error(d)
	}
	if m := inventory(t, b)[2].Mode; m != "mig" {
		t.Errorf("a held card changed its mode to %s", m)
	}
	if _, err := os.Stat(stray); !os.IsNotExist(err) {
		t.Error("the spec of a crash is still there")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("another cloud's spec was touched")
	}
	if sl := inventory(t, b)[2].Slices; len(sl) != 1 || sl[0].Owner != "inst_a" || sl[0].SlotStart != 2 {
		t.Errorf("slices: %+v", sl)
	}
}

func TestDamagedStateIsAnError(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	open(t, cfg)
	if err := os.WriteFile(filepath.Join(cfg.StateDir, "state.json"), []byte(`{"format":1,"se`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("got %v", err)
	}
}

// TestContainerSpec lets the engine's own CDI library put the devices into a
// container's spec.
func TestContainerSpec(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cfg := testConfig(t)
	b := open(t, cfg)
	g := inventory(t, b)
	devices := append(whole(g[0].UUID), slice(g[1].UUID, "1g+me", 3, 4)...)
	grants, err := b.Prepare(ctx, ask("inst_a", 1, devices))
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Prepare(ctx, ask("inst_b", 1, slice(g[1].UUID, "1g", 4, 5)))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(cfg.CDIDir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	inject := func(grants []device.Grant) oci.Spec {
		spec := oci.Spec{Process: &oci.Process{}, Linux: &oci.Linux{Resources: &oci.LinuxResources{}}}
		if _, err := cache.InjectDevices(&spec, device.CDINames(grants)...); err != nil {
			t.Fatalf("%v; %v", err, cache.GetErrors())
		}
		return spec
	}
	spec := inject(grants)
	var nodes []string
	for _, d := range spec.Linux.Devices {
		nodes = append(nodes, fmt.Sprintf("%s %s %d:%d", d.Path, d.Type, d.Major, d.Minor))
	}
	want := []string{"/dev/nvidia0 c 4:16", "/dev/nvidia1 c 4:19", "/dev/nvidia-caps/nvidia-cap19 c 4:19"}
	if d := cmp.Diff(want, nodes); d != "" {
		t.Error(d)
	}
	if rules := spec.Linux.Resources.Devices; len(rules) != 3 || !rules[0].Allow || *rules[1].Minor != 19 {
		t.Errorf("device rules: %+v", rules)
	}
	env := strings.Join(spec.Process.Env, "\n")
	if !strings.Contains(env, "TENON_GPU_SIMULATED=true") || !strings.Contains(env, "TENON_GPU_DEVICES="+g[0].UUID+",MIG-SIM-") {
		t.Errorf("environment:\n%s", env)
	}
	if o := inject(other); len(o.Linux.Devices) != 2 || o.Linux.Devices[0].Minor == 19 {
		t.Errorf("two owners share a device number: %+v", o.Linux.Devices)
	}
	if err := b.Release(ctx, "inst_a", 1); err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadDir(cfg.CDIDir)
	if len(left) != 1 {
		t.Errorf("specs left after the release: %v", left)
	}
}

func TestTelemetry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cfg := testConfig(t)
	now := time.Unix(1_800_000_000, 0)
	cfg.Now = func() time.Time { return now }
	b := open(t, cfg)
	g := inventory(t, b)
	if _, err := b.Prepare(ctx, ask("a", 1, whole(g[0].UUID))); err != nil {
		t.Fatal(err)
	}
	cards, held, _ := b.Telemetry(ctx)
	again, _, _ := b.Telemetry(ctx)
	if d := cmp.Diff(cards, again); d != "" {
		t.Error("two readings of one moment differ:\n" + d)
	}
	if !cards[0].Simulated || cards[0].Percent < 30 || cards[1].Percent > 5 || cards[0].PowerWatts < cards[1].PowerWatts || cards[0].TemperatureC < cards[1].TemperatureC {
		t.Errorf("a held card is not busier than a free one: %+v", cards)
	}
	s := held["a"]
	if s.GPUPercent == nil || *s.GPUPercent < 30 || s.GPUMemoryMiB == nil || s.GPUTemperatureC == nil || s.GPUPowerWatts == nil {
		t.Errorf("the owner's own figures: %+v", s)
	}
	now = now.Add(10 * time.Second)
	moved, _, _ := b.Telemetry(ctx)
	if moved[0].Percent == cards[0].Percent {
		t.Error("the figures do not move")
	}
	b.Rest(map[string]bool{"a": true})
	cards, held, _ = b.Telemetry(ctx)
	if p := held["a"].GPUPercent; p == nil || *p > 2 || cards[0].Percent > 5 {
		t.Errorf("at rest it shows %v, its card %+v", held["a"], cards[0])
	}
}

func TestFailedProbeIsNotAnEmptyBoard(t *testing.T) {
	t.Parallel()
	b := open(t, testConfig(t))
	b.FailProbe(true)
	inv, err := b.Inventory(context.Background())
	if err != nil || inv.OK || len(inv.GPUs) != 3 || inv.GPUs[0].State != "unknown" {
		t.Fatalf("%+v, %v", inv, err)
	}
}

// TestNeverTwoOwners: whatever is asked in whatever order, with restarts in
// between, what is held is always a legal layout with one owner a place and one
// owner a device number.
func TestNeverTwoOwners(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	shapes := gpu.Shapes()
	root := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		cfg := Config{Board: "local", CloudID: "c", StateDir: filepath.Join(root, fmt.Sprint(run))}
		b, err := Open(cfg)
		if err != nil {
			rt.Fatal(err)
		}
		inv, _ := b.Inventory(ctx)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			owner := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "owner")
			epoch := rapid.Int64Range(1, 3).Draw(rt, "epoch")
			switch rapid.IntRange(0, 5).Draw(rt, "op") {
			case 0:
				_ = b.Release(ctx, owner, epoch)
			case 1:
				if b, err = Open(cfg); err != nil {
					rt.Fatal(err)
				}
			default:
				s := rapid.SampledFrom(shapes).Draw(rt, "shape")
				card := rapid.SampledFrom(inv.GPUs).Draw(rt, "card")
				_, _ = b.Prepare(ctx, ask(owner, epoch, []nodewire.Device{{
					GPUUUID: card.UUID, Mode: string(s.Mode), Profile: s.Profile, SlotStart: s.Start, SlotEnd: s.End,
				}}))
			}
			places := map[string][]gpu.Place{}
			wholes, minors := map[string]int{}, map[int]string{}
			for owner, h := range b.state.Held {
				for i, d := range h.Devices {
					if o, taken := minors[h.Minors[i]]; taken {
						rt.Fatalf("%s and %s share a device number", o, owner)
					}
					minors[h.Minors[i]] = owner
					if d.Mode == "whole" {
						wholes[d.GPUUUID]++
						continue
					}
					places[d.GPUUUID] = append(places[d.GPUUUID], gpu.Place{Class: d.Profile, Start: d.SlotStart})
				}
			}
			for uuid, n := range wholes {
				if n > 1 || len(places[uuid]) > 0 {
					rt.Fatalf("card %s has two owners", uuid)
				}
			}
			for uuid, p := range places {
				if err := b.card(uuid).geo.Check(p); err != nil {
					rt.Fatal(err)
				}
			}
		}
	})
}
