package simulate

import (
	"encoding/binary"
	"strconv"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/packing"
	"github.com/tenon-cloud/tenon/internal/placement"
)

const simulatedPool = "simulated"

// board is Tenon's own policy: the engine that the scheduler of a cloud places by.
type board struct{ *placement.Board }

// modelName is what a model is called on a board; a trace's names say no more.
func modelName(number uint8) string { return "model" + strconv.Itoa(int(number)) }

// snapshot makes nodes of a trace into those of a cloud. Their order, which breaks
// ties, is that of their ids.
func snapshot(nodes []packing.Node) placement.Snapshot {
	s := placement.Snapshot{Nodes: make([]placement.Node, len(nodes)), Thousandths: true}
	for i := range nodes {
		from, n := &nodes[i], &s.Nodes[i]
		*n = placement.Node{Pool: simulatedPool, State: cloud.NodeReady, VCPU: int(from.CPUMilli), FreeVCPU: int(from.CPUMilli),
			MemoryMiB: int64(from.MemoryMiB), FreeMemoryMiB: int64(from.MemoryMiB)}
		binary.BigEndian.PutUint32(n.ID[:], uint32(i))
		for c := range from.Cards {
			g := placement.GPU{Model: modelName(from.Model), Mode: cloud.ModeWhole, State: cloud.GPUReady, NUMANode: -1, Units: packing.Milli}
			g.ID = cloud.GPUID(n.ID)
			g.ID[len(g.ID)-1] = c
			n.GPUs = append(n.GPUs, g)
		}
	}
	return s
}

// asked makes a trace's request into one of a cloud.
func asked(r packing.Request) placement.Request {
	out := placement.Request{Pool: simulatedPool, Shape: cloud.Shape{VCPU: int(r.CPUMilli), MemoryMiB: int64(r.MemoryMiB), GPUCount: int(r.Cards)}}
	if r.Cards == 0 {
		return out
	}
	out.Shape.GPUMode = cloud.ModeWhole
	if r.Shared() {
		out.Units = int(r.Milli)
	}
	if r.Models == 0 {
		out.Models = []string{placement.AnyModel}
	}
	for m := range uint8(64) {
		if r.Models>>m&1 != 0 {
			out.Models = append(out.Models, modelName(m))
		}
	}
	return out
}

func mix(shares []packing.Share) []placement.Share {
	out := make([]placement.Share, len(shares))
	for i, s := range shares {
		out[i] = placement.Share{Request: asked(s.Request), Weight: s.Weight}
	}
	return out
}

func newBoard(nodes []packing.Node, shares []packing.Share, w packing.Weights) *board {
	return &board{placement.NewBoard(snapshot(nodes), placement.Policy{Mix: mix(shares), Weights: w})}
}

func (b *board) Class(r packing.Request) int { return b.Board.Class(asked(r)) }

func (b *board) Place(class int) bool {
	id, _ := b.Board.Place(class, 1, 1)
	return id > 0
}
