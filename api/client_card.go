package api

import (
	"context"
	"net/http"
	"net/url"
)

// GPUUpdate says what a card is to be; with dryRun it only says what would be.
func (c *Client) GPUUpdate(ctx context.Context, gpu string, in GPUUpdate, dryRun bool) (*GPU, error) {
	var out GPU
	return &out, c.do(ctx, http.MethodPatch, "/v1/gpus/"+seg(gpu), dry(dryRun), in, &out)
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
