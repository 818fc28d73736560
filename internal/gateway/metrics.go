package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	maxSamples   = 2000
	gpuTimeout   = 2 * time.Second
	askedAtOnce  = 32
	maxGPUSample = 64 // of one node
)

// Metrics is what the node measured of an instance lately; one that is not on a
// node has none.
func (g *Gateway) Metrics(ctx context.Context, c app.Call, project, instance string) (api.InstanceMetrics, error) {
	out := api.InstanceMetrics{Samples: []api.Sample{}}
	i, err := g.app.InstanceFor(ctx, c, authz.InstanceMetrics, project, instance, false)
	if err != nil || i.NodeID.IsZero() {
		return out, err
	}
	var m nodewire.InstanceMetrics
	if err := g.getJSON(ctx, i.NodeID, path(nodewire.PathMetrics, i.ID), &m); err != nil {
		if cloud.KindOf(err) == cloud.KindConflict {
			return out, nil // its guest is not there yet
		}
		return out, err
	}
	out.IntervalSeconds, out.Simulated = max(0, m.IntervalSeconds), m.Simulated
	for _, s := range m.Samples[max(0, len(m.Samples)-maxSamples):] {
		out.Samples = append(out.Samples, api.Sample(s))
	}
	return out, nil
}

// GPUMetrics asks every connected node for the present moment of its cards. A
// node speaks for its own cards alone.
func (g *Gateway) GPUMetrics(ctx context.Context, c app.Call) (api.GPUMetrics, error) {
	out := api.GPUMetrics{Items: []api.GPUSample{}}
	var nodes []cloud.Node
	for page := (app.Page{Limit: 200}); ; {
		l, err := g.app.NodeList(ctx, c, page)
		if err != nil {
			return out, err
		}
		nodes = append(nodes, l.Items...)
		if page.Token = l.NextPageToken; page.Token == "" {
			break
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, askedAtOnce)
	for _, n := range nodes {
		if len(n.GPUs) == 0 {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			samples, err := g.gpuSamples(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.Unreachable = append(out.Unreachable, n.Name)
			}
			out.Items = append(out.Items, samples...)
		})
	}
	wg.Wait()
	return out, nil
}

func (g *Gateway) gpuSamples(ctx context.Context, n cloud.Node) ([]api.GPUSample, error) {
	ctx, cancel := context.WithTimeout(ctx, gpuTimeout)
	defer cancel()
	var said []nodewire.GPUSample
	if err := g.getJSON(ctx, n.ID, nodewire.PathGPUMetrics, &said); err != nil {
		return nil, err
	}
	own := map[string]cloud.GPU{}
	for _, card := range n.GPUs {
		own[card.UUID] = card
	}
	var out []api.GPUSample
	for _, s := range said[:min(len(said), maxGPUSample)] {
		card, ok := own[s.UUID]
		if !ok {
			continue
		}
		delete(own, s.UUID)
		out = append(out, api.GPUSample{
			GPUID: card.ID.String(), UUID: s.UUID, At: s.At.UTC(), Percent: min(max(s.Percent, 0), 100), MemoryMiB: max(s.MemoryMiB, 0),
			PowerWatts: max(s.PowerWatts, 0), TemperatureC: s.TemperatureC, Simulated: s.Simulated || card.Simulated,
		})
	}
	return out, nil
}
