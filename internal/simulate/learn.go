package simulate

import "github.com/tenon-cloud/tenon/internal/packing"

// learner is Tenon's policy on a cluster that has seen nothing yet. It counts what
// comes, and weighs anew when twice as much has come, later every so often.
type learner struct {
	*packing.Engine
	empty   []packing.Node
	weights packing.Weights
	mix     packing.Mix
	kinds   []packing.Request
	seen    int
	next    int
}

const (
	learnHalfLife = 4000 // requests
	learnFirst    = 64
	learnEvery    = 2048
)

func newLearner(nodes []packing.Node, w packing.Weights) *learner {
	l := &learner{empty: append([]packing.Node(nil), nodes...), weights: w, mix: packing.Mix{HalfLife: learnHalfLife}, next: learnFirst}
	l.Engine = packing.NewEngine(nodes, packing.NewFit(l.empty, nil, w))
	return l
}

func (l *learner) Class(r packing.Request) int {
	c := l.Engine.Class(r)
	if c == len(l.kinds) {
		l.kinds = append(l.kinds, r)
	}
	return c
}

func (l *learner) Place(class int) (node, card int) {
	l.mix.Add(l.kinds[class])
	if l.seen++; l.seen == l.next {
		l.next += min(l.next, learnEvery)
		l.Reweigh(packing.NewFit(l.empty, l.mix.Shares(), l.weights))
	}
	return l.Engine.Place(class)
}
