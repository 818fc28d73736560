package api

import (
	"context"
	"net/http"
	"net/url"
)

// NodeList reads every node with its cards; operators only, as all below.
func (c *Client) NodeList(ctx context.Context) (*List[Node], error) {
	var out List[Node]
	return &out, c.do(ctx, http.MethodGet, "/v1/nodes", nil, nil, &out)
}

// NodeGet reads one by name or id.
func (c *Client) NodeGet(ctx context.Context, node string) (*Node, error) {
	var out Node
	return &out, c.do(ctx, http.MethodGet, "/v1/nodes/"+seg(node), nil, nil, &out)
}

// NodeDrain lets nothing new be placed on a node; what runs goes on.
func (c *Client) NodeDrain(ctx context.Context, node string) (*Node, error) {
	var out Node
	return &out, c.do(ctx, http.MethodPost, "/v1/nodes/"+seg(node)+"/drain", nil, nil, &out)
}

// NodeUndrain takes a drain back.
func (c *Client) NodeUndrain(ctx context.Context, node string) (*Node, error) {
	var out Node
	return &out, c.do(ctx, http.MethodPost, "/v1/nodes/"+seg(node)+"/undrain", nil, nil, &out)
}

// JoinTokenCreate makes a token with which one node may enrol.
func (c *Client) JoinTokenCreate(ctx context.Context, in JoinTokenCreate) (*JoinToken, error) {
	var out JoinToken
	return &out, c.do(ctx, http.MethodPost, "/v1/node-join-tokens", nil, in, &out)
}

// GPUList reads every card.
func (c *Client) GPUList(ctx context.Context) (*List[GPU], error) {
	var out List[GPU]
	return &out, c.do(ctx, http.MethodGet, "/v1/gpus", nil, nil, &out)
}

// GPUGet reads one by id or UUID.
func (c *Client) GPUGet(ctx context.Context, gpu string) (*GPU, error) {
	var out GPU
	return &out, c.do(ctx, http.MethodGet, "/v1/gpus/"+seg(gpu), nil, nil, &out)
}

// GPUMetrics reads the present moment of every card that could be asked.
func (c *Client) GPUMetrics(ctx context.Context) (*GPUMetrics, error) {
	var out GPUMetrics
	return &out, c.do(ctx, http.MethodGet, "/v1/gpus/metrics", nil, nil, &out)
}

// PoolList reads the pools.
func (c *Client) PoolList(ctx context.Context) (*List[Pool], error) {
	var out List[Pool]
	return &out, c.do(ctx, http.MethodGet, "/v1/pools", nil, nil, &out)
}

// CapacityList counts the cards by pool and model.
func (c *Client) CapacityList(ctx context.Context) (*List[Capacity], error) {
	var out List[Capacity]
	return &out, c.do(ctx, http.MethodGet, "/v1/capacity", nil, nil, &out)
}

// AlarmListOptions filter alarms.
type AlarmListOptions struct {
	PageOptions
	State string // open, acknowledged or cleared; empty: those not cleared
}

// AlarmList reads one page, newest first.
func (c *Client) AlarmList(ctx context.Context, o AlarmListOptions) (*Page[Alarm], error) {
	q := o.query()
	if o.State != "" {
		q.Set("state", o.State)
	}
	var out Page[Alarm]
	return &out, c.do(ctx, http.MethodGet, "/v1/alarms", q, nil, &out)
}

// AlarmAcknowledge says that a person has seen it.
func (c *Client) AlarmAcknowledge(ctx context.Context, alarm string) (*Alarm, error) {
	var out Alarm
	return &out, c.do(ctx, http.MethodPost, "/v1/alarms/"+url.PathEscape(alarm)+"/acknowledge", nil, nil, &out)
}
