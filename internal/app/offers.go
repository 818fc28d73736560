package app

import (
	"context"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/billing"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

func sliceShape(model, profile string, vcpu int, memoryMiB, diskMiB int64) cloud.Shape {
	return cloud.Shape{GPUCount: 1, GPUModel: model, GPUMode: cloud.ModeMIG, GPUProfile: profile, VCPU: vcpu, MemoryMiB: memoryMiB, DiskMiB: diskMiB}
}

func wholeShape(count int, model string, vcpu int, memoryMiB, diskMiB int64) cloud.Shape {
	return cloud.Shape{GPUCount: count, GPUModel: model, GPUMode: cloud.ModeWhole, GPUProfile: gpu.Whole, VCPU: vcpu, MemoryMiB: memoryMiB, DiskMiB: diskMiB}
}

// firstFlavors are what a new cloud offers: shapes that its local board (two
// H100, one of them cut, and a cut A100) can take, with little vCPU and memory,
// since the local node is small. Whole cards have room for a VM's disk.
func firstFlavors() []cloud.Flavor {
	slice := func(model, profile string) cloud.Shape { return sliceShape(model, profile, 1, 512, 2048) }
	return []cloud.Flavor{
		{Name: "cpu-small", Description: "1 vCPU and 512 MiB, no GPU", Shape: cloud.Shape{VCPU: 1, MemoryMiB: 512, DiskMiB: 2048}},
		{Name: "cpu-medium", Description: "2 vCPU and 1 GiB, no GPU", Shape: cloud.Shape{VCPU: 2, MemoryMiB: 1024, DiskMiB: 4096}},
		{Name: "h100-1g-10gb", Description: "An eighth of an H100's memory", Shape: slice("h100-80gb", "1g")},
		{Name: "h100-1g-20gb", Description: "One compute slice of an H100 with a quarter of its memory", Shape: slice("h100-80gb", "1g2")},
		{Name: "h100-2g-20gb", Description: "A quarter of an H100's memory", Shape: slice("h100-80gb", "2g")},
		{Name: "h100-3g-40gb", Description: "Half of an H100's memory", Shape: slice("h100-80gb", "3g")},
		{Name: "h100-4g-40gb", Description: "Half of an H100's memory, four of its seven compute slices", Shape: slice("h100-80gb", "4g")},
		{Name: "h100-7g-80gb", Description: "All of a cut H100", Shape: slice("h100-80gb", "7g")},
		{Name: "h100-1x", Description: "A whole H100", Shape: wholeShape(1, "h100-80gb", 2, 1024, 8192)},
		{Name: "a100-1g-10gb", Description: "An eighth of an A100's memory", Shape: slice("a100-80gb", "1g")},
		{Name: "a100-2g-20gb", Description: "A quarter of an A100's memory", Shape: slice("a100-80gb", "2g")},
		{Name: "a100-3g-40gb", Description: "Half of an A100's memory", Shape: slice("a100-80gb", "3g")},
	}
}

// laterFlavors came with virtual machines and the simulated fleet: a small VM,
// and what a two-socket server with eight cards is sold as.
func laterFlavors() []cloud.Flavor {
	const gib = 1 << 10
	return []cloud.Flavor{
		{Name: "vm-small", Description: "1 vCPU, 1 GiB and a disk of 8 GiB, no GPU", Shape: cloud.Shape{VCPU: 1, MemoryMiB: 1 * gib, DiskMiB: 8 * gib}},
		{Name: "h100-2x", Description: "Two whole H100", Shape: wholeShape(2, "h100-80gb", 48, 384*gib, 256*gib)},
		{Name: "h100-4x", Description: "Four whole H100", Shape: wholeShape(4, "h100-80gb", 96, 768*gib, 512*gib)},
		{Name: "h100-8x", Description: "Eight whole H100: a server", Shape: wholeShape(8, "h100-80gb", 192, 1536*gib, 1024*gib)},
		{Name: "a100-1x", Description: "A whole A100 with 80 GB", Shape: wholeShape(1, "a100-80gb", 24, 112*gib, 128*gib)},
		{Name: "a100-8x", Description: "Eight whole A100: a server", Shape: wholeShape(8, "a100-80gb", 192, 896*gib, 1024*gib)},
		{Name: "a100-40gb-2x", Description: "A pair of A100 with 40 GB, joined", Shape: wholeShape(2, "a100-40gb", 24, 112*gib, 128*gib)},
		{Name: "a30-1x", Description: "A whole A30", Shape: wholeShape(1, "a30-24gb", 16, 64*gib, 64*gib)},
		{Name: "a30-1g-6gb", Description: "A quarter of an A30", Shape: sliceShape("a30-24gb", "1g", 2, 8*gib, 32*gib)},
		{Name: "a30-2g-12gb", Description: "Half of an A30", Shape: sliceShape("a30-24gb", "2g", 4, 16*gib, 32*gib)},
		{Name: "b200-1x", Description: "A whole B200", Shape: wholeShape(1, "b200-180gb", 24, 192*gib, 256*gib)},
		{Name: "b200-8x", Description: "Eight whole B200: a server", Shape: wholeShape(8, "b200-180gb", 192, 1536*gib, 1024*gib)},
		{Name: "b200-1g-23gb", Description: "An eighth of a B200's memory", Shape: sliceShape("b200-180gb", "1g", 2, 16*gib, 32*gib)},
	}
}

func firstOffers(ctx context.Context, tx *postgres.Tx, now time.Time) error {
	for _, f := range append(firstFlavors(), laterFlavors()...) {
		f.ID, f.CreatedAt = cloud.FlavorID{}.New(), now
		if err := postgres.FlavorAdd(ctx, tx, f); err != nil {
			return err
		}
	}
	for _, p := range billing.FirstPrices(now) {
		if err := postgres.PriceAdd(ctx, tx, priceRow(p)); err != nil {
			return err
		}
	}
	return nil
}

func priceRow(p billing.Price) postgres.Price {
	return postgres.Price{ID: cloud.PriceID{}.New(), SKU: p.SKU, Currency: currency, MicrosPerHour: p.MicrosPerHour, StartsAt: p.StartsAt}
}

// laterOffers adds to a cloud of before what came with virtual machines: the
// price of volumes, the pool of simulated nodes and its flavors. The price tells
// whether it was done, since a price that has started is never taken away; so
// what an operator removed afterwards stays away.
func laterOffers(ctx context.Context, tx *postgres.Tx) error {
	prices, err := postgres.PriceList(ctx, tx)
	if err != nil || slices.ContainsFunc(prices, func(p postgres.Price) bool { return p.SKU == billing.SKUVolumeGiB }) {
		return err
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	for _, p := range billing.FirstPrices(now) {
		if p.SKU == billing.SKUVolumeGiB {
			if err := postgres.PriceAdd(ctx, tx, priceRow(p)); err != nil {
				return err
			}
		}
	}
	pools, err := postgres.PoolList(ctx, tx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(pools, func(p cloud.Pool) bool { return p.Name == cloud.SimulatedPool }) {
		if err := postgres.PoolAdd(ctx, tx, cloud.Pool{ID: cloud.PoolID{}.New(), Name: cloud.SimulatedPool, Simulated: true}); err != nil {
			return err
		}
	}
	have, err := postgres.FlavorList(ctx, tx)
	if err != nil {
		return err
	}
	for _, f := range laterFlavors() {
		if slices.ContainsFunc(have, func(h cloud.Flavor) bool { return h.Name == f.Name }) {
			continue // an operator's own
		}
		f.ID, f.CreatedAt = cloud.FlavorID{}.New(), now
		if err := postgres.FlavorAdd(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}
