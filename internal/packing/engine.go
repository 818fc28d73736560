package packing

// Scorer says how well a request would lie on a node, and on which card a part
// of one. More is better. ok is false where it has no place.
type Scorer interface {
	// Value is what a node is worth as it is; Score is told it again.
	Value(n *Node) float64
	Score(n *Node, value float64, r *Request) (score float32, card int, ok bool)
}

// Engine places requests one by one, each on the best of all nodes, by any
// scorer: what Tenon's own board is compared with. Once a class is known, placing
// allocates nothing.
type Engine struct {
	Nodes   []Node
	scorer  Scorer
	table   *Table
	worth   []float64 // of each node, by the scorer
	valued  []uint32  // version of each node that was valued; 0: none
	index   map[Request]int
	classes []Request
}

// NewEngine takes the nodes over.
func NewEngine(nodes []Node, s Scorer) *Engine {
	e := &Engine{Nodes: nodes, scorer: s, worth: make([]float64, len(nodes)), valued: make([]uint32, len(nodes)), index: map[Request]int{}}
	e.table = NewTable(len(nodes), e.score)
	return e
}

// Class is the number of the class of a request.
func (e *Engine) Class(r Request) int {
	id, ok := e.index[r]
	if !ok {
		id = e.table.Add()
		e.index[r] = id
		e.classes = append(e.classes, r)
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
func (e *Engine) Touch(node int) { e.table.Touch(node) }

// Reweigh goes on with another scorer, for which nothing is known yet.
func (e *Engine) Reweigh(s Scorer) {
	e.scorer = s
	e.table.Forget()
	clear(e.valued)
}

// Best is the node on which the class scores best; -1: none.
func (e *Engine) Best(class int) (node, card int) { return e.table.Best(class) }

func (e *Engine) score(class, i int) (Key, int8) {
	n, req := &e.Nodes[i], &e.classes[class]
	if !n.Fits(req) {
		return 0, -1
	}
	if v := e.table.Version(i); e.valued[i] != v {
		e.valued[i], e.worth[i] = v, e.scorer.Value(n)
	}
	s, card, ok := e.scorer.Score(n, e.worth[i], req)
	if !ok {
		return 0, -1
	}
	return KeyOf(0, s), int8(card)
}
