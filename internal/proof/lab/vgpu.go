package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

// vgpuType is the one that the lab divides its parent by: two ports each.
const vgpuType, otherType = "Dual port serial", "Single port serial"

// softBus begins the addresses of cards that are no PCI functions.
const softBus = "ffff:"

// mtty is the card that stands for the kernel's sample of a mediated device: it is
// no PCI function, so its address is none of a bus.
func (l *lab) mtty(ctx context.Context) (api.GPU, error) {
	all, err := l.cards(ctx)
	if err != nil {
		return api.GPU{}, err
	}
	for address, g := range all {
		if strings.HasPrefix(address, softBus) {
			return g, nil
		}
	}
	return api.GPU{}, errors.New("the parent of mediated devices is not listed")
}

// divide wishes the parent to be of a type, and waits until it is.
func (l *lab) divide(ctx context.Context, typ string) (g api.GPU, err error) {
	if g, err = l.mtty(ctx); err != nil {
		return g, err
	}
	if _, err := l.cloud.Client.GPUUpdate(ctx, g.ID, api.GPUUpdate{Mode: "vgpu", VGPUType: &typ}, false); err != nil {
		return g, fmt.Errorf("divide it by type %s: %w", typ, err)
	}
	err = until(ctx, time.Minute, func() error {
		if g, err = l.mtty(ctx); err != nil {
			return err
		}
		i := slices.IndexFunc(g.VGPUTypes, func(t api.VGPUType) bool { return t.Name == typ })
		if g.Changing || g.Mode != "vgpu" || g.State != "ready" || i < 0 || g.Geometry != fmt.Sprintf("vgpu%d", g.VGPUTypes[i].Available) {
			return fmt.Errorf("it is %s, mode %s, geometry %s, changing: %v %s", g.State, g.Mode, g.Geometry, g.Changing, g.WishReason)
		}
		return nil
	})
	return g, err
}

// vgpus makes mediated devices for machines.
func (l *lab) vgpus(ctx context.Context) error {
	const one, two = "lab-vgpu-a", "lab-vgpu-b"
	err := l.ok(ctx, "the parent of mediated devices is divided by a type that an operator chose", func(ctx context.Context) (string, error) {
		g, err := l.divide(ctx, vgpuType)
		if err != nil {
			return "", err
		}
		return g.Geometry, l.flavor(ctx, api.FlavorCreate{Name: flavorVGPU, GPUCount: 1, GPUModel: g.Model, GPUMode: "vgpu", GPUProfile: g.Geometry, VCPU: 1})
	})
	if err != nil {
		return err
	}
	err = l.ok(ctx, "two machines get a vGPU each, at places of their own", func(ctx context.Context) (string, error) {
		places := map[string]bool{}
		var ids []string
		for _, name := range []string{one, two} {
			if err := l.create(ctx, name, flavorVGPU); err != nil {
				return "", err
			}
			i, err := l.await(ctx, name, api.StateRunning, startTakes)
			if err != nil {
				return "", err
			}
			// One system boots at a time: two starve each other of the emulated processors.
			if _, err := l.said(ctx, name, bootTakes); err != nil {
				return "", err
			}
			if len(i.GPUs) != 1 {
				return "", fmt.Errorf("%s has %d vGPUs", name, len(i.GPUs))
			}
			place := fmt.Sprintf("%d to %d", i.GPUs[0].SlotStart, i.GPUs[0].SlotEnd)
			places[place] = true
			ids = append(ids, place)
		}
		n, err := l.mediated(ctx)
		if err == nil && (n != 2 || len(places) != 2) {
			err = fmt.Errorf("%d mediated devices on the host, places %v", n, ids)
		}
		return strings.Join(ids, " and "), err
	})
	if err != nil {
		return err
	}
	_ = l.ok(ctx, "inside both, the device is there and gives back what is written to it", func(ctx context.Context) (string, error) {
		var all []string
		for _, name := range []string{one, two} {
			lines, err := l.said(ctx, name, bootTakes)
			if err != nil {
				return "", err
			}
			found := starting(lines, "mtty")
			if len(found) != 1 || !strings.HasSuffix(found[0], " wrote=lab read=lab") {
				return "", fmt.Errorf("in %s: %q; it sees %s", name, found, strings.Join(starting(lines, "pci"), ", "))
			}
			all = append(all, found[0])
		}
		return strings.Join(all, "; "), nil
	})
	_ = l.ok(ctx, "held, it is refused another type, with who holds it", func(ctx context.Context) (string, error) {
		g, err := l.mtty(ctx)
		if err != nil {
			return "", err
		}
		other := otherType
		_, err = l.cloud.Client.GPUUpdate(ctx, g.ID, api.GPUUpdate{Mode: "vgpu", VGPUType: &other}, false)
		if p, ok := err.(*api.Problem); !ok || p.Code != "gpu_in_use" { //nolint:errorlint // the client gives it as it is
			return "", fmt.Errorf("it is answered %v", err)
		}
		return err.Error(), nil
	})
	return l.ok(ctx, "deleted, no mediated device is left", func(ctx context.Context) (string, error) {
		for _, name := range []string{one, two} {
			if err := l.remove(ctx, name); err != nil {
				return "", err
			}
		}
		n, err := l.mediated(ctx)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return "", err
	})
}

// mediated counts the host's mediated devices.
func (l *lab) mediated(ctx context.Context) (n int, err error) {
	text, err := l.host.do(ctx, "ls /sys/bus/mdev/devices | wc -l")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(text, &n)
	return n, err
}
