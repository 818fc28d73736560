package api

import (
	"context"
	"net/http"
	"net/url"
)

// GPUUpdate says what a card is to be; with dryRun it only says what would be. With
// IfGeneration of its revision it is refused when somebody else said something since.
func (c *Client) GPUUpdate(ctx context.Context, gpu string, in GPUUpdate, dryRun bool, opts ...CallOption) (*GPU, error) {
	var out GPU
	return &out, c.do(ctx, http.MethodPatch, "/v1/gpus/"+seg(gpu), dry(dryRun), in, &out, opts...)
}

// NodeGPUsUpdate says what several cards of a node are to be, each by itself.
func (c *Client) NodeGPUsUpdate(ctx context.Context, node string, in NodeGPUsUpdate, dryRun bool) (*List[GPUUpdateResult], error) {
	var out List[GPUUpdateResult]
	return &out, c.do(ctx, http.MethodPatch, "/v1/nodes/"+seg(node)+"/gpus", dry(dryRun), in, &out)
}

func dry(run bool) url.Values {
	if !run {
		return nil
	}
	return url.Values{"dry_run": {"true"}}
}

// GPURecover has a card checked and, if it passes, offered again.
func (c *Client) GPURecover(ctx context.Context, gpu string) (*GPU, error) {
	var out GPU
	return &out, c.do(ctx, http.MethodPost, "/v1/gpus/"+seg(gpu)+"/recover", nil, nil, &out)
}

// GPUIncidents lists what went wrong with a card, newest first.
func (c *Client) GPUIncidents(ctx context.Context, gpu string) (*List[GPUIncident], error) {
	var out List[GPUIncident]
	return &out, c.do(ctx, http.MethodGet, "/v1/gpus/"+seg(gpu)+"/incidents", nil, nil, &out)
}

// GPUHistory lists who held a card and when, newest first.
func (c *Client) GPUHistory(ctx context.Context, gpu string, o PageOptions) (*Page[GPUStay], error) {
	var out Page[GPUStay]
	return &out, c.do(ctx, http.MethodGet, "/v1/gpus/"+seg(gpu)+"/history", o.query(), nil, &out)
}

// GPUSimulateFault has a simulated card show a fault.
func (c *Client) GPUSimulateFault(ctx context.Context, gpu string, in GPUFault) (*GPU, error) {
	var out GPU
	return &out, c.do(ctx, http.MethodPost, "/v1/gpus/"+seg(gpu)+"/simulate-fault", nil, in, &out)
}

// GPUForget gives up a card that was taken out.
func (c *Client) GPUForget(ctx context.Context, gpu string) error {
	return c.do(ctx, http.MethodPost, "/v1/gpus/"+seg(gpu)+"/forget", nil, nil, nil)
}
