package packing

import (
	"math"
	"math/bits"
)

// Scorer says how well a request would lie on a node, and on which card a part
// of one. More is better. ok is false where it has no place.
type Scorer interface {
	// Value is what a node is worth as it is; Score is told it again.
	Value(n *Node) float64
	Score(n *Node, value float64, r *Request) (score float32, card int, ok bool)
}

// none is the score of a node without a place.
var none = float32(math.Inf(-1))

const blockBits = 6 // 64 nodes make a block, whose best is known

// Engine places requests one by one, each on the best of all nodes. What a class
// of requests scores on a node is kept until that node changes. The first among
// equals wins, so the order of the nodes decides. Once a class is known, placing
// allocates nothing.
type Engine struct {
	Nodes   []Node
	scorer  Scorer
	version []uint32  // of each node
	worth   []float64 // of each node, by the scorer
	valued  []uint32  // version of each node that was valued; 0: none
	changed []int32   // a ring: the nodes that changed last
	changes int       // so many changes in all
	weights int       // grows when what the scorer thinks changes
	index   map[Request]int
	classes []Request
	rows    []row
}

type cell struct {
	score   float32
	version uint32 // of the node that it was made for
	card    int8
}

// row is one class on all nodes.
type row struct {
	weights int // -1: never made
	changes int // so many were looked at
	cells   []cell
	best    []int32 // of each block; -1: no place
	dirty   []uint64
}

// NewEngine takes the nodes over.
func NewEngine(nodes []Node, s Scorer) *Engine {
	e := &Engine{Nodes: nodes, scorer: s, version: make([]uint32, len(nodes)), worth: make([]float64, len(nodes)), valued: make([]uint32, len(nodes)),
		changed: make([]int32, len(nodes)), index: map[Request]int{}}
	for i := range e.version {
		e.version[i] = 1
	}
	return e
}

// Class is the number of the class of a request.
func (e *Engine) Class(r Request) int {
	id, ok := e.index[r]
	if !ok {
		id = len(e.classes)
		e.index[r] = id
		e.classes = append(e.classes, r)
		e.rows = append(e.rows, row{weights: -1})
	}
	return id
}

// Place books a place for a request of the class; node is -1 when there is none.
func (e *Engine) Place(class int) (node, card int) {
	node, card = e.Best(class)
	if node >= 0 {
		e.Nodes[node].Take(&e.classes[class], card)
		e.Touch(node)
	}
	return node, card
}

// Touch says that somebody changed a node.
func (e *Engine) Touch(node int) {
	e.version[node]++
	if len(e.changed) > 0 {
		e.changed[e.changes%len(e.changed)] = int32(node)
	}
	e.changes++
}

// Reweigh goes on with another scorer, for which nothing is known yet.
func (e *Engine) Reweigh(s Scorer) {
	e.scorer = s
	e.weights++
	clear(e.valued)
}

// Best is the node on which the class scores best; -1: none.
func (e *Engine) Best(class int) (node, card int) {
	r := &e.rows[class]
	e.refresh(r, &e.classes[class])
	best, score := -1, none
	for _, b := range r.best {
		if b >= 0 && r.cells[b].score > score {
			best, score = int(b), r.cells[b].score
		}
	}
	if best < 0 {
		return -1, -1
	}
	return best, int(r.cells[best].card)
}

// refresh looks at the nodes that changed since the row was last asked.
func (e *Engine) refresh(r *row, req *Request) {
	n := len(e.Nodes)
	switch {
	case r.weights != e.weights:
		if r.weights < 0 {
			blocks := (n + 1<<blockBits - 1) >> blockBits
			r.cells, r.best, r.dirty = make([]cell, n), make([]int32, blocks), make([]uint64, (blocks+63)/64)
		}
		r.weights = e.weights
		for i := range e.Nodes {
			e.score(r, req, i)
		}
	case e.changes-r.changes >= n:
		for i := range e.Nodes {
			if r.cells[i].version != e.version[i] {
				e.score(r, req, i)
			}
		}
	default:
		for k := r.changes; k < e.changes; k++ {
			if i := e.changed[k%n]; r.cells[i].version != e.version[i] {
				e.score(r, req, int(i))
			}
		}
	}
	r.changes = e.changes
	for w := range r.dirty {
		for ; r.dirty[w] != 0; r.dirty[w] &= r.dirty[w] - 1 {
			r.settle(w<<6 + bits.TrailingZeros64(r.dirty[w]))
		}
	}
}

func (e *Engine) score(r *row, req *Request, i int) {
	s, card, ok := none, -1, false
	if n := &e.Nodes[i]; n.Fits(req) {
		if e.valued[i] != e.version[i] {
			e.valued[i], e.worth[i] = e.version[i], e.scorer.Value(n)
		}
		s, card, ok = e.scorer.Score(n, e.worth[i], req)
	}
	if !ok {
		s = none
	}
	r.cells[i] = cell{s, e.version[i], int8(card)}
	block := i >> blockBits
	r.dirty[block>>6] |= 1 << (block & 63)
}

// settle finds the best of a block again.
func (r *row) settle(block int) {
	from := block << blockBits
	best, score := int32(-1), none
	for i := from; i < min(from+1<<blockBits, len(r.cells)); i++ {
		if s := r.cells[i].score; s > score {
			best, score = int32(i), s
		}
	}
	r.best[block] = best
}
