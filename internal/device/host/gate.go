package host

import (
	"context"
	"fmt"
	"sync"
)

// gate lets nobody ask a driver while a card is taken from it. What runs long, and
// never opens the driver by itself, passes.
type gate struct {
	Driver
	mu *sync.RWMutex
}

func through[T any](g gate, f func() (T, error)) (T, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return f()
}

func (g gate) alone(f func() error) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return f()
}

func (g gate) Cards(ctx context.Context) ([]DriverCard, error) {
	return through(g, func() ([]DriverCard, error) { return g.Driver.Cards(ctx) })
}

func (g gate) Profiles(ctx context.Context, card string) ([]MIGProfile, error) {
	return through(g, func() ([]MIGProfile, error) { return g.Driver.Profiles(ctx, card) })
}

func (g gate) Instances(ctx context.Context, card string) ([]GPUInstance, error) {
	return through(g, func() ([]GPUInstance, error) { return g.Driver.Instances(ctx, card) })
}

func (g gate) CreateInstance(ctx context.Context, card string, profileID, start int) error {
	return g.alone(func() error { return g.Driver.CreateInstance(ctx, card, profileID, start) })
}

func (g gate) DestroyInstance(ctx context.Context, card string, id int) error {
	return g.alone(func() error { return g.Driver.DestroyInstance(ctx, card, id) })
}

func (g gate) SetMIG(ctx context.Context, card string, on bool) (MIGMode, error) {
	return through(g, func() (MIGMode, error) { return g.Driver.SetMIG(ctx, card, on) })
}

func (g gate) Reset(ctx context.Context, card string) error {
	return g.alone(func() error { return g.Driver.Reset(ctx, card) })
}

func (g gate) Defaults(ctx context.Context, card string) error {
	return g.alone(func() error { return g.Driver.Defaults(ctx, card) })
}

func (g gate) SetPersistence(ctx context.Context, card string, on bool) error {
	return g.alone(func() error { return g.Driver.SetPersistence(ctx, card, on) })
}

func (g gate) Samples(ctx context.Context) ([]DriverSample, error) {
	return through(g, func() ([]DriverSample, error) { return g.Driver.Samples(ctx) })
}

// VGPUTypes implements VGPUs where the driver does.
func (g gate) VGPUTypes(ctx context.Context, card string) ([]VGPUType, error) {
	teller, ok := g.Driver.(VGPUs)
	if !ok {
		return nil, fmt.Errorf("list vGPU types of %s: %w", card, ErrRefused)
	}
	return through(g, func() ([]VGPUType, error) { return teller.VGPUTypes(ctx, card) })
}
