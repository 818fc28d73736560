package simulate

import "github.com/tenon-cloud/tenon/internal/packing"

// learner is Tenon's policy on a cluster that has seen nothing yet. It counts what
// comes, and weighs anew when twice as much has come, later every so often.
type learner struct {
	*board
	mix   packing.Mix
	kinds map[int]packing.Request
	seen  int
	next  int
}

const (
	learnHalfLife = 4000 // requests
	learnFirst    = 64
	learnEvery    = 2048
)

func newLearner(nodes []packing.Node, w packing.Weights) *learner {
	return &learner{board: newBoard(nodes, nil, w), mix: packing.Mix{HalfLife: learnHalfLife}, next: learnFirst, kinds: map[int]packing.Request{}}
}

func (l *learner) Class(r packing.Request) int {
	c := l.board.Class(r)
	l.kinds[c] = r
	return c
}

func (l *learner) Place(class int) bool {
	l.mix.Add(l.kinds[class])
	if l.seen++; l.seen == l.next {
		l.next += min(l.next, learnEvery)
		l.Reweigh(mix(l.mix.Shares()))
	}
	return l.board.Place(class)
}
