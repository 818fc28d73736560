package api

import (
	"context"
	"net/http"
	"net/url"
)

// NodeList reads every node with its cards; operators only, as all below.
func (c *Client) NodeList(ctx context.Context, o PageOptions) (*Page[Node], error) {
	var out Page[Node]
	return &out, c.do(ctx, http.MethodGet, "/v1/nodes", o.query(), nil, &out)
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

// NodeStays lists what a drain leaves on a node, why, and what would move it.
func (c *Client) NodeStays(ctx context.Context, node string) (*List[NodeStay], error) {
	var out List[NodeStay]
	return &out, c.do(ctx, http.MethodGet, "/v1/nodes/"+seg(node)+"/stays", nil, nil, &out)
}

// NodeFence says that a person has made sure that a node is off.
func (c *Client) NodeFence(ctx context.Context, node string) (*Node, error) {
	var out Node
	return &out, c.do(ctx, http.MethodPost, "/v1/nodes/"+seg(node)+"/fence", nil, nil, &out)
}

// NodeForget gives a node up that will not come back.
func (c *Client) NodeForget(ctx context.Context, node string) error {
	return c.do(ctx, http.MethodPost, "/v1/nodes/"+seg(node)+"/forget", nil, nil, nil)
}

// OrphanRemove lets a node end what nobody assigned.
func (c *Client) OrphanRemove(ctx context.Context, node, orphan string) error {
	return c.do(ctx, http.MethodDelete, "/v1/nodes/"+seg(node)+"/orphans/"+url.PathEscape(orphan), nil, nil, nil)
}

// JoinTokenCreate makes a token with which one node may enrol.
func (c *Client) JoinTokenCreate(ctx context.Context, in JoinTokenCreate) (*JoinToken, error) {
	var out JoinToken
	return &out, c.do(ctx, http.MethodPost, "/v1/node-join-tokens", nil, in, &out)
}

// GPUListOptions filter cards.
type GPUListOptions struct {
	PageOptions
	Node  string // name or id
	Model string
	State string
}

// GPUList reads one page of cards with what is held of them.
func (c *Client) GPUList(ctx context.Context, o GPUListOptions) (*Page[GPU], error) {
	q := o.query()
	for name, value := range map[string]string{"node": o.Node, "model": o.Model, "state": o.State} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out Page[GPU]
	return &out, c.do(ctx, http.MethodGet, "/v1/gpus", q, nil, &out)
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

// Capacity counts the cards.
func (c *Client) Capacity(ctx context.Context) (*Capacity, error) {
	var out Capacity
	return &out, c.do(ctx, http.MethodGet, "/v1/capacity", nil, nil, &out)
}

// AlarmListOptions filter alarms.
type AlarmListOptions struct {
	PageOptions
	All bool // cleared ones too
}

// AlarmList reads one page, newest first.
func (c *Client) AlarmList(ctx context.Context, o AlarmListOptions) (*Page[Alarm], error) {
	q := o.query()
	if o.All {
		q.Set("all", "true")
	}
	var out Page[Alarm]
	return &out, c.do(ctx, http.MethodGet, "/v1/alarms", q, nil, &out)
}

// AlarmAcknowledge says that a person has seen it.
func (c *Client) AlarmAcknowledge(ctx context.Context, alarm string) (*Alarm, error) {
	var out Alarm
	return &out, c.do(ctx, http.MethodPost, "/v1/alarms/"+url.PathEscape(alarm)+"/acknowledge", nil, nil, &out)
}

// ReplicaList lists the control plane's processes.
func (c *Client) ReplicaList(ctx context.Context) (*List[Replica], error) {
	var out List[Replica]
	return &out, c.do(ctx, http.MethodGet, "/v1/replicas", nil, nil, &out)
}
