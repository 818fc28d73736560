package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// hgxCards are the cards of the recorded host.
var hgxCards = []string{"0000:0a:00.0", "0000:11:00.0", "0000:18:00.0", "0000:69:00.0", "0000:9d:00.0", "0000:ad:00.0", "0000:bd:00.0", "0000:dd:00.0"}

// lookEvery is how often an agent reads its cards and their figures.
const lookEvery = 5 * time.Second

// noCDI stands for a container engine that is told nothing.
type noCDI struct{}

// Present implements host.CDI.
func (noCDI) Present(_ context.Context, _ string, uuids, _ []string) ([]string, error) {
	return uuids, nil
}

// Withdraw implements host.CDI.
func (noCDI) Withdraw(context.Context, string) error { return nil }

// hostBoard measures what the code for real cards takes with every slice of eight
// held: a recorded host and a simulated driver, in this process. What the vendor's
// library itself takes is not in it, and what the recorded host takes is.
func hostBoard(ctx context.Context, rounds int) error {
	dir, err := os.MkdirTemp("", "tenon-proof-board-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	sys, err := recorded.Tree("hgx-h100")
	if err != nil {
		return err
	}
	var cards []simnvml.Card
	var wishes []nodewire.Card
	for _, c := range hgxCards {
		cards = append(cards, simnvml.Card{Model: "h100-80gb", PCIAddress: c})
		wishes = append(wishes, nodewire.Card{PCIAddress: c, Mode: "mig"})
	}
	driver, err := simnvml.New(cards...)
	if err != nil {
		return err
	}
	before := heap()
	b, err := host.Open(ctx, host.Config{Sys: sys, Options: pci.Options{}, Driver: driver, CDI: noCDI{}, StateDir: dir, BootID: "boot-1"})
	if err != nil {
		return err
	}
	if err := b.Wish(ctx, wishes); err != nil {
		return err
	}
	inv, err := b.Inventory(ctx)
	if err != nil {
		return err
	}
	held := 0
	for _, g := range inv.GPUs {
		for slot := range 7 {
			want := device.Request{InstanceID: fmt.Sprintf("inst-%d-%d", g.Index, slot), Epoch: 1, Kind: "container",
				Devices: []nodewire.Device{{GPUUUID: g.UUID, Mode: "mig", Profile: "1g", SlotStart: slot, SlotEnd: slot + 1}}}
			if _, err := b.Prepare(ctx, want); err != nil {
				return err
			}
			held++
		}
	}
	began := spent()
	for range rounds {
		if _, err := b.Inventory(ctx); err != nil {
			return err
		}
		if _, _, err := b.Telemetry(ctx); err != nil {
			return err
		}
	}
	look := (spent() - began) / time.Duration(rounds)
	began = spent()
	for range rounds {
		if _, err := pci.Scan(sys, pci.Options{}); err != nil {
			return err
		}
	}
	scan := (spent() - began) / time.Duration(rounds)
	fmt.Printf("code for real cards, %d of them on a recorded host with %d slices held: %s of CPU a look and figures, every %s, are %.2f %% of a core; %.1f times one reading of the same host's PCI functions; %.1f MiB of heap\n",
		len(inv.GPUs), held, look.Round(time.Microsecond), lookEvery, 100*float64(look)/float64(lookEvery), float64(look)/float64(scan), mib(heap()-before))
	runtime.KeepAlive(b)
	return nil
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// spent is the CPU that this process has taken.
func spent() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
