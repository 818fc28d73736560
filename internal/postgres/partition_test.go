package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Partitions are as their node last said, and each node says only its own; a probe
// that failed takes none away.
func TestPartitionsAreAsTheirNodeSays(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n, other := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 2), w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	pair := cloud.Partition{ID: 0, GPUs: []string{"0000:01:00.0", "0000:02:00.0"}}
	single := cloud.Partition{ID: 7, GPUs: []string{"0000:01:00.0"}}
	foreign := single
	foreign.Foreign = true
	for _, c := range []struct {
		what    string
		node    cloud.NodeID
		said    []cloud.Partition
		probeOK bool
		news    bool
		want    []cloud.Partition
	}{
		{"first", n.ID, []cloud.Partition{pair, single}, true, true, []cloud.Partition{pair, single}},
		{"the same", n.ID, []cloud.Partition{pair, single}, true, false, []cloud.Partition{pair, single}},
		{"of another node", other.ID, []cloud.Partition{single}, true, true, []cloud.Partition{pair, single}},
		{"none of another node", other.ID, nil, true, true, []cloud.Partition{pair, single}},
		{"a failed probe", n.ID, nil, false, false, []cloud.Partition{pair, single}},
		{"taken by others", n.ID, []cloud.Partition{pair, foreign}, true, true, []cloud.Partition{pair, foreign}},
		{"one less", n.ID, []cloud.Partition{pair}, true, true, []cloud.Partition{pair}},
		{"none", n.ID, nil, true, true, nil},
	} {
		var nodes []postgres.FleetNode
		err := w.DB.InNode(t.Context(), c.node, func(tx *postgres.Tx) error {
			news, err := postgres.PartitionsReported(t.Context(), tx, c.node, c.said, c.probeOK)
			if err == nil && news != c.news {
				t.Errorf("%s: news %v", c.what, news)
			}
			return err
		})
		if err == nil {
			err = w.DB.InSystem(t.Context(), func(tx *postgres.Tx) (err error) {
				nodes, err = postgres.FleetFree(t.Context(), tx)
				return err
			})
		}
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		for _, f := range nodes {
			if diff := cmp.Diff(c.want, f.Partitions); f.ID == n.ID && diff != "" {
				t.Errorf("%s: %s", c.what, diff)
			}
		}
	}
	err := w.DB.InNode(t.Context(), n.ID, func(tx *postgres.Tx) error {
		_, err := postgres.PartitionsReported(t.Context(), tx, other.ID, []cloud.Partition{single}, true)
		return err
	})
	if err == nil {
		t.Error("a node says another's partitions")
	}
}
