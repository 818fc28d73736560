package simulate

import (
	"math/rand"

	"github.com/tenon-cloud/tenon/internal/packing"
)

// placer is what a replay drives.
type placer interface {
	Class(packing.Request) int
	Place(class int) bool
}

// engine is a policy of others, which is no more than a score.
type engine struct{ *packing.Engine }

func (e engine) Place(class int) bool {
	node, _ := e.Engine.Place(class)
	return node >= 0
}

// random places on any node with room, and there on any card, each as likely as
// the others.
type random struct {
	nodes   []packing.Node
	rng     *rand.Rand
	classes []packing.Request
}

func (r *random) Class(req packing.Request) int {
	r.classes = append(r.classes, req)
	return len(r.classes) - 1
}

func (r *random) Place(class int) bool {
	req := &r.classes[class]
	node, card := -1, -1
	for i, fit := 0, 0; i < len(r.nodes); i++ {
		if r.nodes[i].Fits(req) {
			if fit++; r.rng.Intn(fit) == 0 {
				node = i
			}
		}
	}
	if node < 0 {
		return false
	}
	n := &r.nodes[node]
	if req.Shared() {
		for c, fit := 0, 0; c < int(n.Cards); c++ {
			if n.Free[c] >= req.Milli {
				if fit++; r.rng.Intn(fit) == 0 {
					card = c
				}
			}
		}
	}
	n.Take(req, card)
	return true
}
