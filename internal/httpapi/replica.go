package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
)

func (s *server) replicaOperations() {
	register(s, operation{method: "GET", path: "/v1/replicas", action: authz.ReplicaList, tag: "Fleet", summary: "List the control plane's processes",
		description: "With which of them leads, and how many nodes are connected to each."}, s.replicaList)
}

func (s *server) replicaList(ctx context.Context, _ *struct{ Strict }) (*out[api.List[api.Replica]], error) {
	l, err := s.app.ReplicaList(ctx, call(ctx, ""))
	return listOf(l, err, func(r app.Replica) api.Replica {
		return api.Replica{ID: r.ID, Address: r.Address, Version: r.Version, Leader: r.Leader, Nodes: r.Nodes, StartedAt: r.StartedAt.UTC(), SeenAt: r.SeenAt.UTC()}
	})
}
