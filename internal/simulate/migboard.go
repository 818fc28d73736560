package simulate

import (
	"encoding/binary"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/placement"
)

// migBoard is Tenon's own policy: the scheduler's engine, on nodes of eight cards
// that are cut by MIG.
type migBoard struct {
	*placement.Board
	classes []int // by profile
	held    map[[2]int]placement.Booking
	at      map[cloud.GPUID]int
}

const migModel = "simulated"

func slice(class string) placement.Request {
	return placement.Request{Pool: simulatedPool, Shape: cloud.Shape{GPUCount: 1, GPUModel: migModel, GPUMode: cloud.ModeMIG, GPUProfile: class}}
}

func newMIGBoard(g *gpu.Geometry, cards int, mix []float64) *migBoard {
	out := &migBoard{held: map[[2]int]placement.Booking{}, at: map[cloud.GPUID]int{}}
	var s placement.Snapshot
	for i := range cards {
		if i%8 == 0 {
			n := placement.Node{Pool: simulatedPool, State: cloud.NodeReady}
			binary.BigEndian.PutUint32(n.ID[:], uint32(i))
			s.Nodes = append(s.Nodes, n)
		}
		n := &s.Nodes[len(s.Nodes)-1]
		c := placement.GPU{Model: migModel, Mode: cloud.ModeMIG, Geometry: g.Name, State: cloud.GPUReady, NUMANode: -1}
		binary.BigEndian.PutUint32(c.ID[:], uint32(i))
		out.at[c.ID] = i
		n.GPUs = append(n.GPUs, c)
	}
	var policy placement.Policy
	for p, w := range mix {
		policy.Mix = append(policy.Mix, placement.Share{Request: slice(g.Profiles[p].Class), Weight: w})
	}
	out.Board = placement.NewBoard(s, policy)
	for _, p := range g.Profiles {
		out.classes = append(out.classes, out.Class(slice(p.Class)))
	}
	return out
}

// Place books a slice.
func (b *migBoard) Place(profile int) (card, start int) {
	id, _ := b.Board.Place(b.classes[profile], 1, 1)
	if id == 0 {
		return -1, -1
	}
	d := b.Members(id)[0].Devices[0]
	card, start = b.at[d.GPUID], d.Slots.Start
	b.held[[2]int{card, start}] = id
	return card, start
}

// Release gives back the slice that begins at start.
func (b *migBoard) Release(card, start int) bool {
	id, ok := b.held[[2]int{card, start}]
	if ok {
		delete(b.held, [2]int{card, start})
		b.Board.Release(id)
	}
	return ok
}
