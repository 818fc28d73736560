package host_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestEveryRecordedHostCanBeReported: each card is in a mode and a geometry that
// its model can have, and each that is left out says why.
func TestEveryRecordedHostCanBeReported(t *testing.T) {
	t.Parallel()
	for _, tree := range recorded.Trees() {
		w := newWorld(t, tree)
		inv := w.inventory()
		if !inv.OK {
			t.Errorf("%s: %+v", tree, inv)
		}
		seen := map[string]bool{}
		for i, g := range inv.GPUs {
			m, err := gpu.ModelByKey(g.Model)
			if err != nil || !m.Takes(cloud.GPUMode(g.Mode), g.Geometry) {
				t.Errorf("%s: %s as %s in mode %s (%v)", tree, g.Model, g.Geometry, g.Mode, err)
			}
			if seen[g.UUID] || g.UUID == "" || g.Index != i || g.MemoryMiB <= 0 || g.State != nodewire.GPUReady && g.Reason == "" {
				t.Errorf("%s: %+v", tree, g)
			}
			seen[g.UUID] = true
		}
		for _, e := range w.b.Excluded() {
			if e.Reason == "" || e.Vendor == "" {
				t.Errorf("%s: %+v", tree, e)
			}
		}
		again := w.inventory()
		w.open()
		if after := w.inventory(); !slices.EqualFunc(again.GPUs, after.GPUs, func(a, b nodewire.GPU) bool { return a.UUID == b.UUID && a.State == b.State && a.Mode == b.Mode }) {
			t.Errorf("%s: a restart changed %+v to %+v", tree, again.GPUs, after.GPUs)
		}
	}
}

// TestAFaultOfAnotherCardIsNobodys: a host's own graphics are no concern.
func TestAFaultOfAnotherCardIsNobodys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100")
	w.b.Tell(host.Signal{Card: "0000:99:00.0", XID: 79, GI: -1})
	w.b.Tell(host.Signal{Card: "0000:17:00.0", XID: 94, GI: -1})
	if list := w.b.Incidents(); len(list) != 1 || list[0].PCIAddress != "0000:17:00.0" || list[0].GPUUUID != w.mustGPU("0000:17:00.0").UUID {
		t.Errorf("%+v", list)
	}
}

func TestProcHoldersFindsWhoHasAFileOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vfio-7")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	holders := host.ProcHolders("/proc")
	who, err := holders(context.Background(), []string{"/dev/none", path})
	if err != nil || len(who) != 1 || who[0].PID != os.Getpid() || !strings.Contains(who[0].String(), "host.test") {
		t.Errorf("%v, %v", who, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if who, err := holders(context.Background(), []string{path}); err != nil || len(who) != 0 {
		t.Errorf("%v, %v", who, err)
	}
	if _, err := host.ProcHolders(filepath.Join(t.TempDir(), "none"))(context.Background(), nil); err == nil {
		t.Error("no /proc is nobody")
	}
}

// TestAtRestNothingIsWritten: a board that changes nothing leaves disk and kernel
// alone, with eight cards in 56 slices.
func TestAtRestNothingIsWritten(t *testing.T) {
	t.Parallel()
	m, err := recorded.Tree("hgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := pci.Scan(m, pci.Options{})
	if err != nil || len(inv.Cards) != 8 {
		t.Fatalf("%d cards, %v", len(inv.Cards), err)
	}
	var cards []simnvml.Card
	var wishes []nodewire.Card
	for _, c := range inv.Cards {
		cards = append(cards, simnvml.Card{Model: "h100-80gb", PCIAddress: c.Function.Address.String()})
		w := nodewire.Card{PCIAddress: c.Function.Address.String(), Mode: "mig"}
		for i := range 7 {
			w.Layout = append(w.Layout, nodewire.Place{Profile: "1g", SlotStart: i, SlotEnd: i + 1})
		}
		wishes = append(wishes, w)
	}
	w := newWorld(t, "hgx-h100", withDriver(cards...))
	w.wish(wishes...)
	made := 0
	for _, g := range w.inventory().GPUs {
		made += len(g.Slices)
	}
	if made != 56 {
		t.Fatalf("%d slices", made)
	}
	writes := 0
	w.kill = func() { writes++ }
	began := time.Now()
	const looks = 20
	for range looks {
		w.inventory()
	}
	w.wish(wishes...)
	if _, err := w.b.Held(context.Background()); err != nil || writes > 0 {
		t.Errorf("%d writes at rest (%v)", writes, err)
	}
	t.Logf("one look at 8 cards and 56 slices of a recorded host: %s", time.Since(began)/looks)
}
