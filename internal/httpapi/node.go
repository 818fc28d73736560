package httpapi

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// NodePath names a node.
type NodePath struct {
	Strict
	Node string `path:"node" maxLength:"100" doc:"Name or id"`
}

func (s *server) nodeOperations() {
	const tag = "Fleet"
	register(s, operation{method: "GET", path: "/v1/nodes", action: authz.NodeList, tag: tag, summary: "List nodes", description: "With their cards."}, s.nodeList)
	register(s, operation{method: "GET", path: "/v1/nodes/{node}", action: authz.NodeRead, tag: tag, summary: "Show a node"}, s.nodeGet)
	register(s, operation{method: "POST", path: "/v1/nodes/{node}/drain", action: authz.NodeDrain, tag: tag, summary: "Place nothing new on a node", description: "What runs there goes on.", status: 200}, s.nodeDrain)
	register(s, operation{method: "POST", path: "/v1/nodes/{node}/undrain", action: authz.NodeUndrain, tag: tag, summary: "Take a drain back", status: 200}, s.nodeUndrain)
	register(s, operation{method: "GET", path: "/v1/nodes/{node}/stays", action: authz.NodeStays, tag: tag, summary: "List what stays on a node", description: "What a drain leaves there, why, and what would move it; at most 1,000 of each reason."}, s.nodeStays)
	register(s, operation{method: "POST", path: "/v1/nodes/{node}/fence", action: authz.NodeFence, tag: tag, summary: "Confirm that a node is off", status: 200,
		description: "Only say so when it is true: instances that may restart elsewhere do so at once, and would run twice if they still ran there. Refused while the node reports."}, s.nodeFence)
	register(s, operation{method: "POST", path: "/v1/nodes/{node}/forget", action: authz.NodeForget, tag: tag, summary: "Give a node up", status: 204,
		description: "It will not come back: what it held is free, data that lay there is lost, its certificates end and its name is free. Refused unless it is lost or confirmed off."}, s.nodeForget)
	register(s, operation{method: "DELETE", path: "/v1/nodes/{node}/orphans/{orphan}", action: authz.NodeRemoveOrphan, tag: tag, summary: "Let a node end what nobody assigned", status: 204,
		description: "Whatever it runs or keeps under this id is destroyed, data too."}, s.orphanRemove)
	register(s, operation{method: "POST", path: "/v1/node-join-tokens", action: authz.NodeJoinTokenCreate, tag: tag, summary: "Make a token with which one node may enrol", status: 201}, s.joinTokenCreate)
	register(s, operation{method: "GET", path: "/v1/pools", action: authz.PoolList, tag: tag, summary: "List pools"}, s.poolList)
}

func (s *server) nodeList(ctx context.Context, in *struct{ Paged }) (*out[api.Page[api.Node]], error) {
	l, err := s.app.NodeList(ctx, call(ctx, ""), in.page())
	return pageOf(l, err, nodeOf)
}

func (s *server) nodeGet(ctx context.Context, in *NodePath) (*out[api.Node], error) {
	n, err := s.app.NodeGet(ctx, call(ctx, ""), in.Node)
	return oneOf(n, err, nodeOf)
}

func (s *server) nodeDrain(ctx context.Context, in *NodePath) (*out[api.Node], error) {
	n, err := s.app.NodeDrain(ctx, call(ctx, ""), in.Node)
	return oneOf(n, err, nodeOf)
}

func (s *server) nodeUndrain(ctx context.Context, in *NodePath) (*out[api.Node], error) {
	n, err := s.app.NodeUndrain(ctx, call(ctx, ""), in.Node)
	return oneOf(n, err, nodeOf)
}

func (s *server) nodeStays(ctx context.Context, in *NodePath) (*out[api.List[api.NodeStay]], error) {
	l, err := s.app.NodeStays(ctx, call(ctx, ""), in.Node)
	return listOf(l, err, stayOf)
}

func (s *server) nodeFence(ctx context.Context, in *NodePath) (*out[api.Node], error) {
	n, err := s.app.NodeFence(ctx, call(ctx, ""), in.Node)
	return oneOf(n, err, nodeOf)
}

func (s *server) nodeForget(ctx context.Context, in *NodePath) (*none, error) {
	return nil, s.app.NodeForget(ctx, call(ctx, ""), in.Node)
}

func (s *server) orphanRemove(ctx context.Context, in *struct {
	NodePath
	Orphan string `path:"orphan" maxLength:"200" doc:"Its id, as the node reports it"`
}) (*none, error) {
	return nil, s.app.OrphanRemove(ctx, call(ctx, ""), in.Node, in.Orphan)
}

func (s *server) joinTokenCreate(ctx context.Context, in *struct {
	Strict
	Body api.JoinTokenCreate
}) (*out[api.JoinToken], error) {
	t, err := s.app.JoinTokenCreate(ctx, call(ctx, ""), app.JoinTokenInput{
		Pool: in.Body.Pool, ValidFor: time.Duration(in.Body.ExpiresInMinutes) * time.Minute,
	})
	return oneOf(t, err, func(t app.JoinToken) api.JoinToken {
		return api.JoinToken{JoinToken: t.Secret, Pool: t.Pool, ExpiresAt: t.ExpiresAt.UTC()}
	})
}

func (s *server) poolList(ctx context.Context, _ *struct{ Strict }) (*out[api.List[api.Pool]], error) {
	l, err := s.app.PoolList(ctx, call(ctx, ""))
	return listOf(l, err, func(p cloud.Pool) api.Pool {
		return api.Pool{ID: p.ID.String(), Name: p.Name, Simulated: p.Simulated}
	})
}

func stayOf(s cloud.Stay) api.NodeStay {
	return api.NodeStay{InstanceID: idOf(s.InstanceID), Instance: s.InstanceName, Org: s.OrgName, VolumeID: idOf(s.VolumeID), Orphan: s.Orphan,
		Kind: s.Kind, State: s.State, Reason: s.Reason, Message: s.Message}
}

func nodeOf(n cloud.Node) api.Node {
	out := api.Node{
		ID: n.ID.String(), Name: n.Name, Pool: n.PoolName, State: string(n.State), Drained: n.Drained, Simulated: n.Simulated,
		VCPU: n.VCPU, MemoryMiB: n.MemoryMiB, CPUOvercommit: n.CPUOvercommit, UsedVCPU: n.UsedVCPU, UsedMemoryMiB: n.UsedMemoryMiB,
		AgentVersion: n.AgentVersion, Generation: n.Generation, AckGeneration: n.AckGeneration, LastSeenAt: utc(n.LastSeenAt),
		CreatedAt: n.CreatedAt.UTC(), GPUs: each(n.GPUs, gpuOf),
		Labels: n.Labels, Kinds: each(n.Kinds, func(k string) string { return k }), Drivers: n.Drivers, Watchdog: n.Watchdog, FencedAt: utc(n.FencedAt),
		Excluded:   each(n.Excluded, func(x cloud.Excluded) api.ExcludedDevice { return api.ExcludedDevice(x) }),
		Partitions: each(n.Partitions, func(p cloud.Partition) api.Partition { return api.Partition(p) }),
		Orphans:    each(n.Orphans, func(o cloud.Orphan) api.Orphan { return api.Orphan{Driver: o.Driver, ID: o.ID, What: o.What} }),
	}
	switch {
	case n.FencedByHand:
		out.FencedBy = "operator"
	case n.FencedAt != nil:
		out.FencedBy = "watchdog"
	}
	if n.Counted {
		c := api.NodeStayCounts(n.Stays)
		out.Stays = &c
	}
	return out
}
