package lifecycle

import (
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// silence measures by this process's own clock, which never jumps, for how long
// nodes have not been heard of. The database's clock may be set forward by hours:
// a node that spoke a moment ago would be fenced and go on running.
type silence struct {
	clock func() time.Time
	heard map[cloud.NodeID]hearing
}

// hearing is when a node's latest contact was first seen to be the latest.
type hearing struct{ contact, since time.Time }

// of gives the silence of each node of a list; who is not on it has been heard of
// and begins anew.
func (s *silence) of(list []postgres.SilentNode) map[cloud.NodeID]time.Duration {
	now := s.clock()
	out, heard := make(map[cloud.NodeID]time.Duration, len(list)), make(map[cloud.NodeID]hearing, len(list))
	for _, n := range list {
		h, ok := s.heard[n.ID]
		if !ok || !h.contact.Equal(n.ContactAt) {
			h = hearing{n.ContactAt, now}
		}
		heard[n.ID], out[n.ID] = h, now.Sub(h.since)
	}
	s.heard = heard
	return out
}
